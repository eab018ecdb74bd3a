"""Which values of Avro's types each declared type takes: the rows of the reference's tables. Each row is tested."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

Schema = Any
"""A schema of Avro, as JSON."""


@dataclass(frozen=True)
class Row:
    """A value of an Avro type, and what a declared type makes of it."""

    avro: str
    """The type in words."""
    schema: Schema
    value: Any
    """As fastavro writes it."""
    declared: str
    taken: Any = None
    """The value as Python has it. None: it is refused."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the field declares beside its type."""


def _logical(primitive: str, logical: str, **more: Any) -> Schema:
    return {"type": primitive, "logicalType": logical, **more}


DECIMAL = _logical("bytes", "decimal", precision=6, scale=2)
DECIMAL_FIXED = {"type": "fixed", "name": "D", "size": 4, "logicalType": "decimal", "precision": 6, "scale": 2}
ENUM = {"type": "enum", "name": "Colour", "symbols": ["red", "blue"]}
RECORD = {
    "type": "record",
    "name": "Place",
    "fields": [{"name": "lat", "type": "double"}, {"name": "name", "type": ["null", "string"]}],
}
UUID_FIXED = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
DURATION = {"type": "fixed", "name": "L", "size": 12, "logicalType": "duration"}
NODE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "n", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
}

_MOMENT = datetime(2013, 1, 5, 14, 30, 0, 123456, tzinfo=UTC)
_MOMENT_MILLIS = _MOMENT.replace(microsecond=123000)
_MILLIS_TYPE = _logical("long", "timestamp-millis")
_MICROS_TYPE = _logical("long", "timestamp-micros")
_LOCAL_TYPE = _logical("long", "local-timestamp-micros")
_EPOCH_SECONDS, _EPOCH_MILLISECONDS = {"encoding": "epoch_seconds"}, {"encoding": "epoch_milliseconds"}
_MICROS = 1357396200123456
_UUID = "6a1e7d2c-4d6f-4b8e-9a55-0c1d2e3f4a5b"

FOLLOWING: list[tuple[str, Schema, str | None]] = [
    ("`boolean`", "boolean", "boolean"),
    ("`int`", "int", "int"),
    ("`long`", "long", "long"),
    ("`float`", "float", "float"),
    ("`double`", "double", "double"),
    ("`string`", "string", "string"),
    ("`bytes`, `fixed`", "bytes", "string"),
    ("`enum`", ENUM, "string"),
    ("`decimal`", DECIMAL, "decimal(6,2)"),
    ("`decimal` with more than 38 digits", _logical("bytes", "decimal", precision=39, scale=2), None),
    ("`uuid`", _logical("string", "uuid"), "string"),
    ("`date`", _logical("int", "date"), "date"),
    ("`time-millis`, `time-micros`", _logical("int", "time-millis"), "string"),
    ("`timestamp-millis`, `-micros`, `-nanos`", _MILLIS_TYPE, "timestamp"),
    ("`local-timestamp-millis`, `-micros`, `-nanos`", _LOCAL_TYPE, "string"),
    ("`duration`", DURATION, None),
    ("`record`", RECORD, "struct<lat: double, name: string>"),
    ("`record` that has itself as a part", NODE, "struct<n: int, next: json>"),
    ("`array`", {"type": "array", "items": "int"}, "array<int>"),
    ("`map`", {"type": "map", "values": "double"}, "map<string, double>"),
    ("union of null and a type", ["null", "long"], "long"),
    ("union of `int` and `long`", ["int", "long"], "long"),
    ("union of `float` and `double`", ["null", "float", "double"], "double"),
    ("union of other types", ["null", "int", "string"], "json"),
    ("`null`", "null", None),
]
"""An Avro type in words, a schema of it, and the declared type that follows from it. None: there is none."""

