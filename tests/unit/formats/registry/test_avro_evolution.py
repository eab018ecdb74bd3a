"""Schemas of writers and readers that differ are resolved as fastavro does."""

import io
import json
import math
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from hourline_core.formats.avro.writers import AvroWriters
from hourline_core.formats.registry.written_schema import WrittenSchema
from hourline_core.model.avro_schema import parse_avro
from hourline_core.model.fields import Field
from hourline_core.model.record_format import AvroFormat
from hourline_core.model.record_types import fields_of
from tests.support.registry_records import member, record

Schema = Any

_NAMES = [*"abcdef"]
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
}
_WIDER = {"int": ["int", "long"], "float": ["float", "double"]}


@st.composite
def types(draw: st.DrawFn, depth: int = 2) -> Schema:
    """A type of a member; at most ``depth`` records, arrays and maps are within each other."""
    kind = draw(st.sampled_from([*_VALUES, *(("array", "map", "record", "nullable") if depth else ())]))
    match kind:
        case "array":
            return {"type": "array", "items": draw(types(depth - 1))}
        case "map":
            return {"type": "map", "values": draw(types(depth - 1))}
        case "record":
            return draw(records(depth - 1))
        case "nullable":
            return ["null", draw(types(depth - 1).filter(lambda kind: not isinstance(kind, list)))]
    return kind


@st.composite
def records(draw: st.DrawFn, depth: int = 2) -> Schema:
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=4, unique=True))
    # Names of types are unique by the path to them.
    return {"type": "record", "name": "R", "fields": [member(name, draw(types(depth))) for name in names]}


def values(schema: Schema) -> st.SearchStrategy[Any]:
    match schema:
        case str():
            return _VALUES[schema]
        case ["null", other]:
            return st.none() | values(other)
        case {"type": "array", "items": element}:
            return st.lists(values(element), max_size=3)
        case {"type": "map", "values": element}:
            return st.dictionaries(_VALUES["string"], values(element), max_size=3)
    return st.fixed_dictionaries({one["name"]: values(one["type"]) for one in schema["fields"]})


@st.composite
def evolved(draw: st.DrawFn, schema: Schema) -> Schema:
    """What a reader may declare for values of ``schema``."""
    match schema:
        case str():
            return draw(st.sampled_from(_WIDER.get(schema, [schema])))
        case ["null", other]:
            return ["null", draw(evolved(other))]
        case {"type": "array", "items": element}:
            return {"type": "array", "items": draw(evolved(element))}
        case {"type": "map", "values": element}:
            return {"type": "map", "values": draw(evolved(element))}
    members = []
    for one in draw(st.permutations(schema["fields"])):
        kind, change = draw(evolved(one["type"])), draw(st.sampled_from(["keep", "remove", "rename", "optional"]))
        if change == "optional" and not isinstance(kind, list):
            kind = ["null", kind]
        if change == "rename":
            members.append(member(f"{one['name']}_now", kind, aliases=["before", one["name"]]))
        elif change != "remove" or not members:
            members.append(member(one["name"], kind))
    for number in range(draw(st.integers(0, 2))):
        kind = draw(types(1))
        default = draw(values(kind if not isinstance(kind, list) else "boolean"))
        members.append(member(f"new{number}", kind, default=None if isinstance(kind, list) else default))
    return {**schema, "fields": members}


def with_own_names(schema: Schema, path: str = "R") -> Schema:
    """``schema`` with a name for each record that no other one has."""
    match schema:
        case str():
            return schema
        case ["null", other]:
            return ["null", with_own_names(other, path)]
        case {"type": "array" | "map"}:
            key = "items" if schema["type"] == "array" else "values"
            return {**schema, key: with_own_names(schema[key], path)}
    fields = [
        {**one, "type": with_own_names(one["type"], f"{path}_{one.get('aliases', [one['name']])[-1]}")}
        for one in schema["fields"]
    ]
    return {**schema, "name": path, "fields": fields}


@st.composite
def cases(draw: st.DrawFn) -> tuple[Schema, Schema, Any]:
    writer = draw(records())
    return with_own_names(writer), with_own_names(draw(evolved(writer))), draw(values(writer))


def ours(writer: Schema, reader: Schema, written: bytes, kinds: Mapping[str, str] | None = None) -> Any:
    """The fields of a record, or the reason for its rejection."""
    text = json.dumps(reader)
    declared = kinds or {name: kind for name, kind in fields_of(parse_avro(text)) if kind}
    fields = {name: Field(type=kind) for name, kind in declared.items()}
    decoded = (
        AvroWriters(text, fields).decoder_of(WrittenSchema(1, "AVRO", json.dumps(writer))).decode(pa.array([written]))
    )
    return decoded.reasons[0].as_py() or {name: plain(column[0].as_py()) for name, column in decoded.columns.items()}


def plain(value: Any) -> Any:
    """``value`` with mappings for Arrow's maps."""
    if isinstance(value, list):
        pairs = [isinstance(one, tuple) for one in value]
        return {name: plain(one) for name, one in value} if any(pairs) else [plain(one) for one in value]
    return {name: plain(one) for name, one in value.items()} if isinstance(value, dict) else value


