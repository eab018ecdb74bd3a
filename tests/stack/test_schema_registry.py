"""A schema registry that goes and comes back in mid-stream loses no record, rejects none, and stops no other source."""

import io
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

import serving_layer
from hourline_core.formats.registry.wire_format import HEADER
from hourline_core.model import Project
from hourline_core.runtime.ports import free_ports
from hourline_core.runtime.topics import ensure_topic
from tests.support.kafka_rig import KafkaRig, Running
from tests.support.protobuf import schema_of, write
from tests.support.registry_records import Wire, member, prefixed, record
from tests.support.schema_registry import SchemaRegistry, serve_registry
from tests.support.speed_process import wait_until

pytestmark = pytest.mark.heavy

FIRST = record("Order", member("at", {"type": "long", "logicalType": "timestamp-millis"}), member("n", "int"))
SECOND = record(
    "Order",
    member("id", "string"),
    member("amount", "long"),
    member("at", {"type": "long", "logicalType": "timestamp-millis"}),
)
READER = record(
    "Order",
    member("at", {"type": "long", "logicalType": "timestamp-millis"}),
    member("amount", "long", aliases=["n"]),
    member("id", "string", default="none"),
)
UNREADABLE = record(
    "Order", member("at", {"type": "long", "logicalType": "timestamp-millis"}), member("amount", "string")
)
SENT = schema_of("message M { int64 amount = 1; google.protobuf.Timestamp at = 2; }", "google/protobuf/timestamp.proto")
NOTED = {"type": "object", "properties": {"at": {"type": "string"}, "amount": {"type": "integer"}}}
SOURCES = ("orders", "returns", "visits", "sent", "noted")
AVRO = "topic: TOPIC\nformat: {avro: {schema: order.avsc, registry: true}}\nevent_time: "
METRIC = "source: SOURCE\nmeasures: {records: count, total: sum(amount)}\n"
FILES = {
    "schemas/order.avsc": json.dumps(READER),
    "sources/orders.yaml": f"{AVRO.replace('TOPIC', 'orders')}at\n",
    # Only Spark evaluates that.
    "sources/returns.yaml": f"{AVRO.replace('TOPIC', 'returns')}at - INTERVAL 1 HOUR\n",
    "schemas/sent.proto": SENT,
    "sources/sent.yaml": "topic: sent\nformat: {protobuf: {schema: sent.proto, registry: true}}\nevent_time: at\n",
    "sources/noted.yaml": "topic: noted\nformat: {json: {registry: true}}\n"
    "fields: {at: timestamp, amount: long}\nevent_time: at\n",
    "sources/visits.yaml": "topic: visits\nfields: {at: timestamp, amount: long}\nevent_time: at\n",
    **{f"metrics/{name}_n.yaml": METRIC.replace("SOURCE", name) for name in SOURCES},
}
NOON = 1_709_294_400_000


