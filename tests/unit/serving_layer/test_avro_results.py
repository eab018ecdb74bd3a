"""Results in Avro: fastavro reads what DuckDB's rows say, of each type."""

import json
import math
from datetime import UTC, date
from decimal import Decimal
from io import BytesIO
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.errors import SinkError
from serving_layer.json_values import value_sql
from serving_layer.sinks.avro_results import AvroRecord

TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "boolean": (pa.bool_(), st.booleans()),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "huge": (pa.decimal128(38, 0), st.decimals(min_value=-(10**37), max_value=10**37, places=0)),
    "price": (pa.decimal128(20, 4), st.decimals(min_value=-(10**15), max_value=10**15, places=4)),
    "share": (pa.decimal128(18, 18), st.decimals(min_value=Decimal("-0.9"), max_value=Decimal("0.9"), places=18)),
    "digits": (pa.decimal128(38, 38), st.decimals(min_value=Decimal("-0.9"), max_value=Decimal("0.9"), places=25)),
    "double": (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    "text": (pa.string(), st.text(st.characters(codec="utf-8"), max_size=9)),
    "moment": (
        pa.timestamp("us", "UTC"),
        st.datetimes(timezones=st.just(UTC)).filter(lambda one: 1900 < one.year < 2100),
    ),
    "day": (pa.date32(), st.dates(date(1900, 1, 1), date(2100, 1, 1))),
    "list": (pa.list_(pa.string()), st.lists(st.none() | st.text("ab", max_size=2), max_size=3)),
    "top": (
        pa.list_(pa.struct({"value": pa.string(), "count": pa.int64()})),
        st.lists(st.fixed_dictionaries({"value": st.none() | st.text("ab"), "count": st.integers(0, 9)}), max_size=2),
    ),
    "map": (pa.map_(pa.string(), pa.float64()), st.dictionaries(st.text("ab"), st.floats(-1, 1), max_size=2)),
    "bytes": (pa.binary(), st.binary(max_size=5)),
}


@given(st.fixed_dictionaries({name: st.none() | values for name, (_, values) in TYPES.items()}))
def test_what_fastavro_reads_is_what_was_in_the_row(row: dict[str, Any]) -> None:
    types = {name: kind for name, (kind, _) in TYPES.items()}
    table = pa.Table.from_pylist([row], pa.schema(types))
    record = AvroRecord("Value", types, {"state": "string"})
    parts = ", ".join(f"'{name}', {value_sql(name, kind)}" for name, kind in types.items())
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.register("rows", table)
        [[text]] = database.execute(f"SELECT json_object({parts}, 'state', 'final')::VARCHAR FROM rows").fetchall()
    read = fastavro.schemaless_reader(BytesIO(record.write(text)), fastavro.parse_schema(record.schema), None)
    assert isinstance(read, dict)
    assert read.pop("state") == "final"
    assert read == table.to_pylist(maps_as_pydicts="strict")[0]


def test_a_key_that_is_nan_or_infinite_is_so_in_avro() -> None:
    record = AvroRecord("Key", {"a": pa.float64(), "b": pa.float64()}, {})
    read = fastavro.schemaless_reader(
        BytesIO(record.write(json.dumps({"a": "nan", "b": "-inf"}))), fastavro.parse_schema(record.schema), None
    )
    assert isinstance(read, dict)
    assert math.isnan(read["a"])
    assert read["b"] == -math.inf


def test_the_schema_is_one_of_avro_with_nulls_and_defaults() -> None:
    record = AvroRecord("Value", {"amount": pa.decimal128(9, 2)}, {"revision": "long"})
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    assert record.schema["fields"] == [
        {"name": "revision", "type": "long"},
        {"name": "amount", "type": ["null", decimal], "default": None},
    ]
    assert record.write('{"amount":1.5,"revision":7}') == b"\x0e\x02\x04\x00\x96"


def test_names_of_structs_in_structs_do_not_meet() -> None:
    inner = pa.struct({"c": pa.int64()})
    record = AvroRecord("Key", {"a": pa.struct({"b": inner}), "a_b": inner}, {})
    assert fastavro.parse_schema(record.schema)
    with pytest.raises(SinkError, match="the member 'user-id' of a struct has a name that Avro"):
        AvroRecord("Key", {"a": pa.struct({"user-id": pa.int64()})}, {})


def test_what_avro_cannot_hold_is_one_sentence() -> None:
    record = AvroRecord("Key", {"day": pa.date32()}, {})
    with pytest.raises(SinkError, match=r'{"day":"10000-01-01"} cannot be written in Avro: '):
        record.write('{"day":"10000-01-01"}')


def test_a_type_without_a_schema_is_refused() -> None:
    with pytest.raises(SinkError, match=r"a value of the type duration\[us\] has no schema of Avro"):
        AvroRecord("Value", {"a": pa.duration("us")}, {})
