"""Decoding records in Protobuf."""
