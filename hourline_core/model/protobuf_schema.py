"""Schemas of Protobuf: files of .proto, compiled by Google's protoc, and the types of a message of theirs.

Messages that Google gives a meaning of their own, such as Timestamp, have types of their own, as in Protobuf's JSON:
https://protobuf.dev/programming-guides/json/
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from hourline_core.child_environment import child_environment
from hourline_core.model.base import describe
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

SchemaFiles: TypeAlias = tuple[tuple[str, str], ...]
"""Files with their texts. The first one is the schema, and the others are those that it imports, from the same folder.
The name of the first is empty if its text stands in the declaration.
"""

OF_GOOGLE = "google/protobuf/"
"""The folder of the files that Google's compiler brings."""

_IN_DECLARATION = "the declaration.proto"
"""The name under which the compiler gets a text that has none. No import can be of it by accident."""
_MISTAKE = re.compile(r"(?P<file>[^\n]+?):(?P<line>\d+):\d+: (?!warning)(?P<what>[^\n]+)")
_IMPORT = re.compile(r"""\bimport\b\s*(?:(?:public|weak|option)\b\s*)?(["'])(?P<name>[^"'\n]+)\1\s*;""")
_COMMENT = re.compile(r"""//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""", re.S)
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
_OF_GOOGLE: dict[str, RecordType] = {
    **_WRAPPED,
    **dict.fromkeys(JSON_VALUES, JsonValue()),
    "google.protobuf.Timestamp": Timestamp("micros"),
    "google.protobuf.Duration": Duration(),
    "google.protobuf.Any": Opaque("google.protobuf.Any"),
}
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


class ProtobufSchemaError(ValueError):
    """A schema is not valid, or has not the message. The text says where, what was got and what is allowed."""


def imports_of(text: str) -> Iterator[str]:
    """The names of the files that a file of .proto imports, without those that the compiler brings."""
    for found in _IMPORT.finditer(_COMMENT.sub(lambda match: match[1] or " ", text)):
        if not found["name"].startswith(OF_GOOGLE):
            yield found["name"]


@cache
def compile_protobuf(files: SchemaFiles) -> bytes:
    """A FileDescriptorSet of ``files`` and all that they import. The schema is the last one in it.

    It takes a process of 0.15 seconds, once for the same files. Raises ProtobufSchemaError.
    """
    if find_spec("grpc_tools") is None or find_spec("google.protobuf") is None:
        raise ProtobufSchemaError(
            "got a schema of Protobuf, whose compiler is not installed: `pip install 'hourline[protobuf]'`"
        )
    main = files[0][0] or _IN_DECLARATION
    with TemporaryDirectory(prefix="hourline-") as made:
        folder = Path(made).resolve()
        for name, text in files:
            file = folder / "schemas" / (name or _IN_DECLARATION)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
        compiled = folder / "compiled"
        command = [sys.executable, "-P", "-m", "grpc_tools.protoc", "-I.", "--include_imports"]
        ran = subprocess.run(
            [*command, f"--descriptor_set_out={compiled}", main],
            cwd=folder / "schemas",
            env=child_environment(),
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        if ran.returncode:
            raise ProtobufSchemaError(_mistake_in(ran.stderr))
        return compiled.read_bytes()


def _mistake_in(said: str) -> str:
    """The first mistake that the compiler found, with its place."""
    found = _MISTAKE.search(said)
    if found is None:
        return f"got no schema of Protobuf: {' '.join(said.split()) or 'its compiler ended without a word'}"
    of_declaration = found["file"] == _IN_DECLARATION
    place = f"line {found['line']} of it" if of_declaration else f"schemas/{found['file']}:{found['line']}"
    return f"got no schema of Protobuf: {place}: {found['what'].removesuffix('.').strip()}"


def choose_message(compiled: bytes, message: str | None) -> str:
    """The full name of the message that records are. Raises ProtobufSchemaError if the schema has it not, or if none is
    named and it has several.
    """
    main = _set_of(compiled).file[-1]
    prefix = f"{main.package}." if main.package else ""
    on_top = [f"{prefix}{one.name}" for one in main.message_type]
    if message is None:
        if len(on_top) == 1:
            return on_top[0]
        raise ProtobufSchemaError(f"got no message, allowed is one of {_listed(on_top)}")
    every = [name for one in main.message_type for name in _names(one, prefix)]
    if message not in every:
        raise ProtobufSchemaError(f"got {describe(message)}, allowed is one of {_listed(every)}")
    return message


def _listed(names: list[str]) -> str:
    return ", ".join(names) if names else "those in the schema, which has none"


def _names(message: Any, prefix: str) -> Iterator[str]:
    if not message.options.map_entry:
        yield f"{prefix}{message.name}"
        for inner in message.nested_type:
            yield from _names(inner, f"{prefix}{message.name}.")


def _set_of(compiled: bytes) -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    return FileDescriptorSet.FromString(compiled)


def descriptor_of(compiled: bytes, message: str) -> Any:
    """Google's descriptor of ``message``, whose full name it is."""
    return descriptor_in(_set_of(compiled), message)


def descriptor_in(files: Any, message: str) -> Any:
    """Google's descriptor of ``message`` in a FileDescriptorSet. It belongs to a pool of its own."""
    # Protobuf is imported where it is used: a project without it neither needs it nor waits for it.
    from google.protobuf.descriptor_pool import DescriptorPool

    pool = DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return pool.FindMessageTypeByName(message)


def record_of(compiled: bytes, message: str) -> Record:
    """The types of a record that is ``message``, whose full name it is."""
    record = _Types().of_message(descriptor_of(compiled, message))
    assert isinstance(record, Record), "a file of the user has no message of Google"
    return record


def is_map(field: Any) -> bool:
    """Whether ``field``, a descriptor, is a map."""
    return bool(field.is_repeated and field.message_type and field.message_type.GetOptions().map_entry)


def scalar_of(field: Any) -> str:
    """The name of the type of ``field``, a descriptor, such as ``INT32``."""
    return _type_names()[field.type]


@cache
def _type_names() -> dict[int, str]:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    return {number: name.removeprefix("TYPE_") for name, number in FieldDescriptorProto.Type.items()}


class _Types:
    """The types of messages. A message may have itself as a part."""

    def __init__(self) -> None:
        self._messages: dict[str, Record] = {}

    def of_message(self, message: Any) -> RecordType:
        if message.full_name in _OF_GOOGLE:
            return _OF_GOOGLE[message.full_name]
        if message.full_name not in self._messages:
            record = self._messages[message.full_name] = Record(message.full_name)
            record.members = tuple(Member(field.name, self._of_field(field)) for field in message.fields)
        return self._messages[message.full_name]

    def _of_field(self, field: Any) -> RecordType:
        if is_map(field):
            return Map(self._of_value(field.message_type.fields_by_name["value"]))
        return Array(self._of_value(field)) if field.is_repeated else self._of_value(field)

    def _of_value(self, field: Any) -> RecordType:
        if field.message_type:
            return self.of_message(field.message_type)
        if field.enum_type:
            # Of several names of a number, the first one is that of Protobuf's JSON.
            names = {value.number: value.name for value in reversed(field.enum_type.values)}
            return NumberedEnum(field.enum_type.full_name, names)
        return _SCALARS[scalar_of(field)]
