"""Which values of Protobuf's types each declared type takes: the rows of the reference's tables. Each row is tested."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, auto
from typing import Any, Literal

Syntax = Literal["proto2", "proto3"]


@dataclass(frozen=True)
class Row:
    """A value of a Protobuf type, and what a declared type makes of it."""

    protobuf: str
    """The type in words."""
    member: str
    """The declaration of a member ``x``, or of a oneof that has it."""
    value: str
    """A message that has the member, in Protobuf's text format."""
    declared: str
    taken: Any = None
    """The value as Python has it. None: it is refused. NULL: it is null."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the field declares beside its type."""
    syntax: Syntax = "proto3"


class Null(Enum):
    """What is taken as null."""

    NULL = auto()


NULL = Null.NULL

TYPES = """
enum Colour { NONE = 0; RED = 1; BLUE = -2; }
message Place { double lat = 1; optional string name = 2; }
message Node { int32 n = 1; Node next = 2; repeated Node others = 3; }
message Mixed { int32 n = 1; google.protobuf.Any detail = 2; google.protobuf.Duration took = 3; }
"""
"""What the members of rows of proto3 are made of."""

TYPES_OF_PROTO2 = """
enum Colour { RED = 1; BLUE = 2; }
message Place { optional double lat = 1; required string name = 2; }
"""
"""The same of proto2."""

IMPORTS = tuple(f"google/protobuf/{name}.proto" for name in ("any", "duration", "struct", "timestamp", "wrappers"))

_MOMENT = datetime(2013, 1, 5, 14, 30, 0, 123456, tzinfo=UTC)
_TIMESTAMP = "google.protobuf.Timestamp x = 2;"
_DURATION = "google.protobuf.Duration x = 2;"
_STRUCT, _VALUE = "google.protobuf.Struct x = 2;", "google.protobuf.Value x = 2;"
_EPOCH_SECONDS = {"encoding": "epoch_seconds"}

FOLLOWING: list[tuple[str, str, str | None]] = [
    ("`bool`", "bool x = 2;", "boolean"),
    ("`int32`, `sint32`, `sfixed32`", "int32 x = 2;", "int"),
    ("`int64`, `sint64`, `sfixed64`", "sint64 x = 2;", "long"),
    ("`uint32`, `fixed32`", "fixed32 x = 2;", "long"),
    ("`uint64`, `fixed64`", "uint64 x = 2;", "decimal(20,0)"),
    ("`float`", "float x = 2;", "float"),
    ("`double`", "double x = 2;", "double"),
    ("`string`", "string x = 2;", "string"),
    ("`bytes`", "bytes x = 2;", "string"),
    ("enum", "Colour x = 2;", "string"),
    ("message", "Place x = 2;", "struct<lat: double, name: string>"),
    ("message that has itself as a part", "Node x = 2;", "struct<n: int, next: json, others: array<json>>"),
    ("message with members that cannot be a field", "Mixed x = 2;", "struct<n: int>"),
    ("`repeated`", "repeated int32 x = 2;", "array<int>"),
    ("`map`", "map<int64, double> x = 2;", "map<string, double>"),
    ("member of a `oneof`", "oneof one { int32 x = 2; string y = 3; }", "int"),
    ("`google.protobuf.Timestamp`", _TIMESTAMP, "timestamp"),
    ("`google.protobuf.Int64Value`; other wrappers as the type in them", "google.protobuf.Int64Value x = 2;", "long"),
    ("`google.protobuf.UInt64Value`", "google.protobuf.UInt64Value x = 2;", "decimal(20,0)"),
    ("`google.protobuf.Struct`, `Value`, `ListValue`", _STRUCT, "json"),
    ("`google.protobuf.Duration`", _DURATION, None),
    ("`google.protobuf.Any`", "google.protobuf.Any x = 2;", None),
]
"""A Protobuf type in words, a member of it, and the declared type that follows from it. None: there is none."""


def _rows(words: str, declared: str, taken: Mapping[str, Any], *kinds: str) -> list[Row]:
    return [
        Row(kind, f"{kind} x = 2;", value, declared, to) for kind in kinds or (words,) for value, to in taken.items()
    ]


