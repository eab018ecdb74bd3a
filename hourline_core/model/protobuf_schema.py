"""Schemas of Protobuf: files of .proto, compiled by Google's protoc, and the messages in them."""

import base64
import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from hourline_core.child_environment import child_environment
from hourline_core.error_causes import first_cause
from hourline_core.model.base import describe

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
_FAULT = "Traceback (most recent call last):\n"
"""What Python says of itself, and the compiler never of a schema."""
_FILE_NAME = re.compile(r"(?!\.)[\w. +-]+(/(?!\.)[\w. +-]+){0,20}")
_LONGEST_FILE_NAME = 255
"""In bytes. File systems take so many for a part of a path, and more for a path."""
_COMMENT = re.compile(r"""//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""", re.S)


class ProtobufSchemaError(ValueError):
    """A schema is not valid, or has not the message. The text says where, what was got and what is allowed."""


class ProtobufCompilerError(ProtobufSchemaError):
    """The compiler is not installed, or did not work. That says nothing of the schema."""


def imports_of(text: str) -> Iterator[str]:
    """The names of the files that a file of .proto imports, without those that the compiler brings."""
    for found in _IMPORT.finditer(_COMMENT.sub(lambda match: match[1] or " ", text)):
        if not found["name"].startswith(OF_GOOGLE):
            yield found["name"]


@cache
def compile_protobuf(files: SchemaFiles, folder_in_words: str = "schemas/") -> bytes:
    """A FileDescriptorSet of ``files`` and all that they import. The schema is the last one in it. A text may also be a
    FileDescriptorProto in base64, in which some registries have it.

    It takes a process of 0.15 seconds, once for the same files. Raises ProtobufSchemaError. It says in which file a
    mistake is, which is in the folder ``folder_in_words``.
    """
    if find_spec("grpc_tools") is None or find_spec("google.protobuf") is None:
        raise ProtobufCompilerError(
            "got a schema of Protobuf, whose compiler is not installed: `pip install 'hourline[protobuf]'`"
        )
    main = files[0][0] or _IN_DECLARATION
    with TemporaryDirectory(prefix="hourline-") as made:
        folder = Path(made).resolve()
        (folder / "schemas").mkdir()
        described: list[Path] = []
        for name, text in files:
            if descriptor := _described(name or _IN_DECLARATION, text):
                described.append(folder / f"{len(described)}.descriptor")
                described[-1].write_bytes(descriptor)
                continue
            file = folder / "schemas" / (name or _IN_DECLARATION)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
        compiled = folder / "compiled"
        command = [sys.executable, "-P", "-m", "grpc_tools.protoc", "-I.", "--include_imports"]
        if described:
            command.append(f"--descriptor_set_in={os.pathsep.join(map(str, described))}")
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
        if ran.returncode not in (0, 1) or _FAULT in ran.stderr:
            words = first_cause([ran.stderr]) if ran.stderr else "without a word"
            raise ProtobufCompilerError(f"the compiler of Protobuf has ended by {ran.returncode}: {words}")
        if ran.returncode:
            raise ProtobufSchemaError(_mistake_in(ran.stderr, folder_in_words))
        return compiled.read_bytes()


def find_no_file_name(names: Collection[str], others: Collection[str] = ()) -> str | None:
    """The first of ``names`` that no file can have in a folder that also has ``others``, or that leads out of it. None:
    all can be.
    """
    for name in names:
        is_folder = any(other.startswith(f"{name}/") or name.startswith(f"{other}/") for other in (*names, *others))
        if is_folder or name == _IN_DECLARATION or not _FILE_NAME.fullmatch(name):
            return name
        if len(name.encode()) > _LONGEST_FILE_NAME:
            return name
    return None


def _described(name: str, text: str) -> bytes | None:
    """A FileDescriptorSet of the file that ``text`` describes in base64, which has this ``name``. None: it does not."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
    from google.protobuf.message import DecodeError

    try:
        described = FileDescriptorProto.FromString(base64.b64decode(text.strip(), validate=True))
    except (ValueError, DecodeError):
        return None
    if not text.strip():
        return None
    described.name = name
    return bytes(FileDescriptorSet(file=[described]).SerializeToString())


def _mistake_in(said: str, folder: str) -> str:
    """The first mistake that the compiler found, with its place."""
    found = _MISTAKE.search(said)
    if found is None:
        return f"got no schema of Protobuf: {' '.join(said.split()) or 'its compiler ended without a word'}"
    of_declaration = found["file"] == _IN_DECLARATION
    place = f"line {found['line']} of it" if of_declaration else f"{folder}{found['file']}:{found['line']}"
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


def messages_at(compiled: bytes, indexes: tuple[int, ...]) -> list[str]:
    """The full names of the messages that ``indexes`` may mean: on top of the schema, within that one, and so on.

    Some producers count the entries of maps as messages, which these are in descriptors. So there may be two.
    """
    main = _set_of(compiled).file[-1]
    names = []
    for counts_entries in (False, True):
        name, within = main.package, main.message_type
        for index in indexes:
            counted = [one for one in within if counts_entries or not one.options.map_entry]
            if index >= len(counted) or counted[index].options.map_entry:
                break
            name, within = f"{name}.{counted[index].name}", counted[index].nested_type
        else:
            names.append(name.removeprefix("."))
    return list(dict.fromkeys(names))


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


def files_of(compiled: bytes) -> Iterator[Any]:
    """The descriptions (FileDescriptorProto) of the files in ``compiled``."""
    yield from _set_of(compiled).file


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
