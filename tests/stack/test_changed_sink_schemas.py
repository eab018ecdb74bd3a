"""A topic of a real Kafka whose schemas change: readers with the newest ones have each result."""

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.serialization import SerializationContext

import serving_layer
from hourline_core.model import Metric, Project, Sink
from hourline_core.model.hours import wall_clock
from serving_layer.sinks.sender import Sender, sent_file
from serving_layer.sinks.sent_results import SentResults
from serving_layer.sinks.target import Target, open_target
from tests.protocol.test_rollups import with_rollups
from tests.support.schema_registry import SchemaRegistry, serve_registry
from tests.support.sent_values import Newest
from tests.support.sent_visits import made, send
from tests.support.sink_topic import compacted, deserializer_of, in_view, read_topic


def open_with_decimals(project: Project, sink: Sink, metric: Metric, columns: pa.Schema, sent: SentResults) -> Target:
    """As if ``worst`` were a decimal, of which JSON says the same."""
    place = columns.get_field_index("worst")
    return open_target(project, sink, metric, columns.set(place, pa.field("worst", pa.decimal128(18, 0))), sent)


def test_a_measure_whose_type_changes_is_sent_again(tmp_path: Path, kafka: str) -> None:
    topic = "another-type"
    with serve_registry(SchemaRegistry()) as registry:
        visits = made(tmp_path / "another_type", kafka, registry.url, topic=topic, format="protobuf")
        number, _ = send(visits.project)
        sender = Sender(visits.project, visits.project.sinks["another_type"], wall_clock, open_with_decimals)
        assert sender.send_changes(serving_layer.connect(visits.project)) == (number, 0)
        assert sender.send_changes(serving_layer.connect(visits.project)) == (0, 0)
        sender.close()
        client = SchemaRegistryClient({"url": registry.url})
        read = deserializer_of("protobuf", client)

        def read_by_newest(record: bytes, context: SerializationContext) -> object:
            newest = client.get_latest_version(f"{topic}-{context.field}").schema_id
            assert newest is not None
            return read(b"\0" + newest.to_bytes(4, "big") + record[5:], context)

        newest = compacted(read_topic(kafka, topic, read_by_newest))
        with serving_layer.connect(visits.project) as results:
            rows = in_view(results, "loads")
        assert {key: Decimal(of["worst"]) for key, of in newest.items()} == {
            key: of["worst"] for key, of in rows.items()
        }


def test_dimensions_in_another_order_keep_the_results(tmp_path: Path, kafka: str) -> None:
    registry, topic = SchemaRegistry(), "another-order"
    registry.normalize()
    with serve_registry(registry):
        visits = made(tmp_path / "another_order", kafka, registry.url, topic=topic, format="protobuf")
        sink = visits.project.sinks["another_order"].model_copy(update={"metric": "kept"})
        read = deserializer_of("protobuf", SchemaRegistryClient({"url": registry.url}))
        keys = set()
        for dimensions in (["page", "slow"], ["slow", "page"], ["page", "slow"]):
            project = with_rollups(replace(visits.project, sinks={}), kept={"dimensions": dimensions})
            project = replace(project, sinks={sink.name: sink})
            send(project)
            sent_file(project, sink).unlink()
            assert send(project) == (0, 0), "the topic says what was sent"
            records = read_topic(kafka, topic, read)
            with serving_layer.connect(project) as results:
                assert by_members(compacted(records)) == by_members(in_view(results, "kept"))
            keys.add(frozenset(record.key_bytes for record in records))
        assert len(keys) == 1, "no key has other bytes"


def by_members(newest: Newest) -> dict[frozenset[tuple[str, object]], object]:
    """The same, in whatever order the members of a key are."""
    return {frozenset(json.loads(key).items()): value for key, value in newest.items()}
