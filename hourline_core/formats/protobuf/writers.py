"""Decodes records in Protobuf that were written by other schemas than that of their source."""

from collections.abc import Mapping
from typing import Any

from hourline_core.errors import SetupError, first_line
from hourline_core.formats.protobuf.decoder import ProtobufRecords
from hourline_core.formats.registry.decoder import UnreadableError
from hourline_core.formats.registry.wire_format import SchemaId
from hourline_core.formats.registry.written_schema import SchemaKind, WrittenSchema
from hourline_core.formats.typed_columns import RecordConversion
from hourline_core.model.base import describe
from hourline_core.model.fields import Field
from hourline_core.model.protobuf_schema import (
    ProtobufCompilerError,
    ProtobufSchemaError,
    SchemaFiles,
    compile_protobuf,
    descriptor_of,
    find_no_file_name,
    messages_at,
)
from hourline_core.model.protobuf_types import OF_GOOGLE, find_other_than_googles, record_of
from hourline_core.model.protobuf_views import view_as

_MOST_FAULTS = 1000


class ProtobufWriters:
    """Makes decoders of records with ``fields``, whose source declares the message with the full name ``message`` of
    the schema ``compiled``. ``files`` are that schema and those that it imports.
    """

    kind: SchemaKind = "PROTOBUF"
    takes_empty = True

    def __init__(self, files: SchemaFiles, compiled: bytes, message: str, fields: Mapping[str, Field]) -> None:
        self._made_of = files, compiled, message, dict(fields)
        self._files, self._compiled, self._message, self._fields = self._made_of
        self._reader = descriptor_of(compiled, message)
        self._faults: dict[SchemaId, str] = {}
        """Why schemas do not compile. Malformed records may name each message of such a one."""

    def __reduce__(self) -> tuple[type["ProtobufWriters"], tuple[SchemaFiles, bytes, str, dict[str, Field]]]:
        return ProtobufWriters, self._made_of

    @property
    def fault(self) -> str | None:
        """See ``Writers``."""
        fault = RecordConversion(record_of(self._compiled, self._message), self._fields).fault
        return fault.reason() if fault else None

    def decoder_of(self, schema: WrittenSchema, message: tuple[int, ...]) -> ProtobufRecords:
        """See ``Writers``. A message of another name is another thing, whatever its members are called."""
        compiled = self._compiled_of(schema)
        place = f"message {', '.join(map(str, message))}"
        names = messages_at(compiled, message)
        if not names:
            raise UnreadableError(f"got {place}, which it does not have")
        if len(names) > 1:
            raise UnreadableError(
                f"got {place}, which is {' or '.join(names)}: some producers count the maps of a message, too"
            )
        try:
            writer = descriptor_of(compiled, names[0])
        except TypeError as error:  # The compiler may know newer editions than the library.
            raise UnreadableError(f"it cannot be read: {first_line(error)}") from None
        if name := find_other_than_googles(compiled):
            raise UnreadableError(f"it declares {name} otherwise than Google does")
        if writer.full_name in OF_GOOGLE:
            raise UnreadableError(f"got message {writer.full_name}, which Google gives a meaning of its own")
        if _in_file(writer) != _in_file(self._reader):
            raise UnreadableError(f"got message {names[0]}, want message {_in_file(self._reader)}")
        try:
            return ProtobufRecords(compiled, view_as(writer, self._reader), self._fields)
        except RecursionError:
            raise UnreadableError("it has too many messages that are parts of each other") from None

    def _compiled_of(self, schema: WrittenSchema) -> bytes:
        if known := self._faults.get(schema.id):
            raise UnreadableError(known)
        try:
            return compile_protobuf(self._files_of(schema), "")
        except ProtobufCompilerError as error:
            raise SetupError(str(error)) from None
        except ProtobufSchemaError as error:
            fault = f"it is not valid: {error}"
            if len(self._faults) >= _MOST_FAULTS:
                self._faults.clear()
            self._faults[schema.id] = fault
            raise UnreadableError(fault) from None

    def _files_of(self, schema: WrittenSchema) -> SchemaFiles:
        """``schema`` with what it imports. Registries know some files of Google's and Confluent's by themselves, so the
        schema does not refer to them. They are taken from the declaration.
        """
        declared = {name: text for name, text in self._files[1:] if name not in schema.references}
        if name := find_no_file_name(schema.references, declared):
            raise UnreadableError(
                f"got a reference {describe(name)}, which is no name of a file, or is that of a folder"
            )
        try:
            "".join((schema.text, *schema.references.values())).encode()
        except UnicodeEncodeError:
            raise UnreadableError("it is not valid: got half a character of UTF-16, which is no text") from None
        return (("", schema.text), *schema.references.items(), *declared.items())


def _in_file(message: Any) -> str:
    """The name of ``message``, a descriptor, without its package."""
    return str(message.full_name.removeprefix(f"{message.file.package}."))
