"""The text of a schema of Protobuf, as registries have it."""

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto

_INDENT = "  "


def text_of(file: Any) -> str:
    """The text of a FileDescriptorProto whose messages have nothing but messages, members and reserved numbers."""
    lines = [f'syntax = "{file.syntax}";', *(f'import "{name}";' for name in file.dependency)]
    for message in file.message_type:
        lines += ["", *_lines_of(message)]
    return "\n".join([*lines, ""])


def _lines_of(message: Any) -> Iterator[str]:
    yield f"message {message.name} {{"
    if message.reserved_range:
        ranges = [(one.start, one.end - 1) for one in message.reserved_range]
        numbers = ", ".join(f"{first} to {last}" if last > first else str(first) for first, last in ranges)
        yield f"{_INDENT}reserved {numbers};"
    for nested in message.nested_type:
        if not nested.options.map_entry:
            yield from (f"{_INDENT}{line}" for line in _lines_of(nested))
    entries = {one.name: one for one in message.nested_type if one.options.map_entry}
    for field in message.field:
        name = _type_of(field)
        if entry := entries.get(name):
            what = f"map<{', '.join(map(_type_of, entry.field))}>"
        elif field.label == FieldDescriptorProto.LABEL_REPEATED:
            what = f"repeated {name}"
        else:
            what = f"optional {name}" if field.proto3_optional else name
        yield f"{_INDENT}{what} {field.name} = {field.number};"
    yield "}"


def _type_of(field: Any) -> str:
    """The name of a type where ``field`` is. A message of ours is in that of the field, or beside it."""
    if field.type != FieldDescriptorProto.TYPE_MESSAGE:
        return str(FieldDescriptorProto.Type.Name(field.type)).removeprefix("TYPE_").lower()
    name = str(field.type_name).removeprefix(".")
    return name if name.startswith("google.protobuf.") else name.rpartition(".")[2]