def write(schema: Schema, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def is_same(got: Any, want: Any) -> bool:
    """Whether they are equal. An empty map is an empty list in Arrow's values."""
    if isinstance(want, dict):
        return (got == [] and not want) or (
            isinstance(got, dict) and got.keys() == want.keys() and all(is_same(got[name], want[name]) for name in want)
        )
    if isinstance(want, list):
        return len(got) == len(want) and all(map(is_same, got, want))
    return bool(got == want) or (isinstance(want, float) and math.isclose(got, want, rel_tol=1e-6))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(cases())
def test_a_record_is_what_fastavro_makes_of_it(case: tuple[Schema, Schema, Any]) -> None:
    writer, reader, value = case
    written = write(writer, value)
    oracle: Callable[..., Any] = fastavro.schemaless_reader
    want = oracle(io.BytesIO(written), fastavro.parse_schema(writer), fastavro.parse_schema(reader))
    assert is_same(ours(writer, reader, written), want)


UUIDS = "61616161-6161-6161-6161-616161616161"


@pytest.mark.parametrize(
    ("kind", "default", "declared", "value"),
    [
        ("boolean", True, "boolean", True),
        ("int", -1, "int", -1),
        ("long", 2**40, "long", 2**40),
        ("double", 1, "double", 1.0),
        ("string", "é", "string", "é"),
        ("bytes", "ÿ\u0000", "string", "/wA="),
        ({"type": "fixed", "name": "F", "size": 2}, "ab", "string", "YWI="),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "string", "B"),
        ({"type": "array", "items": "int"}, [1, 2], "array<int>", [1, 2]),
        ({"type": "map", "values": "int"}, {"x": 1}, "map<string, int>", {"x": 1}),
        (["null", "int"], None, "int", None),
        (["int", "null"], 7, "int", 7),
        (["int", "string"], 7, "json", "7"),
        (["int", "string"], "7", "json", '"7"'),
        (["null", "string"], "late", "string", "late"),
        (["null", "int", "string"], None, "json", None),
        ({"type": "int", "logicalType": "date"}, 1, "date", date(1970, 1, 2)),
        ({"type": "string", "logicalType": "uuid"}, "X", "string", "X"),
        ({"type": {"type": "fixed", "name": "F", "size": 16}, "logicalType": "uuid"}, "a" * 16, "string", UUIDS),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            "\u0001\u0000",
            "decimal(4,2)",
            Decimal("2.56"),
        ),
        (record("I", member("a", "int"), member("b", "int", default=2)), {"a": 1}, "json", '{"a":1,"b":2}'),
    ],
)
def test_each_type_has_its_default(kind: Schema, default: Any, declared: str, value: Any) -> None:
    writer = record("R", member("x", "int"))
    reader = record("R", member("x", "int"), member("new", kind, default=default))
    assert ours(writer, reader, b"\x02", {"x": "int", "new": declared}) == {"x": 1, "new": value}


@pytest.mark.parametrize(
    ("kind", "default", "said"),
    [
        ("int", "x", "'x', allowed is a value of int"),
        ("int", True, "'True', allowed is a value of int"),
        ("int", 2**31, "'2147483648', allowed is a value of int"),
        ("boolean", 0, "'0', allowed is a value of boolean"),
        ("double", "1", "'1', allowed is a value of double"),
        ("string", None, "nothing, allowed is a value of string"),
        ("bytes", "Ā", "'Ā', allowed is a value of bytes"),
        ({"type": "fixed", "name": "F", "size": 2}, "a", "'a', allowed is a value of fixed(2)"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B", "'B', allowed is a value of enum E"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, ["A"], "a list, allowed is a value of enum E"),
        ({"type": "array", "items": "int"}, ["1"], "a list, allowed is a value of array"),
        ({"type": "map", "values": "int"}, {"a": None}, "a mapping, allowed is a value of map"),
        (["null", "int"], "x", "'x', allowed is a value of union of null, int"),
        (record("I", member("a", "int")), {}, "a mapping, allowed is a value of record I"),
        (record("I", member("a", "I", default={})), {}, "a mapping, allowed is a value of record I"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 1},
            "\n",
            "'', allowed is a value of decimal(1,0)",
        ),
    ],
)
def test_a_default_that_is_no_value_of_its_type_is_a_mistake(kind: Schema, default: Any, said: str) -> None:
    """Otherwise, each record of a writer without the member would have it."""
    schema = json.dumps(record("R", member("within", ["null", record("Inner", member("new", kind, default=default))])))
    assert AvroFormat(schema=schema).fields, "without a registry, it is never used"
    with pytest.raises(ValidationError) as refused:
        AvroFormat(schema=schema, registry=True)
    (mistake,) = refused.value.errors()
    assert mistake["ctx"]["sentence"].endswith(said)


def test_branches_of_a_union_are_those_of_the_reader_by_name_and_alias() -> None:
    old, kept = record("Old", member("a", "int")), record("Kept", member("a", "int"))
    writer = record("R", member("one", [old, kept]))
    new = record("New", member("b", "int", aliases=["a"]), aliases=["Old"])
    reader = record("R", member("one", [kept, new]))
    got = [ours(writer, reader, write(writer, {"one": (name, {"a": 1})}), {"one": "json"}) for name in ("Old", "Kept")]
    assert got == [{"one": '{"b":1}'}, {"one": '{"a":1}'}]
