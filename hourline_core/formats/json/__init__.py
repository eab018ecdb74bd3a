"""JSON objects: bytes become typed Arrow columns, or a reason."""

from hourline_core.formats.json.decoder import DecodedRecords, JsonDecoder

__all__ = ["DecodedRecords", "JsonDecoder"]