class Stage:
    """A speed layer that runs, and a registry that may be away."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.registry, self._port = SchemaRegistry("reader", "swordfish"), free_ports(1)[0]
        self.ids = [self.registry.register("orders-value", schema) for schema in (FIRST, SECOND, UNREADABLE)]
        self._served = ExitStack()
        self.start_registry()
        settings = f"kafka: {{bootstrap: '${{KAFKA}}'}}\nregistry: {{url: '{self.registry.url}', user: reader, password: swordfish}}\n"
        self.rig = stack.enter_context(KafkaRig(folder, {"hourline.yaml": settings, **FILES}))
        for topic in SOURCES:
            ensure_topic(self.rig.kafka, topic, 1, {})
        stack.callback(self._served.close)
        self._producer = Producer({"bootstrap.servers": self.rig.kafka, "log_level": 0})

    @property
    def project(self) -> Project:
        return self.rig.whole

    def start_registry(self) -> None:
        self._served.enter_context(serve_registry(self.registry, self._port))

    def stop_registry(self) -> None:
        self._served.close()

    def send(self, topic: str, *records: Wire) -> None:
        for value, header in records:
            self._producer.produce(topic, value, headers=[] if header is None else [(HEADER, header)])
        assert self._producer.flush(30) == 0

    def visit(self) -> None:
        self.send("visits", (b'{"at": "2024-03-01T12:00:00Z", "amount": 1}', None))

    def counted(self) -> dict[str, tuple[int, int]]:
        """By source, the number of events, and their total."""
        with serving_layer.connect(self.project) as connection:
            return {
                name: connection.sql(
                    f"SELECT coalesce(sum(records), 0)::int, coalesce(sum(total), 0)::int FROM {name}_n"
                ).fetchall()[0]
                for name in SOURCES
            }

    def wait_for(self, running: Running, **counts: int) -> None:
        def is_there() -> bool:
            assert not running.done.done(), running.done.result()
            counted = self.counted()
            return all(counted[name][0] == count for name, count in counts.items())

        wait_until(lambda: running.ready.is_set() and is_there(), f"want {counts}, there are {self.counted()}")

    def reasons(self, source: str) -> list[str]:
        rows = DeltaTable(f"{self.project.tables}/rejected/{source}").to_pyarrow_table().to_pylist()
        return [row["reason"] for row in sorted(rows, key=lambda row: int(row["offset"]))]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with ExitStack() as stack:
        yield Stage(tmp_path, stack)


def written(schema: Any, schema_id: int, **members: Any) -> Wire:
    out = io.BytesIO()
    plain = json.loads(json.dumps(schema).replace('{"type": "long", "logicalType": "timestamp-millis"}', '"long"'))
    fastavro.schemaless_writer(out, fastavro.parse_schema(plain), members)
    return prefixed(schema_id, out.getvalue())


@pytest.mark.long  # In CI, tests/unit/formats/registry asks one that is away.
def test_a_registry_that_goes_in_mid_stream_is_waited_for(stage: Stage) -> None:
    first, second, third = stage.ids
    of_first = [written(FIRST, first, at=NOON, n=number) for number in range(10)]
    of_second = [written(SECOND, second, at=NOON, amount=100, id=f"{number}") for number in range(5)]
    in_header = [(value[5:], b"\1" + stage.registry.guid(second).bytes) for value, _ in of_second]
    of_protobuf = stage.registry.register("sent-value", SENT, kind="PROTOBUF")
    of_json = stage.registry.register("noted-value", NOTED, kind="JSON")
    # The message is the first one of its schema.
    messages = [
        prefixed(of_protobuf, b"\0" + write(SENT, f"amount: {number} at {{ seconds: {NOON // 1000} }}"))
        for number in range(10)
    ]
    notes = [prefixed(of_json, b'{"at": "2024-03-01T12:00:00Z", "amount": %d}' % number) for number in range(10)]
    with stage.rig.running(stage.project) as running:
        for topic in ("orders", "returns"):
            stage.send(topic, *of_first)
        stage.send("sent", *messages)
        stage.send("noted", *notes)
        stage.wait_for(running, orders=10, returns=10, sent=10, noted=10)
        stage.stop_registry()
        stage.send("sent", *messages)
        stage.send("noted", *notes)
        for topic in ("orders", "returns"):
            stage.send(topic, *of_first)
        stage.wait_for(running, orders=20, returns=20, sent=20, noted=20)
        assert running.registry == [], "its schema is known"
        for topic in ("orders", "returns"):
            stage.send(topic, *of_second)
        wait_until(
            lambda: len(running.registry) >= 2 or running.done.done(), "nobody noticed that the registry is away"
        )
        for number in range(3):
            stage.visit()
            stage.wait_for(running, orders=20, returns=20, visits=number + 1)
        stage.start_registry()
        stage.wait_for(running, orders=25, returns=25, visits=3)
        for topic in ("orders", "returns"):
            stage.send(topic, *in_header, prefixed(99, b""), written(UNREADABLE, third, at=1, amount="1"), *of_first)
        stage.wait_for(running, orders=40, returns=40)
    assert not running.done.result()
    sum_of_all = 3 * sum(range(10)) + 10 * 100
    assert stage.counted() == {
        "orders": (40, sum_of_all),
        "returns": (40, sum_of_all),
        "visits": (3, 3),
        "sent": (20, 2 * sum(range(10))),
        "noted": (20, 2 * sum(range(10))),
    }
    said = [
        "schema id 99 is not in the registry, which answers: Schema 99 not found (40403)",
        f"schema id {third} (subject 'orders-value'): field 'amount': got the schema's type string, want long",
    ]
    assert {source: stage.reasons(source) for source in ("orders", "returns")} == {"orders": said, "returns": said}
    waits = [
        f"the stream of source '{name}' stopped: the schema registry at {stage.registry.url} does not answer (ConnectError: [Errno 111] Connection refused)"
        for name in ("orders", "returns")
    ]
    assert set(running.registry) == {*waits, "orders", "returns"}
    for log in (stage.project.workspace / "logs").glob("*"):
        assert b"swordfish" not in log.read_bytes()
