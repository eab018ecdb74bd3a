"""What is read of a record that was written by another schema than that of its source. Each row is tested."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Member = Mapping[str, Any]
"""A field of a record in a schema of Avro, as JSON."""


@dataclass(frozen=True)
class Row:
    """How the schema of the record differs, and what a source reads, which has the fields that follow from its own."""

    difference: str
    """What the schema of the record has, in words."""
    written: tuple[Member, ...]
    read: tuple[Member, ...]
    """The same members in the schema of the source."""
    value: Mapping[str, Any]
    """As fastavro writes it."""
    taken: Mapping[str, Any] | None = None
    """The fields. None: the record is rejected."""
    names: tuple[str, str] = ("Order", "Order")
    """Those of both records."""
    aliases: tuple[str, ...] = field(default=())
    """Those of the record of the source."""


def _member(name: str, kind: Any, **more: Any) -> Member:
    return {"name": name, "type": kind, **more}


_N = _member("n", "int")
_PLACE = {"type": "record", "name": "Place", "fields": [_member("lat", "double"), _member("more", "string")]}
_PLACE_READ = {
    "type": "record",
    "name": "Place",
    "fields": [_member("latitude", "double", aliases=["lat"]), _member("city", "string", default="?")],
}

ROWS = (
    Row("no member that has a default", (_N,), (_N, _member("m", "string", default="x")), {"n": 1}, {"n": 1, "m": "x"}),
    Row("no member without a default", (_N,), (_N, _member("m", "string")), {"n": 1}),
    Row("a further member", (_N, _member("m", "string")), (_N,), {"n": 1, "m": "x"}, {"n": 1}),
    Row(
        "its members in another order",
        (_member("m", "int"), _N),
        (_N, _member("m", "int")),
        {"n": 1, "m": 2},
        {"n": 1, "m": 2},
    ),
    Row("a member under an alias", (_N,), (_member("count", "int", aliases=["n"]),), {"n": 1}, {"count": 1}),
    Row("int in the place of long", (_N,), (_member("n", "long"),), {"n": 1}, {"n": 1}),
    Row("int in the place of double", (_N,), (_member("n", "double"),), {"n": 1}, {"n": 1.0}),
    Row("float in the place of double", (_member("n", "float"),), (_member("n", "double"),), {"n": 0.5}, {"n": 0.5}),
    Row("long in the place of int, with a value that int holds", (_member("n", "long"),), (_N,), {"n": 1}, {"n": 1}),
    Row("long in the place of int, with another value", (_member("n", "long"),), (_N,), {"n": 1 << 40}),
    Row("string in the place of int", (_member("n", "string"),), (_N,), {"n": "1"}),
    Row("a type in the place of a union with null", (_N,), (_member("n", ["null", "int"]),), {"n": 1}, {"n": 1}),
    Row("a union with null in the place of a type", (_member("n", ["null", "int"]),), (_N,), {"n": None}, {"n": None}),
    Row(
        "an enum symbol that the declared schema does not have",
        (_member("n", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),),
        (_member("n", {"type": "enum", "name": "E", "symbols": ["A"]}),),
        {"n": "B"},
        {"n": "B"},
    ),
    Row(
        "the same within an inner record",
        (_member("at", _PLACE),),
        (_member("at", _PLACE_READ),),
        {"at": {"lat": 1.5, "more": "x"}},
        {"at": {"latitude": 1.5, "city": "?"}},
    ),
    Row("another namespace", (_N,), (_N,), {"n": 1}, {"n": 1}, ("shop.Order", "Order")),
    Row(
        "a name that is an alias", (_N,), (_N,), {"n": 1}, {"n": 1}, names=("Purchase", "Order"), aliases=("Purchase",)
    ),
    Row("another name", (_N,), (_N,), {"n": 1}, names=("Payment", "Order")),
)


@dataclass(frozen=True)
class ProtobufRow:
    """How the message of the record differs, and what a source reads, which has the fields that follow from its own."""

    difference: str
    """What the message of the record has, in words."""
    written: str
    """Its members."""
    read: str
    """Those of the message of the source."""
    value: str
    """The record, in Protobuf's text format."""
    taken: Mapping[str, Any] | None = None
    """The fields. None: the record is rejected."""
    name: str = ""
    """That of the message of the source, if it is another one than that of the record."""


