"""Reads the members of messages that Google's library has made of bytes.

The library takes bytes that are no message of the schema: a field in another encoding than that of its type is kept
with the unknown ones. So each message is looked at for these, also those that are no part of a declared field.
"""

from dataclasses import replace
from operator import attrgetter
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from hourline_core.formats.protobuf.google_messages import (
    READ_JSON,
    TIMESTAMP,
    Read,
    ReadColumn,
    column_of_timestamps,
    has_field,
    read_duration,
    read_timestamp,
    refuse_suspicious,
)
from hourline_core.formats.protobuf.malformed import MalformedError, SuspiciousError
from hourline_core.model.protobuf_schema import is_map, scalar_of
from hourline_core.model.protobuf_types import WRAPPERS
from hourline_core.model.protobuf_views import MemberView, MessageView, view_alone

_BOUNDS = {
    **dict.fromkeys(("INT32", "SINT32"), (-(1 << 31), (1 << 31) - 1)),
    "UINT32": (0, (1 << 32) - 1),
}
"""Whole numbers that are read as wider ones."""


class Readers:
    """Readers by views of the messages of a schema, for messages of the class that ``wide_classes`` gives."""

    def __init__(self) -> None:
        self._messages: dict[MessageView, Read] = {}
        self._of_proto3: dict[Any, bool] = {}
        """By the descriptors of files. Each keeps all of its schema, so no longer than these readers."""

    def of_column(self, member: MemberView) -> ReadColumn:
        """Reads ``member`` of many messages."""
        read, field = self.of_member(member), member.field
        is_message = member.is_written and member.message and not member.is_required and not field.is_repeated
        if is_message and field.message_type.full_name == TIMESTAMP:
            return column_of_timestamps(field.name, read)
        return lambda messages: list(map(read, messages))

    def of_member(self, member: MemberView) -> Read:
        """Reads ``member`` of a message."""
        if not member.is_written:
            return _refuse_without(member.name) if member.is_required else self._default_of(member)
        field = member.field
        name, get = field.name, attrgetter(field.name)
        if is_map(field):
            return _read_all(self._of_map(member), name)
        read = self._of_value(member)
        if field.is_repeated:
            return _read_all(list if read is _plain else _of_list(read), name)
        if member.is_required and field.has_presence:
            return _read_required(read, name)
        if field.has_presence and not field.has_default_value:
            return _read_if_present(read, name)
        return get if read is _plain else _read_all(read, name)

    def _default_of(self, member: MemberView) -> Read:
        """Reads a member that no message has: it has what an empty message of the source's schema has."""
        read = self.of_member(replace(member, is_written=True))
        default = read(GetMessageClass(member.field.containing_type)())
        return lambda message: default

    def _of_value(self, member: MemberView) -> Read:
        if member.message:
            return self._of_message(member.message)
        kind = scalar_of(member.value)
        as_read = scalar_of(member.read_as) if member.read_as else kind
        if (kind, as_read) == ("BYTES", "STRING"):
            return _decoded
        read = self._of_scalar(member.value)
        return (lambda value: read(value).encode()) if (kind, as_read) == ("STRING", "BYTES") else read

    def _of_scalar(self, field: Any) -> Read:
        kind = scalar_of(field)
        if kind in _BOUNDS:
            return _within(*_BOUNDS[kind], kind.lower())
        # Google's library looks for invalid UTF-8 in texts of proto3, and elsewhere by options of the file.
        return _text if kind == "STRING" and not self._is_of_proto3(field.file) else _plain

    def _is_of_proto3(self, file: Any) -> bool:
        if file not in self._of_proto3:
            described = FileDescriptorProto()
            file.CopyToProto(described)
            self._of_proto3[file] = described.syntax == "proto3"
        return self._of_proto3[file]

    def _of_map(self, member: MemberView) -> Read:
        read_key = self._of_scalar(member.field.message_type.fields_by_name["key"])
        read_value = self._of_value(member)

        def read(entries: Any) -> dict[str, Any]:
            # Google's library gives them in another order in each process.
            return {_text_of_key(read_key(key)): read_value(entries[key]) for key in sorted(entries)}

        return read

    def _of_message(self, view: MessageView) -> Read:
        if view not in self._messages:
            # A message may have itself as a part, which is read by what is not made yet.
            def read(value: Any) -> Any:
                return made(value)

            self._messages[view] = read
            made = self._messages[view] = self._make(view)
        return self._messages[view]

    def _make(self, view: MessageView) -> Read:
        match view.message.full_name:
            case name if name == TIMESTAMP:
                return read_timestamp
            case "google.protobuf.Duration":
                return read_duration
            case name if name in READ_JSON:
                return READ_JSON[name]
            case name if name in WRAPPERS:
                read_wrapped = self.of_member(view_alone(view.message).members[0])

                def read_wrapper(value: Any) -> Any:
                    if UnknownFieldSet(value):
                        refuse_suspicious(value)
                    return read_wrapped(value)

                return read_wrapper
        steps = [(member.name, self.of_member(member)) for member in view.members]

        def read(value: Any) -> dict[str, Any]:
            if UnknownFieldSet(value):
                refuse_suspicious(value)
            return {name: step(value) for name, step in steps}

        return read


def _plain(value: Any) -> Any:
    return value


def _read_all(read: Read, name: str) -> Read:
    get = attrgetter(name)

    def apply(message: Any) -> Any:
        try:
            return read(get(message))
        except MalformedError as fault:
            raise fault.within(f".{name}") from None

    return apply


def _read_if_present(read: Read, name: str) -> Read:
    get = attrgetter(name)

    def apply(message: Any) -> Any:
        try:
            return read(get(message)) if has_field(message, name) else None
        except MalformedError as fault:
            raise fault.within(f".{name}") from None

    return apply


def _read_required(read: Read, name: str) -> Read:
    read_if_present = _read_if_present(read, name)

    def apply(message: Any) -> Any:
        value = read_if_present(message)
        return value if has_field(message, name) else _refuse_without(name)(message)

    return apply


def _refuse_without(name: str) -> Read:
    def refuse(_: Any) -> Any:
        raise MalformedError("nothing, and it is required", path=f".{name}")

    return refuse


def _of_list(read: Read) -> Read:
    def apply(elements: Any) -> list[Any]:
        values: list[Any] = []
        try:
            for value in elements:
                values.append(read(value))
        except MalformedError as fault:
            raise fault.within(f"[{len(values)}]") from None
        return values

    return apply


def _within(first: int, last: int, kind: str) -> Read:
    def read(value: int) -> int:
        if first <= value <= last:
            return value
        raise MalformedError(f"{value}, want a number of {kind}")

    return read


def _text(value: str | bytes) -> str:
    # The library gives bytes in the place of a text that is no UTF-8.
    if isinstance(value, str):
        return value
    raise SuspiciousError


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise MalformedError("invalid UTF-8") from None


def _text_of_key(key: str | int | bool) -> str:
    """A key as Protobuf's JSON has it."""
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)
