"""Schemas of a sink whose measures come, go and come again: records of all schemas are read by the newest one, and a
registry with Confluent's rules takes each of them.
"""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from hourline import load_project
from hourline_core.errors import SinkError
from hourline_core.formats.registry.written_schema import WrittenSchema
from hourline_core.model import Project, Sink
from hourline_core.model.protobuf_schema import compile_protobuf, descriptor_of
from serving_layer.sinks.json_schema_results import JsonSchemaRecord
from serving_layer.sinks.protobuf_results import ProtobufRecord
from serving_layer.sinks.record_columns import RecordColumns, no_schema
from serving_layer.sinks.record_format import RecordFormat, record_format
from tests.support.examples import examples
from tests.support.project_files import write_project
from tests.support.registry_rules import find_conflict
from tests.support.schema_registry import SchemaRegistry, serve_registry

KINDS: dict[str, tuple[pa.DataType, Any]] = {
    "long": (pa.int64(), 0),
    "text": (pa.string(), ""),
    "price": (pa.decimal128(9, 2), 1.25),
    "double": (pa.float64(), 0.5),
    "place": (pa.struct({"city": pa.string(), "code": pa.int64()}), {"city": "x", "code": 1}),
    "other place": (pa.struct({"code": pa.string(), "city": pa.string()}), {"code": "1", "city": "x"}),
    "top": (pa.list_(pa.struct({"value": pa.string()})), [{"value": "a"}]),
    "numbers": (pa.list_(pa.int64()), [1, 2]),
    "map": (pa.map_(pa.string(), pa.int64()), {"a": 1}),
    "map of texts": (pa.map_(pa.string(), pa.string()), {"a": "1"}),
    "city": (pa.struct({"city": pa.string()}), {"city": "x"}),
    "number of city": (pa.struct({"city": pa.int64()}), {"city": 1}),
}
"""By a name, a type and a value of it."""
PROTOBUF = {"long": ("int64", 0), "text": ("string", ""), "price": ("string", "1.25"), "double": ("double", 0.5)}
"""What these are in Protobuf: the type and the value. The others are messages."""
PARTS = {
    "place": {"city string", "code long"},
    "other place": {"city string", "code string"},
    "top": {"elements string"},
    "numbers": {"elements long"},
    "map": {"values long"},
    "map of texts": {"values string"},
    "city": {"city string"},
    "number of city": {"city long"},
}
"""What is in the messages."""
VERSIONS = st.lists(
    st.dictionaries(st.sampled_from("abc"), st.sampled_from([*KINDS]), max_size=3), min_size=2, max_size=5
)
"""The columns of each schema, with the names of their types."""


VALUE = SerializationContext("t", MessageField.VALUE)


class Written(NamedTuple):
    """A record, and what it was written by."""

    columns: dict[str, str]
    record: bytes


def the(schema: WrittenSchema | None) -> WrittenSchema | None:
    return schema


def columns_of(version: dict[str, str]) -> RecordColumns:
    return RecordColumns("of_value", {"state": pa.string()}, {name: KINDS[kind][0] for name, kind in version.items()})


def text_of(version: dict[str, str]) -> str:
    values = {name: KINDS[kind][1] for name, kind in version.items()}
    return json.dumps({**values, "state": "final"})


@settings(max_examples=examples(20))
@given(VERSIONS)
def test_the_newest_protobuf_schema_reads_all_records(versions: list[dict[str, str]]) -> None:
    text: str | None = None
    written: list[Written] = []
    for version in versions:
        before = WrittenSchema(1, "PROTOBUF", text) if text else None
        record = ProtobufRecord(columns_of(version), partial(the, before))
        if text:
            now = {"schemaType": "PROTOBUF", "schema": record.schema}
            assert find_conflict({"schemaType": "PROTOBUF", "schema": text}, now) is None
        same = WrittenSchema(1, "PROTOBUF", record.schema)
        assert ProtobufRecord(columns_of(version), partial(the, same)).schema == record.schema, "it stays"
        text = record.schema
        written.append(Written(version, record.write(text_of(version))))
        read = GetMessageClass(descriptor_of(compile_protobuf((("", text),)), "of_value"))
        for place, one in enumerate(written):
            message = read.FromString(one.record[1:])
            assert message.state == "final"
            stayed = [name for name in version if has_stayed(name, [later.columns for later in written[place:]])]
            assert [name for name in version if message.HasField(name)] == stayed
            plain = {name: PROTOBUF[one.columns[name]][1] for name in stayed if one.columns[name] in PROTOBUF}
            assert {name: getattr(message, name) for name in plain} == plain


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        *(("numbers", "top"), ("numbers", "numbers"), ("map", "map of texts"), ("numbers", "map"), ("place", "top")),
        *(("city", "number of city"), ("place", "city"), ("place", "other place")),
    ],
)
def test_a_message_with_nothing_of_the_one_before_is_another(earlier: str, later: str) -> None:
    before, after = {"a": earlier}, {"a": later}
    record = ProtobufRecord(columns_of(before))
    newest = ProtobufRecord(columns_of(after), partial(the, WrittenSchema(1, "PROTOBUF", record.schema)))
    read = GetMessageClass(descriptor_of(compile_protobuf((("", newest.schema),)), "of_value"))
    message = read.FromString(record.write(text_of(before))[1:])
    assert message.HasField("a") == bool(PARTS[earlier] & PARTS[later])