PROTOBUF_TYPES = {
    "written": "enum Colour { NONE = 0; RED = 1; BLUE = 2; } message Place { double lat = 1; string more = 2; }",
    "read": "enum Colour { NONE = 0; CRIMSON = 1; } message Place { double latitude = 1; string city = 3; }",
}
"""What the members of both are made of."""

PROTOBUF_ROWS = (
    ProtobufRow("a member under another name", "int32 count = 1;", "int32 n = 1;", "count: 5", {"n": 5}),
    ProtobufRow("a further member", "int32 n = 1; string m = 2;", "int32 n = 1;", 'n: 5 m: "x"', {"n": 5}),
    ProtobufRow("no such member", "int32 n = 1;", "int32 n = 1; string m = 2;", "n: 5", {"n": 5, "m": ""}),
    ProtobufRow(
        "no such `optional` member", "int32 n = 1;", "int32 n = 1; optional string m = 2;", "n: 5", {"n": 5, "m": None}
    ),
    ProtobufRow(
        "no such `repeated` member", "int32 n = 1;", "int32 n = 1; repeated int32 m = 2;", "n: 5", {"n": 5, "m": []}
    ),
    ProtobufRow("the name under another number", "int32 n = 2;", "int32 n = 1;", "n: 5", {"n": 0}),
    ProtobufRow("int32 in the place of int64", "int32 n = 1;", "int64 n = 1;", "n: -5", {"n": -5}),
    ProtobufRow(
        "int64 in the place of int32, with a value that int holds", "int64 n = 1;", "int32 n = 1;", "n: -5", {"n": -5}
    ),
    ProtobufRow("int64 in the place of int32, with another value", "int64 n = 1;", "int32 n = 1;", "n: 2147483648"),
    ProtobufRow("sint32 in the place of int32", "sint32 n = 1;", "int32 n = 1;", "n: -5", {"n": -5}),
    ProtobufRow("fixed64 in the place of int64", "fixed64 n = 1;", "int64 n = 1;", "n: 5", {"n": 5}),
    ProtobufRow("int32 in the place of double", "int32 n = 1;", "double n = 1;", "n: 5", {"n": 5.0}),
    ProtobufRow("float in the place of double", "float n = 1;", "double n = 1;", "n: 0.5", {"n": 0.5}),
    ProtobufRow("string in the place of int32", "string n = 1;", "int32 n = 1;", 'n: "5"'),
    ProtobufRow("bytes in the place of string", "bytes n = 1;", "string n = 1;", r'n: "\303\251"', {"n": "é"}),
    ProtobufRow("bytes in the place of string, which are no UTF-8", "bytes n = 1;", "string n = 1;", r'n: "\377"'),
    ProtobufRow("string in the place of bytes", "string n = 1;", "bytes n = 1;", r'n: "\303\251"', {"n": "w6k="}),
    ProtobufRow(
        "`optional`, and not set, in the place of without it", "optional int32 n = 1;", "int32 n = 1;", "", {"n": None}
    ),
    ProtobufRow(
        "a member without `optional`, and not set, in the place of one",
        "int32 n = 1;",
        "optional int32 n = 1;",
        "",
        {"n": 0},
    ),
    ProtobufRow("`repeated` in the place of one value", "repeated int32 n = 1;", "int32 n = 1;", "n: 5"),
    ProtobufRow("one value in the place of `repeated`", "int32 n = 1;", "repeated int32 n = 1;", "n: 5"),
    ProtobufRow(
        "a name in an enum that the declared one does not have",
        "Colour n = 1;",
        "Colour n = 1;",
        "n: BLUE",
        {"n": "BLUE"},
    ),
    ProtobufRow("another name of a number in an enum", "Colour n = 1;", "Colour n = 1;", "n: RED", {"n": "CRIMSON"}),
    ProtobufRow("an enum in the place of int32", "Colour n = 1;", "int32 n = 1;", "n: BLUE", {"n": 2}),
    ProtobufRow("int32 in the place of an enum", "int32 n = 1;", "Colour n = 1;", "n: 1"),
    ProtobufRow(
        "the same within an inner message",
        "Place at = 1;",
        "Place at = 1;",
        'at { lat: 1.5 more: "x" }',
        {"at": {"latitude": 1.5, "city": ""}},
    ),
    ProtobufRow("another message name", "int32 n = 1;", "int32 n = 1;", "n: 5", name="Payment"),
)
"""Both messages are in other packages, which does not matter."""
