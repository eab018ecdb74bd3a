"""Confluent's wire format: how a record names the schema that it was written by.

Either 0x00 and the id in 4 bytes are in front of its value, or a header has 0x01 and the schema's GUID in 16 bytes.
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
"""

from typing import TypeAlias
from uuid import UUID

HEADER = "__value_schema_id"
"""The name of the header."""

SchemaId: TypeAlias = int | UUID

_ID, _GUID = 0, 1
"""The first byte."""
_SIZE_WITH_ID, _SIZE_WITH_GUID = 5, 17
_LARGEST_ID = 0x7FFFFFFF
"""A registry would not take a larger one for an id."""
_OF_HEADER = f"want 0x{_GUID:02x} and 16 bytes of a GUID, or 0x{_ID:02x} and 4 bytes of an id"


class NoSchemaIdError(Exception):
    """A record does not name its schema. The text is the reason for its rejection."""


def schema_id_of(value: bytes, header: bytes | None) -> tuple[SchemaId, int]:
    """The id of the schema that a record was written by, and the place in ``value`` behind it.

    ``header`` is the value of the record's HEADER. None: it has none. Raises NoSchemaIdError.
    """
    if header is not None:
        return _id_in_header(header), 0
    if len(value) < _SIZE_WITH_ID or value[0] != _ID:
        got = f"{len(value)} bytes" if value[0] == _ID else f"0x{value[0]:02x} as the first byte"
        raise NoSchemaIdError(f"no schema id: got {got}, want 0x{_ID:02x} and 4 bytes of an id, or the header {HEADER}")
    return _id_of(value), _SIZE_WITH_ID


def _id_in_header(header: bytes) -> SchemaId:
    if len(header) == _SIZE_WITH_GUID and header[0] == _GUID:
        return UUID(bytes=header[1:])
    if len(header) == _SIZE_WITH_ID and header[0] == _ID:
        return _id_of(header)
    got = f"{len(header)} bytes, the first 0x{header[0]:02x}" if header else "no bytes"
    raise NoSchemaIdError(f"no schema id in the header {HEADER}: got {got}, {_OF_HEADER}")


def _id_of(written: bytes) -> int:
    number = int.from_bytes(written[1:_SIZE_WITH_ID], "big")
    if number > _LARGEST_ID:
        raise NoSchemaIdError(f"no schema id: got {number}, want at most {_LARGEST_ID}")
    return number
