"""Records in JSON that name a JSON Schema are decoded by their declared fields, as those without one."""

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.formats.format import decoder_of
from hourline_core.formats.json.decoder import JsonDecoder
from hourline_core.formats.registry.decoder import RegistryDecoder
from hourline_core.model import Source
from hourline_core.model.fields import Field
from hourline_core.model.record_format import RecordFormat
from hourline_core.model.registry import RegistryAccess
from hourline_core.model.scratch_columns import (
    ARRIVED,
    HEADERS,
    OUTCOME,
    REASON,
    RECORD_TIMESTAMP,
    RECORD_TIMESTAMP_TYPE,
    VALUE,
)
from hourline_core.validation.validator import Validator
from tests.support.registry_records import ORDER, Wire, decode, forget_memory, prefixed, running_registry
from tests.support.schema_registry import SchemaRegistry
from tests.support.validated_sources import NOW, as_table

SCHEMA = {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}, "note": {"type": "string"}}}
FIELDS = {"id": Field(type="long"), "text": Field(type="string", key="note")}
FORMAT: dict[str, Any] = {"json": {"registry": True}}
OF_ONE = "schema id 1 (subject 'orders-value')"


def serialize(registry: SchemaRegistry, value: Any, **options: Any) -> Wire:
    """The record that a producer writes by confluent-kafka's serializer."""
    given = {"subject.name.strategy.type": "TOPIC"} | {name.replace("_", "."): one for name, one in options.items()}
    with SchemaRegistryClient({"url": registry.url}) as client:
        context = SerializationContext("orders", MessageField.VALUE, headers=[])
        written = JSONSerializer(json.dumps(SCHEMA), client, conf=given)(value, context)
    header = dict(context.headers or ()).get("__value_schema_id")
    assert isinstance(written, bytes)
    assert header is None or isinstance(header, bytes)
    return written, header


def decoder(access: RegistryAccess) -> RegistryDecoder:
    made = decoder_of(RecordFormat.model_validate(FORMAT).bind_registry(access), FIELDS)
    assert isinstance(made, RegistryDecoder)
    return made


@pytest.mark.parametrize("in_header", [False, True])
def test_what_confluents_serializer_writes_is_read(tmp_path: Path, in_header: bool) -> None:
    options = {"schema_id_serializer": header_schema_id_serializer} if in_header else {}
    with running_registry(tmp_path) as (registry, access):
        wire = serialize(registry, {"id": 2**40, "note": "é"}, **options)
        assert (wire[1] is not None) == in_header
        registry.asked.clear()
        reading = pickle.loads(pickle.dumps(decoder(access)))  # noqa: S301 (of this test)
        assert decode(reading, wire, wire) == [{"id": 2**40, "text": "é"}] * 2
        asked = f"GET /schemas/guids/{registry.guid(1)}" if in_header else "GET /schemas/ids/1"
        assert [one for one in registry.asked if not one.endswith("/versions")] == [asked], "once"
    forget_memory()
    assert decode(decoder(access), wire) == [{"id": 2**40, "text": "é"}], "while the registry is away"


@given(
    st.lists(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=4),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "note", "x"]), inner),
        ).map(lambda value: json.dumps(value).encode())
        | st.binary(min_size=1, max_size=8),
        min_size=1,
        max_size=5,
    )
)
def test_behind_the_id_a_record_is_what_it_would_be_without_it(
    tmp_path_factory: pytest.TempPathFactory, values: list[bytes]
) -> None:
    alone = JsonDecoder(FIELDS).decode(pa.array(values, pa.binary()))
    rows = pa.table(alone.columns).to_pylist()
    with running_registry(tmp_path_factory.mktemp("registry")) as (registry, access):
        known = registry.register("orders-value", SCHEMA, kind="JSON")
        got = decode(decoder(access), *(prefixed(known, value) for value in values))
    reasons = alone.reasons.to_pylist()
    assert got == [f"{OF_ONE}: {reason}" if reason else row for reason, row in zip(reasons, rows, strict=True)]


def test_a_record_is_refused_that_names_no_schema_of_json(tmp_path: Path) -> None:
    with running_registry(tmp_path) as (registry, access):
        known = registry.register("orders-value", SCHEMA, kind="JSON")
        other = registry.register("orders-value", ORDER)
        value = b'{"id": 7}'
        assert decode(
            decoder(access), (value, None), prefixed(3, value), prefixed(other, value), prefixed(known, b""), prefixed(known, value)
        ) == [
            "no schema id: got 0x7b as the first byte, want 0x00 and 4 bytes of an id, or the header __value_schema_id",
            "schema id 3 is not in the registry, which answers: Schema 3 not found (40403)",
            "schema id 2 (subject 'orders-value'): got a schema of AVRO, want one of JSON",
            f"{OF_ONE}: no value behind the schema id",
            {"id": 7, "text": None},
        ]  # fmt: skip


def test_a_record_need_not_be_valid_by_its_schema_and_what_it_refers_to_is_not_asked_for(tmp_path: Path) -> None:
    with running_registry(tmp_path) as (registry, access):
        gone = [{"name": "item.json", "subject": "item", "version": 1}]
        known = registry.register(
            "orders-value", {**SCHEMA, "required": ["note"], "additionalProperties": False}, gone, "JSON"
        )
        assert decode(decoder(access), prefixed(known, b'{"id": 7, "more": 1}')) == [{"id": 7, "text": None}]


def test_rows_of_imported_files_have_no_schema(tmp_path: Path) -> None:
    source = {"name": "s", "topic": "t", "event_time": "record.timestamp", "format": FORMAT, "fields": {"id": "long"}}
    with running_registry(tmp_path) as (registry, access):
        known = registry.register("orders-value", SCHEMA, kind="JSON")
        value = b'{"id": 7}'
        moment: dict[str, Any] = {ARRIVED: NOW, RECORD_TIMESTAMP: NOW, HEADERS: None}
        rows = [
            {VALUE: prefixed(known, value)[0], RECORD_TIMESTAMP_TYPE: "create", **moment},
            {VALUE: value, RECORD_TIMESTAMP_TYPE: None, **moment},
            {VALUE: value, RECORD_TIMESTAMP_TYPE: "create", **moment},
        ]
        found = Validator(Source.model_validate(source).bind_registry(access)).validate(as_table(rows)).to_pylist()
    assert [(row[OUTCOME], row["id"]) for row in found] == [("accepted", 7), ("accepted", 7), ("rejected", None)]
    assert found[2][REASON].startswith("no schema id: ")
