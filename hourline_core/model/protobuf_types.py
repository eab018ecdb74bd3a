"""The types of the members of a message of Protobuf.

Messages that Google gives a meaning of their own, such as Timestamp, have types of their own, as in Protobuf's JSON:
https://protobuf.dev/programming-guides/json/
"""

from typing import Any

from hourline_core.model.protobuf_schema import descriptor_of, files_of, is_map, scalar_of
from hourline_core.model.protobuf_views import MemberView, MessageView, view_alone
from hourline_core.model.record_types import (
    Array,
    Duration,
    JsonValue,
    Map,
    Member,
    NumberedEnum,
    Opaque,
    Primitive,
    Record,
    RecordType,
    Timestamp,
)

_WRAPPED: dict[str, RecordType] = {
    f"google.protobuf.{name}": kind
    for name, kind in {
        "BoolValue": Primitive("boolean"),
        "Int32Value": Primitive("int"),
        "UInt32Value": Primitive("int", signed=False),
        "Int64Value": Primitive("long"),
        "UInt64Value": Primitive("long", signed=False),
        "FloatValue": Primitive("float"),
        "DoubleValue": Primitive("double"),
        "StringValue": Primitive("string"),
        "BytesValue": Primitive("bytes"),
    }.items()
}
WRAPPERS = frozenset(_WRAPPED)
"""Messages of one member, ``value``."""
JSON_VALUES = frozenset(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue"))
OF_GOOGLE: dict[str, RecordType] = {
    **_WRAPPED,
    **dict.fromkeys(JSON_VALUES, JsonValue()),
    "google.protobuf.Timestamp": Timestamp("micros"),
    "google.protobuf.Duration": Duration(),
    "google.protobuf.Any": Opaque("google.protobuf.Any"),
}
"""By their full names, messages that Google gives a meaning of their own."""
_SCALARS: dict[str, Primitive] = {
    "DOUBLE": Primitive("double"),
    "FLOAT": Primitive("float"),
    "BOOL": Primitive("boolean"),
    "STRING": Primitive("string"),
    "BYTES": Primitive("bytes"),
    **dict.fromkeys(("INT32", "SINT32", "SFIXED32"), Primitive("int")),
    **dict.fromkeys(("INT64", "SINT64", "SFIXED64"), Primitive("long")),
    **dict.fromkeys(("UINT32", "FIXED32"), Primitive("int", signed=False)),
    **dict.fromkeys(("UINT64", "FIXED64"), Primitive("long", signed=False)),
}
_TEXT_AND_BYTES: set[RecordType] = {Primitive("string"), Primitive("bytes")}


def record_of(compiled: bytes, message: str) -> Record:
    """The types of a record that is ``message``, whose full name it is."""
    return record_of_view(view_alone(descriptor_of(compiled, message)))


def record_of_view(view: MessageView) -> Record:
    """The types of a record that is read as ``view``."""
    record = _Types().of_message(view)
    assert isinstance(record, Record), "a file of the user has no message of Google"
    return record


def find_other_than_googles(compiled: bytes) -> str | None:
    """The full name of a message that has the name, but not the members, of one in ``OF_GOOGLE``. None: none has."""
    from google.protobuf import any_pb2, duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2
    from google.protobuf.descriptor_pb2 import DescriptorProto

    own = {}
    for module in (any_pb2, duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2):
        for name, message in module.DESCRIPTOR.message_types_by_name.items():
            described = DescriptorProto()
            message.CopyToProto(described)
            own[name] = _members(described)
    for file in files_of(compiled):
        for message in file.message_type if file.package == "google.protobuf" else ():
            if own.get(message.name, found := _members(message)) != found:
                return f"google.protobuf.{message.name}"
    return None


def _members(described: Any) -> list[Any]:
    """What makes the members of a message, a DescriptorProto, those that they are."""
    fields = sorted((one.number, one.name, one.label, one.type, one.type_name) for one in described.field)
    return [fields, *map(_members, described.nested_type)]


class _Types:
    """The types of messages. A message may have itself as a part."""

    def __init__(self) -> None:
        self._messages: dict[MessageView, Record] = {}

    def of_message(self, view: MessageView) -> RecordType:
        name = view.message.full_name
        if name in OF_GOOGLE:
            return OF_GOOGLE[name]
        if view not in self._messages:
            record = self._messages[view] = Record(name)
            record.members = tuple(Member(member.name, self._of_member(member)) for member in view.members)
        return self._messages[view]

    def _of_member(self, member: MemberView) -> RecordType:
        value = self._of_value(member)
        if is_map(member.field):
            return Map(value)
        return Array(value) if member.field.is_repeated else value

    def _of_value(self, member: MemberView) -> RecordType:
        kind = self._as_written(member)
        as_read = _text_or_bytes(member.read_as)
        if as_read is None or {kind, as_read} != _TEXT_AND_BYTES:
            return kind
        # They are written in the same way, unless one is in a message of Google: then nobody means that.
        return Opaque(str(kind)) if member.message or member.read_as.message_type else as_read

    def _as_written(self, member: MemberView) -> RecordType:
        if member.message:
            return self.of_message(member.message)
        if member.value.enum_type:
            return NumberedEnum(member.value.enum_type.full_name, member.names)
        return _SCALARS[scalar_of(member.value)]


def _text_or_bytes(field: Any) -> RecordType | None:
    """The type of a value of ``field``, a descriptor, if it is one of these, also in a message of Google."""
    if field is None:
        return None
    kind = _WRAPPED.get(field.message_type.full_name) if field.message_type else _SCALARS.get(scalar_of(field))
    return kind if kind in _TEXT_AND_BYTES else None
