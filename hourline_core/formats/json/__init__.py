"""JSON objects: bytes become typed Arrow columns, or a reason."""
