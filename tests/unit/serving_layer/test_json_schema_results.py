"""Results in JSON with a JSON Schema: Confluent's deserializer takes each row, and nothing else."""

import json
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.errors import SinkError
from serving_layer.sinks.json_schema_results import JsonSchemaRecord
from serving_layer.sinks.record_columns import RecordColumns
from tests.support.schema_registry import SchemaRegistry, serve_registry
from tests.support.sent_columns import ROWS, TYPES, text_of

VALUE = SerializationContext("t", MessageField.VALUE)
WRONG: list[Any] = [[{"unknown": 1}], {"unknown": "x"}, "no moment", Decimal("0.5"), 7, True]
"""Of these, no type has all."""
read_json = partial(json.loads, parse_float=Decimal)


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with serve_registry(SchemaRegistry()) as served:
        yield served


def reader_of(registry: SchemaRegistry, record: JsonSchemaRecord) -> Any:
    """Reads the JSON behind the id of the schema of ``record`` with Confluent's deserializer."""
    front = b"\x00" + registry.register("t-value", record.schema, kind="JSON").to_bytes(4, "big")
    client = SchemaRegistryClient({"url": registry.url})
    read = JSONDeserializer(None, schema_registry_client=client, json_decode=read_json)
    return lambda text: read(front + record.write(text), VALUE)


def test_confluent_takes_each_row(registry: SchemaRegistry) -> None:
    read = reader_of(registry, JsonSchemaRecord(RecordColumns("of_value", {"state": pa.string()}, TYPES)))

    @given(ROWS, st.sampled_from([*TYPES, "state"]))
    def holds(row: dict[str, Any], name: str) -> None:
        text = text_of(row)
        assert read(text) == read_json(text)
        good = json.loads(text)
        refused = []
        for wrong in WRONG:
            try:
                read(json.dumps({**good, name: wrong}, default=float))
            except SerializationError:
                refused.append(wrong)
        assert len(refused) >= 3
        with pytest.raises(SerializationError):
            read(json.dumps({**good, "unknown": 1}))
        with pytest.raises(SerializationError):
            read(json.dumps({**row_without(good, "state")}))

    holds()


def row_without(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {one: value for one, value in row.items() if one != name}


@pytest.mark.parametrize(("of_key", "takes"), [(True, True), (False, False)])
def test_a_nan_is_a_text_in_keys_alone(registry: SchemaRegistry, of_key: bool, takes: bool) -> None:
    record = JsonSchemaRecord(RecordColumns("of_key", {}, {"a": pa.float64()}, nan_is_text=of_key))
    read = reader_of(registry, record)
    assert read('{"a":0.5}') == {"a": Decimal("0.5")}
    if takes:
        assert read('{"a":"nan"}') == {"a": "nan"}
    else:
        with pytest.raises(SerializationError):
            read('{"a":"nan"}')


def test_a_type_without_a_schema_is_refused() -> None:
    with pytest.raises(SinkError, match=r"a value of the type duration\[us\] has no JSON Schema; leave"):
        JsonSchemaRecord(RecordColumns("of_value", {}, {"a": pa.duration("us")}))
