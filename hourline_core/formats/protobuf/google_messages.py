"""Reads messages to which Google gives a meaning of their own, and looks for what no message should have."""

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from operator import attrgetter
from typing import Any, TypeAlias

from google.protobuf.empty_pb2 import Empty
from google.protobuf.unknown_fields import UnknownFieldSet

from hourline_core.formats.protobuf.malformed import MalformedError, SuspiciousError

Read: TypeAlias = Callable[[Any], Any]
"""Gives the value of a member of a message, or of a value in a list or a map. Raises MalformedError or
SuspiciousError.
"""

ReadColumn: TypeAlias = Callable[[Sequence[Any]], list[Any]]
"""Gives the value of a member of each message. Raises as ``Read``."""

has_field = Empty.HasField
"""The method of all messages. A member may have its name, and would be found in its place."""

_NANOS = 1_000_000_000
TIMESTAMP = "google.protobuf.Timestamp"
_LONGEST_SECONDS = 315_576_000_000
"""The seconds of the longest duration, which is 10,000 years."""


def refuse_suspicious(message: Any) -> None:
    """Raise SuspiciousError if ``message`` itself, without its parts, has a field in another encoding than its type's.

    Fields that the schema does not have are nothing wrong.
    """
    unknown = UnknownFieldSet(message)
    if unknown:
        known = type(message).DESCRIPTOR.fields_by_number
        if any(field.field_number in known for field in unknown):
            raise SuspiciousError


def read_timestamp(value: Any) -> int:
    """The microseconds since 1970 of a Timestamp."""
    if UnknownFieldSet(value):
        refuse_suspicious(value)
    nanos: int = value.nanos
    if 0 <= nanos < _NANOS:
        # What is below a microsecond is cut off, towards the earlier one.
        return value.seconds * 1_000_000 + nanos // 1000  # type: ignore[no-any-return]
    raise MalformedError(f"{nanos} nanoseconds, want 0 to 999999999")


def column_of_timestamps(name: str, read: Read) -> ReadColumn:
    """As ``read`` for each message, in half of its time: each event has one."""
    get, get_seconds, get_nanos = attrgetter(name), attrgetter("seconds"), attrgetter("nanos")

    def apply(messages: Sequence[Any]) -> list[Any]:
        moments = list(map(get, messages))
        nanos = list(map(get_nanos, moments))
        if any(map(UnknownFieldSet, moments)) or min(nanos, default=0) < 0 or max(nanos, default=0) >= _NANOS:
            return list(map(read, messages))
        rows = zip(map(has_field, messages, repeat(name)), map(get_seconds, moments), nanos, strict=True)
        return [seconds * 1_000_000 + nano // 1000 if there else None for there, seconds, nano in rows]

    return apply


def read_duration(value: Any) -> int:
    """The nanoseconds of a Duration."""
    refuse_suspicious(value)
    seconds, nanos = int(value.seconds), int(value.nanos)
    has_two_signs = seconds * nanos < 0
    if has_two_signs or abs(nanos) >= _NANOS or abs(seconds) > _LONGEST_SECONDS:
        raise MalformedError(f"{seconds} seconds and {nanos} nanoseconds, want a duration of at most 10,000 years")
    return seconds * _NANOS + nanos


def _json_object(value: Any) -> dict[str, Any]:
    refuse_suspicious(value)
    members = value.fields
    return {name: _json_value(members[name]) for name in members}


def _json_array(value: Any) -> list[Any]:
    refuse_suspicious(value)
    return [_json_value(one) for one in value.values]


def _json_value(value: Any) -> Any:
    refuse_suspicious(value)
    match value.WhichOneof("kind"):
        case None | "null_value":
            return None
        case "struct_value":
            return _json_object(value.struct_value)
        case "list_value":
            return _json_array(value.list_value)
        case name:
            return getattr(value, name)


READ_JSON: Mapping[str, Read] = {
    "google.protobuf.Struct": _json_object,
    "google.protobuf.ListValue": _json_array,
    "google.protobuf.Value": _json_value,
}
"""By its name, how each message that is a JSON value is read."""
