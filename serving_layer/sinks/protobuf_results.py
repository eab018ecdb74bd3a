"""Results in Protobuf: a message from the columns of keys or values, and the bytes of a result.

A result is written from its JSON, so that it says the same in all formats. Google's library writes it. Protobuf has no
null in the place of a list or map, or in one. So a list or map is a message that holds the elements, and an element is
a message, too: that of a struct, or one with a member ``value``.
"""

import base64
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.message_factory import GetMessageClass

from hourline_core.errors import SinkError, first_line
from hourline_core.formats.registry.written_schema import SchemaKind
from hourline_core.model.protobuf_schema import descriptor_in
from serving_layer.sinks.protobuf_numbers import keep_numbers, message_before
from serving_layer.sinks.protobuf_text import text_of
from serving_layer.sinks.record_columns import FindNewest, RecordColumns, no_schema

_TIMESTAMP = timestamp_pb2.Timestamp.DESCRIPTOR
_MESSAGE = FieldDescriptorProto.TYPE_MESSAGE
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_EXACT = Context(prec=100)
_LEAVE_OUT = "leave `format: protobuf` out"


class ProtobufRecord:
    """A message of Protobuf. See ``SchemaRecord``."""

    kind: SchemaKind = "PROTOBUF"

    def __init__(self, columns: RecordColumns, find_newest: FindNewest = no_schema) -> None:
        """See ``MakeRecord``. Members that the newest schema has, too, keep their numbers."""
        self.file = FileDescriptorProto(name="sink.proto", syntax="proto3")
        message = self.file.message_type.add(name=columns.name)
        self._types = {**columns.required, **columns.nullable}
        _add_members(message, f".{columns.name}", self._types, columns.required)
        keep_numbers(message, message_before(find_newest(), columns.name))
        self.file.dependency.extend([_TIMESTAMP.file.name] if _has_timestamps(message) else [])
        files = FileDescriptorSet()
        _TIMESTAMP.file.CopyToProto(files.file.add())
        files.file.append(self.file)
        try:
            self._class = GetMessageClass(descriptor_in(files, columns.name))
        except TypeError as error:
            raise SinkError(
                f"{columns.name} cannot be a message of Protobuf: {first_line(error)}; {_LEAVE_OUT}"
            ) from None
        self.schema = text_of(self.file)

    def write(self, text: str) -> bytes:
        """See ``SchemaRecord``. In front of the message is its place in the schema: it is the first one."""
        message = self._class()
        try:
            _fill(message, json.loads(text, parse_float=Decimal), self._types)
        except (ArithmeticError, ValueError) as error:  # Such as a year after 9999.
            raise SinkError(f"{text[:200]} cannot be written in Protobuf: {error}; {_LEAVE_OUT}") from None
        return b"\x00" + bytes(message.SerializeToString(deterministic=True))


def _add_members(
    message: Any, path: str, types: Mapping[str, pa.DataType], required: Mapping[str, pa.DataType] | None = None
) -> None:
    """Add the members ``types`` to a message with the full name ``path``. Others than ``required`` may be null."""
    names: dict[str, str] = {}
    for name, kind in types.items():
        if not _NAME.fullmatch(name):
            raise SinkError(f"the member '{name}' of a struct has a name that Protobuf does not allow; {_LEAVE_OUT}")
        if (other := names.setdefault(_camel_case(name), name)) != name:  # Its compiler refuses that.
            raise SinkError(f"'{other}' and '{name}' are one name in Protobuf's JSON: rename one, or {_LEAVE_OUT}")
        if pa.types.is_nested(kind):
            _add_field(message, name, _MESSAGE, _add_nested(message, path, name, kind, types))
        elif pa.types.is_timestamp(kind):
            _add_field(message, name, _MESSAGE, f".{_TIMESTAMP.full_name}")
        else:
            _add_field(message, name, _scalar_of(kind)).proto3_optional = name not in (required or {})
    # A scalar that may be null is in a oneof of its own, with the name that the compiler gives it.
    taken = {*types, *(one.name for one in message.nested_type)}
    for field in message.field:
        if field.proto3_optional:
            name = field.name if field.name.startswith("_") else f"_{field.name}"
            while name in taken:
                name = f"X{name}"
            taken.add(name)
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=name)
        else:
            field.ClearField("proto3_optional")


