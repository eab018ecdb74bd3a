"""Each row of the reference's tables of Avro holds."""

import math
from typing import Any

import pytest

from docs.generate.avro_contract import FOLLOWING, ROWS, Row, Schema
from hourline_core.model.fields import Field
from tests.support.avro import decode_avro, format_of, record_schema, write_avro


@pytest.mark.parametrize(("words", "schema", "kind"), FOLLOWING, ids=str)
def test_a_field_follows_from_each_type(words: str, schema: Schema, kind: str | None) -> None:
    assert format_of(record_schema(before="int", x=schema)).fields == {"before": "int", "x": kind}


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_row_of_the_contract_holds(row: Row) -> None:
    schema = record_schema(before="string", x=row.schema, after="string")
    value = write_avro(schema, {"before": "a", "x": row.value, "after": "z"})
    fields = {"x": Field(type=row.declared, **row.options), "after": Field(type="string")}
    (decoded,), (reason,) = decode_avro(schema, fields, value)
    if row.taken is None:
        assert decoded == {"x": None, "after": None}
        assert reason
        assert reason.startswith("field 'x")
        assert ": got " in reason
        assert ", want " in reason
    else:
        assert reason is None
        assert decoded == {"x": row.taken, "after": "z"}
        assert type(decoded["x"]) is type(row.taken)
        assert not isinstance(row.taken, float) or math.copysign(1, decoded["x"]) == math.copysign(1, row.taken)


@pytest.mark.parametrize("row", [row for row in ROWS if not row.options and not row.declared.endswith("json")], ids=str)
def test_a_row_of_the_contract_holds_within_other_types(row: Row) -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "m", "type": {"type": "array", "items": row.schema}}]}
    schema = record_schema(x={"type": "map", "values": inner})
    value = write_avro(schema, {"x": {"k": {"m": [row.value]}}})
    (decoded,), (reason,) = decode_avro(
        schema, {"x": Field(type=f"map<string, struct<m: array<{row.declared}>>>")}, value
    )
    if row.taken is None:
        assert decoded == {"x": None}
        assert (reason or "").startswith("field 'x")
    else:
        assert reason is None
        assert dict(decoded["x"])["k"]["m"] == [row.taken]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_null_is_null_in_each_type(row: Row) -> None:
    if row.taken is None or isinstance(row.schema, list):
        return
    schema = record_schema(x=["null", row.schema])
    rows, reasons = decode_avro(schema, {"x": Field(type=row.declared, **row.options)}, write_avro(schema, {"x": None}))
    assert (rows, reasons) == ([{"x": None}], [None])


def test_the_reason_names_the_place_of_a_value_within_others() -> None:
    item: Any = {"type": "record", "name": "I", "fields": [{"name": "price", "type": ["null", "long", "string"]}]}
    schema = record_schema(items={"type": "map", "values": {"type": "array", "items": item}})
    value = write_avro(schema, {"items": {"a": [{"price": 1}, {"price": "many"}]}})
    _, reasons = decode_avro(schema, {"items": Field(type="map<string, array<struct<price: int>>>")}, value)
    assert reasons == ["field 'items['a'][1].price': got the schema's type string, want int"]


def test_a_member_may_be_several_fields_and_others_none() -> None:
    schema = record_schema(a="int", b="string", c="long")
    fields = {"one": Field(type="long", key="a"), "two": Field(type="double", key="a")}
    rows, reasons = decode_avro(schema, fields, write_avro(schema, {"a": 3, "b": "x", "c": 4}))
    assert (rows, reasons) == ([{"one": 3, "two": 3.0}], [None])


def test_a_field_that_the_schema_lacks_rejects_each_record() -> None:
    schema = record_schema(a="int")
    _, reasons = decode_avro(schema, {"b": Field(type="int")}, write_avro(schema, {"a": 3}))
    assert reasons == ["field 'b': got a schema without 'b', want one of a"]
