"""Each row of the reference's tables of Protobuf holds."""

import math
from functools import cache
from typing import Any

import pytest

from docs.generate.protobuf_contract import FOLLOWING, IMPORTS, NULL, ROWS, TYPES, TYPES_OF_PROTO2, Row, Syntax
from hourline_core.model.fields import Field
from tests.support.protobuf import decode, format_of, message_class, schema_of, write

PLACES = {id(row): place for place, row in enumerate(ROWS)}


@cache
def _schema(syntax: Syntax) -> str:
    """One schema for all rows, since each takes a compiler. ``M0`` has the member of the first row, and ``N0`` has it
    within other types.
    """
    label, types = ("", TYPES) if syntax == "proto3" else ("optional ", TYPES_OF_PROTO2)
    messages = [
        f"message M{place} {{ {label}string before = 1; {row.member} {label}string after = 9; }} "
        f"message L{place} {{ repeated M{place} m = 1; }} message N{place} {{ map<string, L{place}> k = 1; }}"
        for place, row in enumerate(ROWS)
        if row.syntax == syntax
    ]
    return schema_of("\n".join([types, *messages]), *IMPORTS, syntax=syntax)


@cache
def _following_schema() -> str:
    messages = [f"message F{place} {{ string before = 1; {member} }}" for place, (_, member, _) in enumerate(FOLLOWING)]
    return schema_of("\n".join([TYPES, *messages]), *IMPORTS)


@pytest.mark.parametrize("place", range(len(FOLLOWING)), ids=[words for words, _, _ in FOLLOWING].__getitem__)
def test_a_field_follows_from_each_type(place: int) -> None:
    fields = format_of(_following_schema(), f"t.F{place}").fields
    assert (fields["before"], fields["x"]) == ("string", FOLLOWING[place][2])


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_row_of_the_contract_holds(row: Row) -> None:
    schema, message = _schema(row.syntax), f"t.M{PLACES[id(row)]}"
    value = write(schema, f'before: "a" {row.value} after: "z"', message)
    fields = {"x": Field(type=row.declared, **row.options), "after": Field(type="string")}
    (decoded,), (reason,) = decode(schema, fields, value, message=message)
    if row.taken is None:
        assert decoded == {"x": None, "after": None}
        assert reason
        assert reason.startswith(("field 'x", "invalid Protobuf in 'x"))
        assert ": got " in reason
        return
    assert reason is None
    assert decoded["after"] == "z"
    _assert_same(decoded["x"], row.taken)


@pytest.mark.parametrize("row", [row for row in ROWS if not row.options], ids=str)
def test_a_row_of_the_contract_holds_within_other_types(row: Row) -> None:
    schema, message = _schema(row.syntax), f"t.N{PLACES[id(row)]}"
    value = write(schema, f'k {{ key: "a" value {{ m {{ {row.value} }} }} }}', message)
    fields = {"k": Field(type=f"map<string, struct<m: array<struct<x: {row.declared}>>>>")}
    (decoded,), (reason,) = decode(schema, fields, value, message=message)
    if row.taken is None:
        assert decoded == {"k": None}
        assert (reason or "").startswith(("field 'k", "invalid Protobuf in 'k"))
    else:
        assert reason is None
        _assert_same(dict(decoded["k"])["a"]["m"][0]["x"], row.taken)


@pytest.mark.parametrize("row", [row for row in ROWS if not row.value and row.taken is not None], ids=str)
def test_a_row_with_nothing_set_holds_for_a_record_without_bytes(row: Row) -> None:
    schema, fields = _schema(row.syntax), {"x": Field(type=row.declared, **row.options)}
    message = f"t.M{PLACES[id(row)]}"
    assert message_class(schema, message)().SerializeToString() == b""
    (decoded, nothing), reasons = decode(schema, fields, b"", None, message=message)
    assert reasons == [None, None]
    _assert_same(decoded["x"], row.taken)
    assert nothing == {"x": None}


def _assert_same(value: Any, taken: Any) -> None:
    expected = None if taken is NULL else taken
    assert value == expected
    assert type(value) is type(expected)
    assert not isinstance(value, float) or math.copysign(1, value) == math.copysign(1, expected)


def test_the_reason_names_the_place_of_a_value_within_others() -> None:
    schema = schema_of(
        "message I { int64 price = 1; } message L { repeated I items = 1; } message M { map<int32, L> m = 1; }"
    )
    value = write(schema, "m { key: 7 value { items { price: 1 } items { price: 2147483648 } } }")
    _, reasons = decode(schema, {"m": Field(type="map<string, struct<items: array<struct<price: int>>>>")}, value)
    assert reasons == ["field 'm['7'].items[1].price': got 2147483648, want int"]


def test_a_member_may_be_several_fields_and_others_none() -> None:
    schema = schema_of("message M { int32 a = 1; string b = 2; int64 c = 3; }")
    fields = {"one": Field(type="long", key="a"), "two": Field(type="double", key="a")}
    rows, reasons = decode(schema, fields, write(schema, 'a: 3 b: "x" c: 4'))
    assert (rows, reasons) == ([{"one": 3, "two": 3.0}], [None])


def test_a_field_that_the_schema_lacks_rejects_each_record() -> None:
    schema = schema_of("message M { int32 a = 1; }")
    _, reasons = decode(schema, {"b": Field(type="int")}, write(schema, "a: 3"))
    assert reasons == ["field 'b': got a schema without 'b', want one of a"]


def test_a_field_of_a_newer_producer_is_passed_over() -> None:
    newer = schema_of("message M { int32 a = 1; string b = 2; message P { double c = 1; } P p = 3; repeated P q = 4; }")
    older = schema_of("message M { int32 a = 1; message P { } P p = 3; }")
    value = write(newer, 'a: 3 b: "x" p { c: 1.5 } q { c: 2 } q { c: 3 }')
    assert decode(older, {"a": Field(type="int")}, value) == ([{"a": 3}], [None])


def test_of_a_member_that_is_there_twice_the_last_one_counts_and_messages_are_merged() -> None:
    schema = schema_of("message P { int32 a = 1; int32 b = 2; } message M { int32 n = 1; P p = 2; }")
    value = write(schema, "n: 1 p { a: 1 b: 2 }") + write(schema, "n: 5 p { b: 7 }")
    fields = {"n": Field(type="int"), "p": Field(type="struct<a: int, b: int>")}
    assert decode(schema, fields, value) == ([{"n": 5, "p": {"a": 1, "b": 7}}], [None])
