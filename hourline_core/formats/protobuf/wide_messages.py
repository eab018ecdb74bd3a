"""The classes of messages that Google's library makes of bytes, with wider numbers than the schema has.

A number that is too large for 32 bits loses its upper bits in the library, and a number that an enum of proto2 does not
have is hidden among the unknown fields. So whole numbers of 32 bits are read as those of 64, and enums as their
numbers. The encoding is the same: https://protobuf.dev/programming-guides/encoding/. Decision: 0153.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet
from google.protobuf.message_factory import GetMessageClass

from hourline_core.model.protobuf_schema import descriptor_in

_WIDER = {
    FieldDescriptorProto.TYPE_INT32: FieldDescriptorProto.TYPE_INT64,
    FieldDescriptorProto.TYPE_UINT32: FieldDescriptorProto.TYPE_UINT64,
    FieldDescriptorProto.TYPE_SINT32: FieldDescriptorProto.TYPE_SINT64,
    FieldDescriptorProto.TYPE_ENUM: FieldDescriptorProto.TYPE_INT64,
}
_ABOUT_SCHEMAS = "google/protobuf/descriptor.proto"
"""What the options of schemas are made of. The library reads these itself, by this file."""
_SEVERAL = "hourline_several_records"
"""The package of the message that has several records."""


def wide_classes(compiled: bytes, message: str) -> tuple[Any, Any]:
    """The class of ``message``, whose numbers and enums are numbers of 64 bits, as are those of its parts, and a class
    of messages that have a number of them, ``records``, as field 1.
    """
    files = FileDescriptorSet.FromString(compiled)
    enums = dict(_enums(files))
    for file in files.file:
        if file.name != _ABOUT_SCHEMAS:
            for one in file.message_type:
                _widen(one, enums)
    several = files.file.add(name=f"{_SEVERAL}.proto", package=_SEVERAL, dependency=[files.file[-1].name])
    several.message_type.add(name="Records").field.add(
        name="records",
        number=1,
        label=FieldDescriptorProto.LABEL_REPEATED,
        type=FieldDescriptorProto.TYPE_MESSAGE,
        type_name=f".{message}",
    )
    class_of_several = GetMessageClass(descriptor_in(files, f"{_SEVERAL}.Records"))
    return GetMessageClass(class_of_several.DESCRIPTOR.fields_by_name["records"].message_type), class_of_several


def _enums(files: Any) -> Iterator[tuple[str, Mapping[str, int]]]:
    """The numbers of each enum, by the name that fields have for it."""
    for file in files.file:
        prefix = f".{file.package}" if file.package else ""
        yield from _enums_in(file.enum_type, file.message_type, prefix)


def _enums_in(enums: Any, messages: Any, prefix: str) -> Iterator[tuple[str, Mapping[str, int]]]:
    for enum in enums:
        yield f"{prefix}.{enum.name}", {value.name: value.number for value in enum.value}
    for message in messages:
        yield from _enums_in(message.enum_type, message.nested_type, f"{prefix}.{message.name}")


def _widen(message: Any, enums: Mapping[str, Mapping[str, int]]) -> None:
    for field in message.field:
        if field.type == FieldDescriptorProto.TYPE_ENUM:
            if field.HasField("default_value"):
                field.default_value = str(enums[field.type_name][field.default_value])
            field.ClearField("type_name")
        field.type = _WIDER.get(field.type, field.type)
    for inner in message.nested_type:
        _widen(inner, enums)