ROWS: list[Row] = [
    Row("boolean", "boolean", True, "boolean", True),
    Row("boolean", "boolean", True, "string"),
    Row("int", "int", -7, "int", -7),
    Row("int", "int", 7, "long", 7),
    Row("int", "int", 7, "double", 7.0),
    Row("int", "int", 7, "float", 7.0),
    Row("int", "int", 16777217, "float"),
    Row("int", "int", 7, "decimal(10,2)", Decimal("7.00")),
    Row("int", "int", 7, "string"),
    Row("int", "int", 1357396200, "timestamp", datetime(2013, 1, 5, 14, 30, tzinfo=UTC), _EPOCH_SECONDS),
    Row("long", "long", 2147483647, "int", 2147483647),
    Row("long", "long", 2147483648, "int"),
    Row("long", "long", -9223372036854775808, "long", -9223372036854775808),
    Row("long", "long", 9007199254740992, "double", 9007199254740992.0),
    Row("long", "long", 9007199254740993, "double"),
    Row("long", "long", 12345, "decimal(4,0)"),
    Row(
        "long",
        "long",
        1357396200123,
        "timestamp",
        _MOMENT_MILLIS,
        {"encoding": "epoch_milliseconds"},
    ),
    Row("long", "long", 1357396200123, "timestamp"),
    Row("float", "float", 1.5, "float", 1.5),
    Row("float", "float", 1.5, "double", 1.5),
    Row("double", "double", -0.0, "double", -0.0),
    Row("double", "double", 1.5, "float", 1.5),
    Row("double", "double", 1e39, "float"),
    Row("double", "double", float("nan"), "double"),
    Row("double", "double", float("inf"), "double"),
    Row("double", "double", 1.5, "decimal(10,2)"),
    Row("double", "double", 1.0, "int"),
    Row("string", "string", "é\x00", "string", "é\x00"),
    Row("string", "string", "2013-01-05", "date", date(2013, 1, 5)),
    Row("string", "string", "2013-01-05T14:30:00.123456Z", "timestamp", _MOMENT),
    Row("string", "string", "2013-01-05T14:30:00", "timestamp"),
    Row(
        "string",
        "string",
        "2013-01-05T09:30:00.123456",
        "timestamp",
        _MOMENT,
        {"encoding": "local", "zone": "America/New_York"},
    ),
    Row("string", "string", "-7.5", "decimal(10,2)", Decimal("-7.50")),
    Row("string", "string", "7.555", "decimal(10,2)", Decimal("7.56"), {"round": True}),
    Row("string", "string", "1e2", "decimal(10,2)"),
    Row("string", "string", "5", "int"),
    Row("string", "string", 'a"', "json", '"a\\""'),
    Row("bytes", "bytes", b"\x00\xff", "string", "AP8="),
    Row("fixed", {"type": "fixed", "name": "F", "size": 2}, b"\x00\xff", "string", "AP8="),
    Row("enum", ENUM, "blue", "string", "blue"),
    Row("enum", ENUM, "blue", "int"),
    Row("decimal(6,2)", DECIMAL, Decimal("-12.30"), "decimal(6,2)", Decimal("-12.30")),
    Row("decimal(6,2)", DECIMAL_FIXED, Decimal("-12.30"), "decimal(6,2)", Decimal("-12.30")),
    Row("decimal(6,2)", DECIMAL, Decimal("12.30"), "decimal(6,1)", Decimal("12.3")),
    Row("decimal(6,2)", DECIMAL, Decimal("12.35"), "decimal(6,1)"),
    Row("decimal(6,2)", DECIMAL, Decimal("-12.35"), "decimal(6,1)", Decimal("-12.4"), {"round": True}),
    Row("decimal(6,2)", DECIMAL, Decimal("1234.56"), "decimal(5,2)"),
    Row("decimal(6,2)", DECIMAL, Decimal("12.30"), "double"),
    Row("decimal(6,2)", DECIMAL, Decimal("12.30"), "json", "12.30"),
    Row("uuid", _logical("string", "uuid"), _UUID, "string", _UUID),
    Row("uuid", UUID_FIXED, bytes.fromhex(_UUID.replace("-", "")), "string", _UUID),
    Row("date", _logical("int", "date"), 15710, "date", date(2013, 1, 5)),
    Row("date", _logical("int", "date"), 2932897, "date"),
    Row("date", _logical("int", "date"), 15710, "string"),
    Row("date", _logical("int", "date"), 15710, "json", '"2013-01-05"'),
    Row("time-millis", _logical("int", "time-millis"), 52200123, "string", "14:30:00.123000"),
    Row("time-micros", _logical("long", "time-micros"), 52200000000, "string", "14:30:00"),
    Row("time-micros", _logical("long", "time-micros"), 86400000000, "string"),
    Row(
        "timestamp-millis",
        _MILLIS_TYPE,
        1357396200123,
        "timestamp",
        _MOMENT_MILLIS,
    ),
    Row("timestamp-micros", _MICROS_TYPE, _MICROS, "timestamp", _MOMENT),
    Row("timestamp-nanos", _logical("long", "timestamp-nanos"), _MICROS * 1000 + 999, "timestamp", _MOMENT),
    Row("timestamp-micros", _MICROS_TYPE, -62135596800000001, "timestamp"),
    Row(
        "timestamp-micros",
        _MICROS_TYPE,
        _MICROS,
        "timestamp",
        None,
        {"encoding": "epoch_seconds"},
    ),
    Row("timestamp-micros", _MICROS_TYPE, _MICROS, "long"),
    Row("timestamp-micros", _MICROS_TYPE, _MICROS, "json", '"2013-01-05T14:30:00.123456Z"'),
    Row(
        "local-timestamp-micros",
        _LOCAL_TYPE,
        _MICROS,
        "string",
        "2013-01-05T14:30:00.123456",
    ),
    Row(
        "local-timestamp-micros",
        _LOCAL_TYPE,
        _MICROS - 5 * 3600 * 1000000,
        "timestamp",
        _MOMENT,
        {"encoding": "local", "zone": "America/New_York"},
    ),
    Row("local-timestamp-micros", _LOCAL_TYPE, _MICROS, "timestamp"),
    Row("duration", DURATION, b"\x01\x00\x00\x00" * 3, "string"),
    Row("record", RECORD, {"lat": 1.5, "name": None}, "struct<lat: double>", {"lat": 1.5}),
    Row("record", RECORD, {"lat": 1.5, "name": "a"}, "struct<name: string, lat: double>", {"name": "a", "lat": 1.5}),
    Row("record", RECORD, {"lat": 1.5, "name": "a"}, "struct<lon: double>"),
    Row("record", RECORD, {"lat": 1.5, "name": "a"}, "json", '{"lat":1.5,"name":"a"}'),
    Row("record", RECORD, {"lat": 1.5, "name": "a"}, "map<string, double>"),
    Row(
        "record of itself", NODE, {"n": 1, "next": {"n": 2, "next": None}}, "json", '{"n":1,"next":{"n":2,"next":null}}'
    ),
    Row("array", {"type": "array", "items": ["null", "long"]}, [1, None], "array<int>", [1, None]),
    Row("array", {"type": "array", "items": "long"}, [1, 2147483648], "array<int>"),
    Row("array", {"type": "array", "items": "long"}, [1], "long"),
    Row("map", {"type": "map", "values": "int"}, {"a": 1}, "map<string, int>", [("a", 1)]),
    Row("map", {"type": "map", "values": "int"}, {"b": 1, "a": 2}, "json", '{"a":2,"b":1}'),
    Row("union of null and long", ["null", "long"], 5, "long", 5),
    Row("union of int and string", ["int", "string"], 5, "json", "5"),
    Row("union of int and string", ["int", "string"], "a", "string", "a"),
    Row("union of int and string", ["int", "string"], 5, "string"),
]
