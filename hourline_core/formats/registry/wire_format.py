"""Confluent's wire format: how a record names the schema that it was written by.

Either 0x00 and the id in 4 bytes are in front of its value, or a header has 0x01 and the schema's GUID in 16 bytes. A
schema of Protobuf has several messages. The place of the record's message follows the id, wherever that is: the number
of indexes, then that of a message among those on top of the file, and so on of those within it. All are zigzag varints,
and a zero alone is the first message.
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
"""

from typing import NamedTuple, TypeAlias
from uuid import UUID

HEADER = "__value_schema_id"
"""The name of the header."""

SchemaId: TypeAlias = int | UUID


class WrittenBy(NamedTuple):
    """What a record was written by."""

    schema: SchemaId
    message: tuple[int, ...] = ()
    """The place of its message in a schema of Protobuf: an index on each level. Empty: of other formats."""


_ID, _GUID = 0, 1
"""The first byte."""
_SIZE_WITH_ID, _SIZE_WITH_GUID = 5, 17
_LARGEST_ID = 0x7FFFFFFF
"""A registry would not take a larger one for an id."""
_OF_HEADER = f"want 0x{_GUID:02x} and 16 bytes of a GUID, or 0x{_ID:02x} and 4 bytes of an id"
_MOST_INDEXES, _LARGEST_INDEX = 100, 1 << 20
"""No schema has as many levels of messages, or messages on a level."""
_BITS_OF_INDEX = 28
_LAST_BYTE = 0x7F
"""The largest byte that ends a varint."""


class NoSchemaIdError(Exception):
    """A record does not name its schema. The text is the reason for its rejection."""


def written_by(value: bytes, header: bytes | None, has_messages: bool = False) -> tuple[WrittenBy, int]:
    """What a record was written by, and the place in ``value`` behind what names it.

    ``header`` is the value of the record's HEADER. None: it has none. ``has_messages``: whether its schema is one of
    Protobuf. Raises NoSchemaIdError.
    """
    if header is not None:
        schema_id, begin = _id_in_header(header, has_messages)
        if not has_messages:
            return WrittenBy(schema_id), 0
        message, end = _message_in(header, begin, schema_id)
        if end < len(header):
            raise NoSchemaIdError(f"schema id {schema_id}: got {len(header) - end} bytes behind the message's indexes")
        return WrittenBy(schema_id, message), 0
    if len(value) < _SIZE_WITH_ID or value[0] != _ID:
        got = f"0x{value[0]:02x} as the first byte" if value and value[0] != _ID else f"{len(value)} bytes"
        raise NoSchemaIdError(f"no schema id: got {got}, want 0x{_ID:02x} and 4 bytes of an id, or the header {HEADER}")
    schema_id = _id_of(value)
    if not has_messages:
        return WrittenBy(schema_id), _SIZE_WITH_ID
    message, end = _message_in(value, _SIZE_WITH_ID, schema_id)
    return WrittenBy(schema_id, message), end


def _id_in_header(header: bytes, has_messages: bool) -> tuple[SchemaId, int]:
    """The id, and the place behind it. Something is behind it if the schema ``has_messages``."""
    size = {_ID: _SIZE_WITH_ID, _GUID: _SIZE_WITH_GUID}.get(header[0], 0) if header else 0
    if size and (len(header) > size if has_messages else len(header) == size):
        return (_id_of(header) if header[0] == _ID else UUID(bytes=header[1:size])), size
    got = f"{len(header)} bytes, the first 0x{header[0]:02x}" if header else "no bytes"
    more = ", then indexes of a message" if has_messages else ""
    raise NoSchemaIdError(f"no schema id in the header {HEADER}: got {got}, {_OF_HEADER}{more}")


def _id_of(written: bytes) -> int:
    number = int.from_bytes(written[1:_SIZE_WITH_ID], "big")
    if number > _LARGEST_ID:
        raise NoSchemaIdError(f"no schema id: got {number}, want at most {_LARGEST_ID}")
    return number


def _message_in(written: bytes, begin: int, schema_id: SchemaId) -> tuple[tuple[int, ...], int]:
    """The indexes from ``begin`` on, and the place behind them."""
    count, place = _zigzag(written, begin, schema_id)
    if not 0 <= count <= _MOST_INDEXES:
        raise NoSchemaIdError(f"schema id {schema_id}: got {count} indexes of a message, want 0 to {_MOST_INDEXES}")
    indexes = []
    for _ in range(count):
        index, place = _zigzag(written, place, schema_id)
        if not 0 <= index <= _LARGEST_INDEX:
            raise NoSchemaIdError(f"schema id {schema_id}: got {index} as the index of a message")
        indexes.append(index)
    return tuple(indexes) or (0,), place


def _zigzag(written: bytes, place: int, schema_id: SchemaId) -> tuple[int, int]:
    number = 0
    for shift in range(0, _BITS_OF_INDEX, 7):
        if place >= len(written):
            raise NoSchemaIdError(f"schema id {schema_id}: got the end of the bytes within the message's indexes")
        byte = written[place]
        number |= (byte & _LAST_BYTE) << shift
        place += 1
        if byte <= _LAST_BYTE:
            return number >> 1 ^ -(number & 1), place
    raise NoSchemaIdError(f"schema id {schema_id}: got an index of more than {_BITS_OF_INDEX} bits of a message")