ROWS: list[Row] = [
    *_rows("bool", "boolean", {"x: true": True, "": False}),
    Row("bool", "bool x = 2;", "x: true", "string"),
    *_rows("", "int", {"x: -2147483648": -(2**31), "x: 2147483647": 2**31 - 1}, "int32", "sint32", "sfixed32"),
    *_rows("", "long", {"x: -9223372036854775808": -(2**63), "": 0}, "int64", "sint64", "sfixed64"),
    *_rows("", "long", {"x: 4294967295": 2**32 - 1}, "uint32", "fixed32"),
    *_rows("", "int", {"x: 2147483647": 2**31 - 1, "x: 2147483648": None}, "uint32", "fixed32"),
    *_rows("", "decimal(20,0)", {"x: 18446744073709551615": Decimal(2**64 - 1)}, "uint64", "fixed64"),
    *_rows("", "long", {"x: 9223372036854775807": 2**63 - 1, "x: 9223372036854775808": None}, "uint64", "fixed64"),
    Row("int32", "int32 x = 2;", "x: 7", "long", 7),
    Row("int32", "int32 x = 2;", "x: 7", "double", 7.0),
    Row("int32", "int32 x = 2;", "x: 16777217", "float"),
    Row("int32", "int32 x = 2;", "x: 7", "decimal(10,2)", Decimal("7.00")),
    Row("int32", "int32 x = 2;", "x: 7", "string"),
    Row("int64", "int64 x = 2;", "x: 2147483648", "int"),
    Row("int64", "int64 x = 2;", "x: 9007199254740993", "double"),
    Row("int64", "int64 x = 2;", "x: 7", "json", "7"),
    Row(
        "int64", "int64 x = 2;", "x: 1357396200", "timestamp", datetime(2013, 1, 5, 14, 30, tzinfo=UTC), _EPOCH_SECONDS
    ),
    Row("float", "float x = 2;", "x: 1.5", "float", 1.5),
    Row("float", "float x = 2;", "x: 0.1", "double", 0.10000000149011612),
    Row("float", "float x = 2;", "x: nan", "float"),
    Row("double", "double x = 2;", "x: -0.0", "double", -0.0),
    Row("double", "double x = 2;", "x: 1e39", "float"),
    Row("double", "double x = 2;", "x: nan", "double"),
    Row("double", "double x = 2;", "x: -inf", "double"),
    Row("double", "double x = 2;", "x: 1.5", "decimal(10,2)"),
    Row("double", "double x = 2;", "x: inf", "json"),
    Row("string", "string x = 2;", r'x: "\303\251\000"', "string", "é\x00"),
    Row("string", "string x = 2;", "", "string", ""),
    Row("string", "string x = 2;", 'x: "-7.5"', "decimal(10,2)", Decimal("-7.50")),
    Row("string", "string x = 2;", 'x: "7.555"', "decimal(10,2)", Decimal("7.56"), {"round": True}),
    Row("string", "string x = 2;", 'x: "2013-01-05T14:30:00.123456Z"', "timestamp", _MOMENT),
    Row("string", "string x = 2;", 'x: "5"', "int"),
    Row("string", "string x = 2;", 'x: "a"', "json", '"a"'),
    Row("bytes", "bytes x = 2;", r'x: "\000\377"', "string", "AP8="),
    Row("bytes", "bytes x = 2;", r'x: "\000\377"', "json", '"AP8="'),
    Row("enum", "Colour x = 2;", "x: BLUE", "string", "BLUE"),
    Row("enum", "Colour x = 2;", "", "string", "NONE"),
    Row("enum", "Colour x = 2;", "x: BLUE", "int", -2),
    Row("enum", "Colour x = 2;", "x: BLUE", "json", '"BLUE"'),
    Row("enum without that number", "Colour x = 2;", "x: 9", "string"),
    Row("enum without that number", "Colour x = 2;", "x: 9", "int", 9),
    Row("enum without that number", "Colour x = 2;", "x: 9", "json", "9"),
    Row("`optional`", "optional int32 x = 2;", "x: 0", "int", 0),
    Row("`optional`", "optional int32 x = 2;", "", "int", NULL),
    Row("message", "Place x = 2;", "x { lat: 1.5 }", "struct<lat: double>", {"lat": 1.5}),
    Row("message", "Place x = 2;", "x { }", "struct<name: string, lat: double>", {"name": None, "lat": 0.0}),
    Row("message", "Place x = 2;", "", "struct<lat: double>", NULL),
    Row("message", "Place x = 2;", "x { }", "struct<lon: double>"),
    Row("message", "Place x = 2;", 'x { lat: 1.5 name: "a" }', "json", '{"lat":1.5,"name":"a"}'),
    Row("message", "Place x = 2;", "x { }", "map<string, double>"),
    Row(
        "message of itself",
        "Node x = 2;",
        "x { n: 1 next { n: 2 } }",
        "json",
        '{"n":1,"next":{"n":2,"next":null,"others":[]},"others":[]}',
    ),
    Row("message with `Any`", "Mixed x = 2;", "x { n: 1 }", "json", '{"detail":null,"n":1,"took":null}'),
    Row("message with `Any`", "Mixed x = 2;", 'x { detail { type_url: "a/b" } }', "json"),
    Row("`repeated`", "repeated int32 x = 2;", "x: 1 x: 0", "array<int>", [1, 0]),
    Row("`repeated`", "repeated int32 x = 2;", "", "array<int>", []),
    Row("`repeated`", "repeated int64 x = 2;", "x: 1 x: 2147483648", "array<int>"),
    Row("`repeated`", "repeated Colour x = 2;", "x: RED x: NONE", "array<string>", ["RED", "NONE"]),
    Row(
        "`repeated`",
        "repeated Place x = 2;",
        "x { lat: 1 } x { }",
        "array<struct<lat: double>>",
        [{"lat": 1.0}, {"lat": 0.0}],
    ),
    Row("`map`", "map<string, int32> x = 2;", 'x { key: "a" value: 1 }', "map<string, int>", [("a", 1)]),
    Row("`map`", "map<string, int32> x = 2;", "", "map<string, int>", []),
    Row(
        "`map` of other keys",
        "map<sint64, bool> x = 2;",
        "x { key: -5 value: true }",
        "map<string, boolean>",
        [("-5", True)],
    ),
    Row(
        "`map` of other keys", "map<bool, Place> x = 2;", "x { key: true }", "json", '{"true":{"lat":0.0,"name":null}}'
    ),
    Row("`oneof`", "oneof one { int32 x = 2; string y = 3; }", "x: 0", "int", 0),
    Row("`oneof`", "oneof one { int32 x = 2; string y = 3; }", 'y: "a"', "int", NULL),
    Row("`Timestamp`", _TIMESTAMP, "x { seconds: 1357396200 nanos: 123456999 }", "timestamp", _MOMENT),
    Row(
        "`Timestamp`",
        _TIMESTAMP,
        "x { seconds: -1 nanos: 999999999 }",
        "timestamp",
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    ),
    Row("`Timestamp`", _TIMESTAMP, "x { seconds: -62135596800 }", "timestamp", datetime(1, 1, 1, tzinfo=UTC)),
    Row("`Timestamp`", _TIMESTAMP, "x { seconds: 253402300800 }", "timestamp"),
    Row("`Timestamp`", _TIMESTAMP, "x { seconds: -62135596801 nanos: 999999999 }", "timestamp"),
    Row("`Timestamp`", _TIMESTAMP, "", "timestamp", NULL),
    Row("`Timestamp`", _TIMESTAMP, "x { seconds: 1357396200 }", "json", '"2013-01-05T14:30:00Z"'),
    Row("`Timestamp`", _TIMESTAMP, "x { seconds: 1357396200 }", "string"),
    Row("`Duration`", _DURATION, "x { seconds: -1 nanos: -500000000 }", "string", "-1.5s"),
    Row("`Duration`", _DURATION, "x { seconds: 100 }", "json", '"100s"'),
    Row("`Duration`", _DURATION, "x { seconds: 1 }", "long"),
    Row("`Int64Value`", "google.protobuf.Int64Value x = 2;", "x { value: 5 }", "long", 5),
    Row("`Int64Value`", "google.protobuf.Int64Value x = 2;", "x { }", "long", 0),
    Row("`Int64Value`", "google.protobuf.Int64Value x = 2;", "", "long", NULL),
    Row("`StringValue`", "google.protobuf.StringValue x = 2;", 'x { value: "a" }', "string", "a"),
    Row(
        "`BytesValue`",
        "repeated google.protobuf.BytesValue x = 2;",
        'x { value: "a" } x { }',
        "array<string>",
        ["YQ==", ""],
    ),
    Row("`Struct`", _STRUCT, 'x { fields { key: "a" value { number_value: 1.5 } } }', "json", '{"a":1.5}'),
    Row("`Struct`", _STRUCT, 'x { fields { key: "a" value { number_value: nan } } }', "json"),
    Row("`Struct`", _STRUCT, "x { }", "map<string, string>"),
    Row(
        "`Value`",
        _VALUE,
        "x { list_value { values { null_value: 0 } values { bool_value: true } } }",
        "json",
        "[null,true]",
    ),
    Row("`Any`", "google.protobuf.Any x = 2;", 'x { type_url: "a/b" }', "json"),
    Row("`optional` of proto2", "optional int32 x = 2;", "", "int", NULL, syntax="proto2"),
    Row("default of proto2", "optional int32 x = 2 [default = 7];", "", "int", 7, syntax="proto2"),
    Row("default of proto2", "optional Colour x = 2 [default = BLUE];", "", "string", "BLUE", syntax="proto2"),
    Row("default of proto2", "optional string x = 2 [default = 'a'];", 'x: ""', "string", "", syntax="proto2"),
    Row("enum of proto2", "optional Colour x = 2;", "x: BLUE", "string", "BLUE", syntax="proto2"),
    Row("enum of proto2", "repeated Colour x = 2;", "x: BLUE x: RED", "array<int>", [2, 1], syntax="proto2"),
    Row(
        "`required` of proto2",
        "optional Place x = 2;",
        'x { name: "a" }',
        "struct<name: string>",
        {"name": "a"},
        syntax="proto2",
    ),
    Row("`required` of proto2", "optional Place x = 2;", "x { }", "struct<name: string>", syntax="proto2"),
    Row(
        "group of proto2",
        "optional group X = 2 { optional int32 a = 1; }",
        "X { a: 1 }",
        "struct<a: int>",
        {"a": 1},
        syntax="proto2",
    ),
]