def _add_nested(message: Any, path: str, name: str, kind: pa.DataType, beside: Mapping[str, pa.DataType]) -> str:
    """Add the message of a struct, list or map to ``message``, which has the members ``beside``, and return its full
    name.
    """
    camel = _camel_case(name)
    # Java does not allow the name of a message around it.
    type_name = ("" if path == f".{message.name}" else message.name) + camel[:1].upper() + camel[1:]
    while type_name in beside:
        type_name += "_"
    path = f"{path}.{type_name}"
    nested = message.nested_type.add(name=type_name)
    if pa.types.is_struct(kind):
        _add_members(nested, path, {one.name: one.type for one in kind})
        return path
    element = f"{path}.{type_name}Element"
    _add_members(nested.nested_type.add(name=f"{type_name}Element"), element, _element_types(kind))
    if pa.types.is_map(kind):
        entry = nested.nested_type.add(name="ElementsEntry")
        entry.options.map_entry = True
        _add_field(entry, "key", FieldDescriptorProto.TYPE_STRING)
        _add_field(entry, "value", _MESSAGE, element)
        element = f"{path}.ElementsEntry"
    _add_field(nested, "elements", _MESSAGE, element).label = FieldDescriptorProto.LABEL_REPEATED
    return path


def _add_field(message: Any, name: str, type: int, type_name: str | None = None) -> Any:
    """Add a field with the next number."""
    label, number = FieldDescriptorProto.LABEL_OPTIONAL, len(message.field) + 1
    return message.field.add(name=name, number=number, label=label, type=type, type_name=type_name)


def _has_timestamps(message: Any) -> bool:
    here = any(field.type_name == f".{_TIMESTAMP.full_name}" for field in message.field)
    return here or any(map(_has_timestamps, message.nested_type))


def _element_types(kind: pa.DataType) -> dict[str, pa.DataType]:
    """The members of the elements of a list or map."""
    of = kind.item_type if pa.types.is_map(kind) else kind.value_type
    return {one.name: one.type for one in of} if pa.types.is_struct(of) else {"value": of}


def _camel_case(name: str) -> str:
    """The name of a member in Protobuf's JSON."""
    first, *others = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)


def _scalar_of(kind: pa.DataType) -> int:
    """The type of Protobuf that has values of ``kind``."""
    found = next((of for is_one, of in _SCALARS if is_one(kind)), None)
    if found is None:
        raise SinkError(f"a value of the type {kind} has no type of Protobuf; {_LEAVE_OUT}")
    return found


_SCALARS: tuple[tuple[Any, int], ...] = (
    (pa.types.is_boolean, FieldDescriptorProto.TYPE_BOOL),
    (pa.types.is_uint64, FieldDescriptorProto.TYPE_UINT64),
    (pa.types.is_integer, FieldDescriptorProto.TYPE_INT64),
    (pa.types.is_floating, FieldDescriptorProto.TYPE_DOUBLE),
    # Protobuf has no type of its own for these two. Messages of others would need files that not each registry knows.
    (pa.types.is_decimal, FieldDescriptorProto.TYPE_STRING),
    (pa.types.is_date, FieldDescriptorProto.TYPE_STRING),
    (pa.types.is_string, FieldDescriptorProto.TYPE_STRING),
    (pa.types.is_large_string, FieldDescriptorProto.TYPE_STRING),
    (pa.types.is_binary, FieldDescriptorProto.TYPE_BYTES),
)


def _fill(message: Any, values: Mapping[str, Any], types: Mapping[str, pa.DataType]) -> None:
    for name, kind in types.items():
        if (value := values[name]) is not None:
            _set(message, name, value, kind)


def _set(message: Any, name: str, value: Any, kind: pa.DataType) -> None:
    """Set a member to ``value`` of JSON, which comes of the type ``kind``."""
    if pa.types.is_nested(kind):
        part = getattr(message, name)
        part.SetInParent()
        if pa.types.is_struct(kind):
            _fill(part, value, {one.name: one.type for one in kind})
        elif pa.types.is_map(kind):
            for key, one in value.items():
                _fill_element(part.elements[key], one, kind.item_type)
        else:
            for one in value:
                _fill_element(part.elements.add(), one, kind.value_type)
    elif pa.types.is_timestamp(kind):
        microseconds = (datetime.fromisoformat(value) - _EPOCH) // _MICROSECOND
        part = getattr(message, name)
        part.SetInParent()
        part.seconds, part.nanos = microseconds // 1_000_000, microseconds % 1_000_000 * 1000
    else:
        setattr(message, name, _scalar_value(value, kind))


def _fill_element(element: Any, value: Any, of: pa.DataType) -> None:
    if value is None:
        return
    if pa.types.is_struct(of):
        _fill(element, value, {one.name: one.type for one in of})
    else:
        _set(element, "value", value, of)


def _scalar_value(value: Any, kind: pa.DataType) -> Any:
    made = value
    if pa.types.is_decimal(kind):
        made = f"{Decimal(value).quantize(Decimal(1).scaleb(-kind.scale), context=_EXACT):f}"
    elif pa.types.is_floating(kind):
        made = float(value)  # In a key, NaN and infinities are texts.
    elif pa.types.is_binary(kind):
        made = base64.b64decode(value)
    return made