def has_stayed(name: str, versions: Sequence[dict[str, str]]) -> bool:
    """Whether the member has been there all the time, and each change has left something of its type."""
    kinds = [of.get(name) for of in versions]
    parts = [PARTS.get(kind, {PROTOBUF[kind][0]} if kind in PROTOBUF else set()) if kind else set() for kind in kinds]
    return bool(parts[-1]) and all(before & after for before, after in pairwise(parts))


@settings(max_examples=examples(50))
@given(VERSIONS)
def test_the_newest_json_schema_takes_all_records(versions: list[dict[str, str]]) -> None:
    schema: str | None = None
    written: list[str] = []
    types: dict[str, str] = {}
    for drawn in versions:
        version = {name: types.setdefault(name, kind) for name, kind in drawn.items()}
        before = WrittenSchema(1, "JSON", schema) if schema else None
        record = JsonSchemaRecord(columns_of(version), partial(the, before))
        if schema:
            now = {"schemaType": "JSON", "schema": record.schema}
            assert find_conflict({"schemaType": "JSON", "schema": schema}, now) is None
        schema = record.schema
        written.append(text_of(version))
        read = JSONDeserializer(schema)
        for one in written:
            assert read(b"\0\0\0\0\1" + one.encode(), VALUE) == json.loads(one)
        marked = {name for name, part in json.loads(schema)["properties"].items() if part.get("deprecated")}
        assert marked == types.keys() - version.keys()


def test_a_schema_of_somebody_else_is_no_schema_before() -> None:
    columns = columns_of({"a": "long"})
    for text in ("", "{", "[]", '{"title": "other", "properties": {"b": {"type": "string"}}}'):
        assert JsonSchemaRecord(columns, partial(the, WrittenSchema(1, "JSON", text))).schema == own_json(columns)
    of_other = 'syntax = "proto3"; message of_value { enum E { NONE = 0; } E state = 7; }'
    for text in ("", "message", of_other, of_other.replace("of_value", "other_value")):
        made = ProtobufRecord(columns, partial(the, WrittenSchema(1, "PROTOBUF", text)))
        assert made.schema == ProtobufRecord(columns, no_schema).schema
    assert ProtobufRecord(columns, partial(the, WrittenSchema(1, "AVRO", '"string"'))).schema


def own_json(columns: RecordColumns) -> str:
    return JsonSchemaRecord(columns, no_schema).schema


FORMATS = ["avro", "protobuf", "json_schema"]


class Registered(NamedTuple):
    """A project whose sink registers schemas."""

    registry: SchemaRegistry
    project: Project

    def format(self, format: str, **measures: pa.DataType) -> RecordFormat:
        """The format of the sink, if the metric has these measures."""
        [metric] = self.project.metrics.values()
        template = next(iter(metric.measures.values()))
        metric = metric.model_copy(update={"measures": dict.fromkeys(measures, template)})
        sink = Sink.model_validate({"name": "out", "metric": "revenue", "topic": "t", "format": format})
        return record_format(self.project, sink, metric, pa.schema({"id": pa.string(), **measures}))


@pytest.fixture
def registered(tmp_path: Path) -> Iterator[Registered]:
    registry = SchemaRegistry()
    registry.is_backward = True
    with serve_registry(registry):
        files = {
            "hourline.yaml": f"name: shop\nregistry: {{url: '{registry.url}'}}\n",
            "sources/sales.yaml": "topic: sales\nfields: {id: string, at: timestamp}\nevent_time: at\n",
            "metrics/revenue.yaml": "{source: sales, dimensions: [id], measures: {sales: count}}",
        }
        yield Registered(registry, load_project(write_project(tmp_path, files)))


KEY = '{"window_start":"2026-03-02T08:00:00Z","window_end":"2026-03-02T09:00:00Z","id":"a"}'


@pytest.mark.parametrize("format", FORMATS)
def test_a_key_keeps_its_bytes_while_measures_change(registered: Registered, format: str) -> None:
    keys = {
        registered.format(format, **measures).key(KEY)
        for measures in ({"a": pa.int64()}, {"b": pa.string()}, {"a": pa.int64(), "b": pa.string()})
    }
    assert len(keys) == 1


@pytest.mark.parametrize(("format", "front"), [("protobuf", b"\0\0\0\0\1\0\n"), ("json_schema", b'\0\0\0\0\1{"window')])
def test_a_key_begins_with_the_id_of_its_schema(registered: Registered, format: str, front: bytes) -> None:
    assert registered.format(format, a=pa.int64()).key(KEY).startswith(front)


def test_a_measure_of_another_type_is_another_member_of_protobuf(registered: Registered) -> None:
    registered.format("protobuf", a=pa.int64())
    registered.format("protobuf", a=pa.string())
    registered.format("protobuf")
    registered.format("protobuf", a=pa.float64())
    assert registered.registry.asked.count("POST /subjects/t-value/versions") == 4


def test_a_measure_of_another_type_is_refused_in_json_schema(registered: Registered) -> None:
    registered.format("json_schema", a=pa.int64())
    registered.format("json_schema")
    with pytest.raises(
        SinkError, match=r"does not take the schema of subject 't-value': .*the type of #/a has changed; give"
    ):
        registered.format("json_schema", a=pa.string())


def test_another_format_of_a_subject_is_refused(registered: Registered) -> None:
    registered.format("avro", a=pa.int64())
    with pytest.raises(
        SinkError, match=r"subject 't-key': .*the type of the schema has changed; give the sink another"
    ):
        registered.format("protobuf", a=pa.int64())
