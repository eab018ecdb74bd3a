"""Results in Avro: fastavro reads what DuckDB's rows say, of each type."""

import json
import math
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given

from hourline_core.errors import SinkError
from serving_layer.sinks.avro_results import AvroRecord
from serving_layer.sinks.record_columns import RecordColumns
from tests.support.sent_columns import ROWS, TYPES, in_arrow, text_of

STATE = {"state": pa.string()}


@given(ROWS)
def test_what_fastavro_reads_is_what_was_in_the_row(row: dict[str, Any]) -> None:
    record = AvroRecord(RecordColumns("Value", STATE, TYPES))
    read = _read(record, record.write(text_of(row)))
    assert read.pop("state") == "final"
    assert read == in_arrow(row)


def _read(record: AvroRecord, written: bytes) -> dict[str, Any]:
    read = fastavro.schemaless_reader(BytesIO(written), fastavro.parse_schema(json.loads(record.schema)), None)
    assert isinstance(read, dict)
    return read


def test_a_key_that_is_nan_or_infinite_is_so_in_avro() -> None:
    record = AvroRecord(RecordColumns("Key", {}, {"a": pa.float64(), "b": pa.float64()}))
    read = _read(record, record.write(json.dumps({"a": "nan", "b": "-inf"})))
    assert math.isnan(read["a"])
    assert read["b"] == -math.inf


def test_the_schema_is_one_of_avro_with_nulls_and_defaults() -> None:
    record = AvroRecord(RecordColumns("Value", {"revision": pa.int64()}, {"amount": pa.decimal128(9, 2)}))
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    assert json.loads(record.schema)["fields"] == [
        {"name": "revision", "type": "long"},
        {"name": "amount", "type": ["null", decimal], "default": None},
    ]
    assert record.write('{"amount":1.5,"revision":7}') == b"\x0e\x02\x04\x00\x96"


def test_names_of_structs_in_structs_do_not_meet() -> None:
    inner = pa.struct({"c": pa.int64()})
    record = AvroRecord(RecordColumns("Key", {}, {"a": pa.struct({"b": inner}), "a_b": inner}))
    assert fastavro.parse_schema(json.loads(record.schema))
    with pytest.raises(SinkError, match="the member 'user-id' of a struct has a name that Avro"):
        AvroRecord(RecordColumns("Key", {}, {"a": pa.struct({"user-id": pa.int64()})}))


def test_what_avro_cannot_hold_is_one_sentence() -> None:
    record = AvroRecord(RecordColumns("Key", {}, {"day": pa.date32()}))
    with pytest.raises(SinkError, match=r'{"day":"10000-01-01"} cannot be written in Avro: '):
        record.write('{"day":"10000-01-01"}')


def test_a_type_without_a_schema_is_refused() -> None:
    with pytest.raises(SinkError, match=r"a value of the type duration\[us\] has no schema of Avro"):
        AvroRecord(RecordColumns("Value", {}, {"a": pa.duration("us")}))
