"""A message with members of all kinds, and which bytes are such a message as Google's library says."""

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from hourline_core.model.fields import Field
from tests.support.protobuf import format_of, message_class, schema_of, write

SCHEMA = schema_of(
    """
    enum Kind { NONE = 0; SOME = 1; }
    message Item { string name = 1; int32 count = 2; Item within = 3; }
    message M {
      string id = 1; int64 amount = 2; double price = 3; float ratio = 4; bool paid = 5; Kind kind = 6;
      repeated Item items = 7; repeated int32 codes = 8; map<string, Item> parts = 9;
      google.protobuf.Timestamp at = 10; fixed64 serial = 11; bytes body = 12; optional uint32 note = 13;
      google.protobuf.Struct extra = 14; repeated fixed32 words = 15; sint32 change = 16;
      oneof one { Item first = 17; string second = 18; }
      google.protobuf.Duration took = 19; google.protobuf.Int32Value level = 20;
    }
    """,
    *(f"google/protobuf/{name}.proto" for name in ("timestamp", "struct", "duration", "wrappers")),
)
WIDE_SCHEMA = (
    SCHEMA.replace("sint32", "sint64")
    .replace("uint32", "uint64")
    .replace(" int32", " int64")
    .replace("Int32Value", "Int64Value")
)
"""The same, whose numbers of 32 bits have 64."""

FULL = write(
    SCHEMA,
    """
    id: "a" amount: -1 price: 1.5 ratio: 0.5 paid: true kind: SOME items { name: "b" count: 300 within { count: -7 } }
    items { } codes: 1 codes: 70000 parts { key: "k" value { name: "c" } } at { seconds: 1357396200 nanos: 5 }
    serial: 9 body: "xyz" note: 4294967295 extra { fields { key: "e" value { list_value { values { number_value: 2 } } } } }
    words: 3 words: 4 change: -3 second: "d" took { seconds: 3 } level { value: 8 } """,
)
FIELDS = {name: Field(type=kind) for name, kind in format_of(SCHEMA).fields.items() if kind} | {
    "took": Field(type="string")
}


def _parts(message: Any) -> Iterator[Any]:
    """The messages within a message, and itself."""
    yield message
    for field, value in message.ListFields():
        if field.message_type and field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type:
                for one in value.values():
                    yield from _parts(one)
        elif field.message_type:
            for one in value if field.is_repeated else [value]:
                yield from _parts(one)


def _numbers_fit(message: Any) -> bool:
    """Whether a message of the wide schema has numbers of 32 bits where the other has them, and moments that exist."""
    for part in _parts(message):
        match part.DESCRIPTOR.full_name:
            case "t.M":
                numbers = [*part.codes, part.change]
                if not 0 <= part.note < 1 << 32 or (part.kind not in (0, 1)):
                    return False
            case "t.Item":
                numbers = [part.count]
            case "google.protobuf.Int64Value":
                numbers = [part.value]
            case "google.protobuf.Timestamp":
                numbers = []
                if not (0 <= part.nanos < 10**9 and -62135596800 <= part.seconds < 253402300800):
                    return False
            case "google.protobuf.Duration":
                numbers = []
                if abs(part.seconds) > 315_576_000_000 or abs(part.nanos) >= 10**9 or part.seconds * part.nanos < 0:
                    return False
            case _:
                numbers = []
        if not all(-(1 << 31) <= number < 1 << 31 for number in numbers):
            return False
    return all(abs(value) < float("inf") for value in (message.price, message.ratio))


def is_message(value: bytes) -> bool:
    """Whether Google's library parses ``value``, no known field is among the unknown ones, and all numbers fit."""
    try:
        message, wide = message_class(SCHEMA).FromString(value), message_class(WIDE_SCHEMA).FromString(value)
    except DecodeError:
        return False
    hidden = any(
        one.field_number in part.DESCRIPTOR.fields_by_number
        for part in _parts(message)
        for one in UnknownFieldSet(part)
    )
    return not hidden and _numbers_fit(wide)
