"""A project in a temporary folder on the real broker: its topics and files, and what was sent to them."""

import hashlib
import json
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined] # not in strict mypy's way

from hourline import load_project
from hourline_core.model.topics import names_of
from hourline_core.runtime.topics import ensure_topics, topic_id_of
from tests.support.oracle import FIRST_FILE, RECREATED, Sent, SourceRule
from tests.support.recreated_topic import recreate_topic


@dataclass
class SentProject:
    """One project, and what was sent to it. ``rules`` are its sources in Python, for the oracle."""

    root: Path
    kafka: str
    rules: Mapping[str, SourceRule]
    encode: Callable[[dict[str, Any]], bytes] = lambda body: json.dumps(body, ensure_ascii=False).encode()
    """Writes the value of a record that is sent."""
    sent: dict[str, list[Sent]] = field(default_factory=dict)
    topics: dict[str, list[str]] = field(default_factory=dict)
    """By source, the names of its topics."""
    partitions: dict[str, int] = field(default_factory=dict)
    """By source, the number of partitions of each of its topics."""
    merged: dict[str, str] = field(default_factory=dict)
    """By name, the ids of the topics of sources that read several. A partition of one has a number of its own, below
    zero; these numbers are in the order of the ids.
    """
    recreated: list[str] = field(default_factory=list)
    """The ids of the topics that were recreated, in their order. Their partitions have numbers of their own, below zero.
    """
    files: dict[str, int] = field(default_factory=dict)
    """By topic id, the imported files, each with the number of a partition that stands for it; no topic has that many.
    """

    def __post_init__(self) -> None:
        self.project = load_project(self.root, {"KAFKA": self.kafka})
        self.producer = self._new_producer()
        self.random = random.Random(self.project.name)  # noqa: S311 (the same numbers each time)
        for source in self.project.sources.values():
            self.sent[source.name], self.topics[source.name] = [], []
            self.partitions[source.name] = source.partitions
            for topic in ensure_topics(self.kafka, source, {}):
                self.add_topic(source.name, topic)

    def add_topic(self, source: str, topic: str) -> None:
        """Send to this topic, too. It exists."""
        self.topics[source].append(topic)
        if names_of(self.project.sources[source].topic) != (topic,):
            self.merged[topic] = topic_id_of(self.kafka, topic, {})

    def add_partitions(self, source: str, number: int) -> None:
        """Let the topics of a source have ``number`` partitions each, and send to these."""
        client = AdminClient({"bootstrap.servers": self.kafka, "log_level": 0})
        for topic in self.topics[source]:
            client.create_partitions([NewPartitions(topic, number)])[topic].result(30)
            deadline = time.monotonic() + 120
            # Else it refuses to send to those that it does not know.
            while len(self.producer.list_topics(topic, timeout=600).topics[topic].partitions) < number:
                assert time.monotonic() < deadline, f"{topic} has no {number} partitions"
        self.partitions[source] = number

    def recreate(self, source: str, partitions: int) -> None:
        """Delete the topic of a source, the only one of the project, and make another of that name. Send to that from now
        on.
        """
        (topic,) = self.topics[source]
        self.recreated.append(recreate_topic(self.kafka, topic, partitions))
        self.partitions[source] = partitions
        self.producer = self._new_producer()  # The one before knows the other topic.

    def send(self, source: str, bodies: Iterable[dict[str, Any]], partition: int | None = None) -> None:
        """Send events that must be accepted, each to a random partition, or to ``partition``, of a random topic of the
        source.
        """
        for body in bodies:
            self._produce(source, self.encode(body), body, partition=partition)
        self.flush()

    def send_everywhere(self, source: str, bodies: Iterable[dict[str, Any]]) -> None:
        """Send each of these events to every partition. Four that are not all of one time move the clock over a gap."""
        bodies = list(bodies)
        for partition in range(self.partitions[source]):
            self.send(source, bodies, partition)

    def send_refused(
        self, source: str, values: Iterable[bytes | None], partition: int | None = None, **record: Any
    ) -> None:
        """Send records that must be rejected, or, for None, tombstones; ``record`` is as in ``send_records``."""
        for value in values:
            self._produce(source, value, None, record, partition)
        self.flush()

    def send_records(self, source: str, records: Iterable[dict[str, Any]], partition: int | None = None) -> None:
        """Send whole records that must be accepted: ``body``, ``key``, ``headers`` (pairs) and ``timestamp``
        (milliseconds). The oracle's events have all of it, and the address, under ``record``. ``partition`` is as in
        ``send``.
        """
        for record in records:
            value = json.dumps(record["body"]).encode()
            self._produce(source, value, {**record["body"], "record": dict(record)}, record, partition)
        self.flush()

    def write_history(self, file: Path, source: str, bodies: Iterable[dict[str, Any] | bytes]) -> Path:
        """A file to import: JSON lines, or Parquet. Bytes must be rejected, the others accepted."""
        bodies = list(bodies)
        if file.suffix == ".parquet":
            pq.write_table(pa.Table.from_pylist(bodies), file)
        else:
            lines = [
                body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode() for body in bodies
            ]
            file.write_bytes(b"".join(line + b"\n" for line in lines))
        partition = FIRST_FILE + len(self.files)
        self.files["file:" + hashlib.sha256(file.read_bytes()).hexdigest()[:32]] = partition
        self.sent[source] += [
            Sent(partition, row, None if isinstance(body, bytes) else body) for row, body in enumerate(bodies)
        ]
        return file

    def flush(self) -> None:
        """Wait until Kafka has all that was sent."""
        assert self.producer.flush(120) == 0

    def _number(self, topic_id: str, partition: int) -> int:
        """The number that stands for the partition."""
        if topic_id in self.merged.values():
            return int.from_bytes(topic_id.encode()) * 1000 + partition - 2**200
        if topic_id in self.recreated:
            return partition - RECREATED * (self.recreated.index(topic_id) + 1)
        return self.files.get(topic_id, partition)

    def _new_producer(self) -> Producer:
        # Idempotent: what is sent again while a broker comes back is there once.
        options = {"bootstrap.servers": self.kafka, "linger.ms": 5, "log_level": 0, "enable.idempotence": True}
        return Producer(options)

    def _produce(
        self,
        source: str,
        value: bytes | None,
        body: dict[str, Any] | None,
        record: dict[str, Any] | None = None,
        partition: int | None = None,
    ) -> None:
        def delivered(error: object, message: Message) -> None:
            assert error is None, error
            landed, offset = message.partition(), message.offset()
            assert landed is not None
            assert offset is not None
            if body and record:
                body["record"] |= {"topic": topic, "partition": landed, "offset": offset}
            number = self._number(self.recreated[-1] if self.recreated else self.merged.get(topic, ""), landed)
            self.sent[source].append(Sent(number, offset, body, value is None))

        topics, partitions = self.topics[source], self.partitions[source]
        topic = self.random.choice(topics) if len(topics) > 1 else topics[0]
        parts = {name: record[name] for name in ("key", "headers", "timestamp") if name in record} if record else {}
        self.producer.produce(
            topic,
            value,
            partition=self.random.randrange(partitions) if partition is None else partition,
            on_delivery=delivered,
            **parts,
        )
        self.producer.poll(0)
