"""Decodes records in Protobuf by the schema of their source."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from hourline_core.formats.columns.recursion import despite_depth
from hourline_core.formats.decoded_records import DecodedRecords
from hourline_core.formats.protobuf.explain import explain
from hourline_core.formats.protobuf.google_messages import refuse_suspicious
from hourline_core.formats.protobuf.malformed import MalformedError, SuspiciousError
from hourline_core.formats.protobuf.messages import Readers
from hourline_core.formats.protobuf.wide_messages import wide_classes
from hourline_core.formats.typed_columns import RecordConversion, TypedColumns
from hourline_core.model.fields import Field
from hourline_core.model.protobuf_schema import descriptor_of
from hourline_core.model.protobuf_types import record_of_view
from hourline_core.model.protobuf_views import MemberView, MessageView, view_alone

_AT_ONCE = 256
"""The number of records that Google's library parses in one call, which is faster than as many calls. If one of them is
malformed, all are parsed alone.
"""
_LAST_BYTE = 0x7F
"""The largest byte that ends a varint."""
_TAG = b"\x0a"
"""What stands in front of the length of each record among several."""


class ProtobufRecords:
    """Decodes records that are a message of the schema ``compiled``, which is a FileDescriptorSet, and are read as
    ``view``. Their fields are ``fields``.
    """

    def __init__(self, compiled: bytes, view: MessageView, fields: Mapping[str, Field]) -> None:
        self._fields = fields
        self._conversion = RecordConversion(record_of_view(view), fields)
        self._descriptor = view.message
        self._class, self._class_of_several = wide_classes(compiled, self._descriptor.full_name)
        self._has_required = _has_required(self._descriptor, set())
        readers = Readers()
        wanted = [member for member in view.members if member.name in self._conversion.members]
        self._reads = [readers.of_column(member) for member in wanted]
        read = {member.field.number for member in wanted}
        self._checks = [
            readers.of_column(member)
            for member in view_alone(self._descriptor).members
            if member.field.number not in read and member.field.message_type
        ]
        # What the schema of the source requires has to be there, also if the source has no field for it.
        unread = [member for member in view.members if member not in wanted]
        self._checks += [readers.of_column(member) for member in unread if _requires(member, set())]

    @property
    def fault(self) -> str | None:
        """Why no record can be decoded; see ``Decoder``."""
        return self._conversion.fault.reason() if self._conversion.fault else None

    def decode(self, values: pa.Array | pa.ChunkedArray) -> DecodedRecords:
        """Decode binary ``values``, each alone. See ``Decoder``."""
        return despite_depth(self._decode, values.to_pylist())

    def _decode(self, values: list[bytes | None]) -> DecodedRecords:
        columns = TypedColumns(self._fields, len(values))
        places = [place for place, value in enumerate(values) if value is not None]
        for first in range(0, len(places), _AT_ONCE):
            self._add(places[first : first + _AT_ONCE], values, columns)
        return columns.finish()

    def _add(self, places: list[int], values: list[Any], columns: TypedColumns) -> None:
        """Add the records at ``places`` to ``columns``."""
        try:
            members = self._read(self._messages([values[place] for place in places]))
        except (DecodeError, MalformedError, SuspiciousError):
            places, members = self._refuse_malformed(places, values, columns)
        columns.add_columns(places, self._conversion, members)

    def _messages(self, values: list[bytes]) -> list[Any]:
        """The messages that ``values`` are. Raises DecodeError, MalformedError or SuspiciousError for any of them."""
        framed = b"".join([part for value in values for part in (_TAG, _varint(len(value)), value)])
        messages = list(self._class_of_several.FromString(framed).records)
        for message in messages:
            if UnknownFieldSet(message):
                refuse_suspicious(message)
        if self._has_required:
            for message in messages:
                _refuse_without_required(message)
        return messages

    def _refuse_malformed(
        self, places: list[int], values: list[Any], columns: TypedColumns
    ) -> tuple[list[int], list[list[Any]]]:
        """The other places, and the values of their members."""
        kept = {}
        for place in places:
            try:
                kept[place] = self._message(values[place])
            except MalformedError as fault:
                columns.refuse(place, fault.reason())
        try:
            return list(kept), self._read(list(kept.values()))
        except (MalformedError, SuspiciousError):
            faults = {place: self._fault(message, values[place]) for place, message in kept.items()}
        for place, found in faults.items():
            if found:
                columns.refuse(place, found.reason())
                del kept[place]
        return list(kept), self._read(list(kept.values()))

    def _fault(self, message: Any, value: bytes) -> MalformedError | None:
        try:
            self._read([message])
        except MalformedError as fault:
            return fault
        except SuspiciousError:
            return explain(value, self._descriptor)
        return None

    def _message(self, value: bytes) -> Any:
        """The message that ``value`` is. Raises MalformedError."""
        try:
            message = self._class.FromString(value)
            refuse_suspicious(message)
        except (DecodeError, SuspiciousError):
            raise explain(value, self._descriptor) from None
        if self._has_required:
            _refuse_without_required(message)
        return message

    def _read(self, messages: list[Any]) -> list[list[Any]]:
        """The values of each member that is a field. Raises MalformedError or SuspiciousError for any of them."""
        for check in self._checks:
            check(messages)
        return [read(messages) for read in self._reads]


class ProtobufDecoder(ProtobufRecords):
    """Decodes records that are the message with the full name ``message`` of the schema ``compiled``, which is a
    FileDescriptorSet. Their fields are ``fields``. It can be pickled.
    """

    def __init__(self, compiled: bytes, message: str, fields: Mapping[str, Field]) -> None:
        super().__init__(compiled, view_alone(descriptor_of(compiled, message)), fields)
        self._made_of = compiled, message, dict(fields)

    def __reduce__(self) -> tuple[type["ProtobufDecoder"], tuple[bytes, str, dict[str, Field]]]:
        return ProtobufDecoder, self._made_of


@lru_cache(1 << 14)
def _varint(number: int) -> bytes:
    written = bytearray()
    while number > _LAST_BYTE:
        written.append(number & _LAST_BYTE | ~_LAST_BYTE & 0xFF)
        number >>= 7
    return bytes((*written, number))


def _refuse_without_required(message: Any) -> None:
    # As methods of the class, since a member may have the name of one.
    if not Empty.IsInitialized(message):
        path = Empty.FindInitializationErrors(message)[0]
        raise MalformedError("nothing, and it is required", path=f".{path}")


def _has_required(message: Any, seen: set[str]) -> bool:
    """Whether ``message``, a descriptor, or a part of it has a member that is required."""
    if message.full_name in seen:
        return False
    seen.add(message.full_name)
    return any(
        field.is_required or (field.message_type and _has_required(field.message_type, seen))
        for field in message.fields
    )


def _requires(member: MemberView, seen: set[MessageView]) -> bool:
    """Whether the schema of the source requires ``member`` or a part of it."""
    if member.is_required or member.message is None or member.message in seen:
        return member.is_required
    seen.add(member.message)
    return any(_requires(part, seen) for part in member.message.members)
