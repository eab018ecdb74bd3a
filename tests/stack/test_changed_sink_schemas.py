"""A topic of a real Kafka whose schemas change: readers with the newest ones have each result."""

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.serialization import SerializationContext

import serving_layer
from hourline_core.model import Metric, Project, Sink
from hourline_core.model.hours import wall_clock
from serving_layer.sinks.sender import Sender
from serving_layer.sinks.sent_results import SentResults
from serving_layer.sinks.target import Target, open_target
from tests.support.schema_registry import SchemaRegistry, serve_registry
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
