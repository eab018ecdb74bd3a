"""Messages of Protobuf: schemas as text, bytes that Google's library writes, and what the decoder makes of them."""

from functools import cache
from typing import Any

import pyarrow as pa
from google.protobuf import text_format
from google.protobuf.message_factory import GetMessageClass

from hourline_core.formats.format import decoder_of
from hourline_core.model.fields import Field
from hourline_core.model.protobuf_schema import descriptor_of
from hourline_core.model.record_format import RecordFormat


def schema_of(body: str, *imports: str, syntax: str = "proto3") -> str:
    """A schema whose package is ``t``."""
    return "\n".join([f'syntax = "{syntax}";', "package t;", *(f'import "{name}";' for name in imports), body])


def format_of(schema: str, message: str = "t.M") -> RecordFormat:
    """The format of records that are ``message``."""
    return RecordFormat.model_validate({"protobuf": {"schema": schema, "message": message}})


@cache
def message_class(schema: str, message: str = "t.M") -> Any:
    """The class of ``message`` as Google's library makes it of the schema."""
    declared = format_of(schema, message).protobuf
    assert declared
    return GetMessageClass(descriptor_of(declared.compiled, message))


def write(schema: str, text: str, message: str = "t.M") -> bytes:
    """The bytes of a message that is given in Protobuf's text format. Members that are required may lack."""
    written = message_class(schema, message)()
    text_format.Merge(text, written)
    return bytes(written.SerializePartialToString())


def decode(
    schema: str, fields: dict[str, Field], *values: bytes | None, message: str = "t.M"
) -> tuple[list[dict[str, Any]], list[str | None]]:
    """The rows and the reasons of records that are ``message``."""
    decoded = decoder_of(format_of(schema, message), fields).decode(pa.array(values, pa.binary()))
    return pa.table(decoded.columns).to_pylist(), decoded.reasons.to_pylist()
