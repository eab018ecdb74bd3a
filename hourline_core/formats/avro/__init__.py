"""Avro's binary encoding: bytes become typed Arrow columns, or a reason."""
