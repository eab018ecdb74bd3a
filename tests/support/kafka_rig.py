"""A Kafka of its own whose topics, logs and data a test replaces, and a project that reads it. What was produced is kept
by topic id, so every record that counts can be named.
"""

import json
import shutil
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import serving_layer
from hourline import load_project
from hourline_core.model import Project
from hourline_core.runtime.broker import Broker
from hourline_core.runtime.kafka import Kafka
from hourline_core.runtime.ports import free_ports
from hourline_core.runtime.topics import topic_id_of
from speed_layer.reset import SourceReset, Target
from speed_layer.spark_session import speed_session
from speed_layer.speed_layer import SpeedLayer
from tests.support.observed import Observed, drain
from tests.support.project_files import write_project
from tests.support.recreated_topic import recreate_topic
from tests.support.speed_process import wait_until

NOW = datetime(2026, 1, 1, tzinfo=UTC)
Address = tuple[str, int, int]
"""Topic id, partition and offset."""
Body = dict[str, Any]


class Running(Observed):
    """A speed layer in another thread."""

    done: Future[list[str]]

    def wait_for(self, records: int) -> None:
        """Until it has read this number of records, or has ended."""
        wait_until(lambda: self.records >= records or self.done.done(), f"{self.records} of {records} records")

    @property
    def restarts(self) -> int:
        """How often a topic that was replaced is read on."""
        return len(self.replaced)

    @property
    def records(self) -> int:
        return sum(done.records for done in self.batches)


class KafkaRig:
    """A context manager. Its sources have the fields ``n`` (int), ``who`` (string) and ``at``, and a metric
    ``<source>_n`` each with sum(n) and count.
    """

    def __init__(self, folder: Path, files: dict[str, str]) -> None:
        self.folder, self._port = folder, free_ports(1)[0]
        self.kafka = f"127.0.0.1:{self._port}"
        self.whole = load_project(write_project(folder / "project", files), {"KAFKA": self.kafka})
        self.produced: dict[str, dict[Address, Body]] = defaultdict(dict)
        """By topic."""
        self._numbers = iter(range(10**6))
        self._stack, self._broker_stack = ExitStack(), ExitStack()

    def __enter__(self) -> "KafkaRig":
        self.start_broker()
        self._stack.callback(self.stop_broker)
        self.spark: SparkSession = self._stack.enter_context(speed_session(self.whole))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start_broker(self) -> None:
        self._broker_stack.enter_context(Broker(self.folder / "kafka", self._port))

    def stop_broker(self) -> None:
        self._broker_stack.close()

    def of(self, *names: str, **changed: Any) -> Project:
        """The project with these sources alone, some of their declarations changed."""
        sources = {name: self.whole.sources[name].model_copy(update=changed) for name in names}
        metrics = {metric: self.whole.metrics[metric] for metric in (f"{name}_n" for name in names)}
        return replace(self.whole, sources=sources, metrics=metrics)

    def recreate(self, topic: str, partitions: int = 1) -> None:
        """Delete a topic, and make another one of that name."""
        recreate_topic(self.kafka, topic, partitions)

    def cut_off(self, topic: str, partition: int) -> None:
        """Take away the records of a partition, as a backup of Kafka that is restored does. Kafka is stopped."""
        kept = {"partition.metadata"}
        for file in (self.folder / "kafka/kafka/data" / f"{topic}-{partition}").iterdir():
            if file.name not in kept:
                file.unlink()

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Let Kafka delete the records of a partition before an offset."""
        at = TopicPartition(topic, partition, offset)
        client = AdminClient({"bootstrap.servers": self.kafka})
        client.delete_records([at])[at].result(60)

    def lose_data(self) -> None:
        """Take away all that Kafka has, which is stopped."""
        shutil.rmtree(self.folder / "kafka/kafka")

    def send(self, topic: str, count: int, partition: int = 0, who: str | None = None) -> None:
        """Send events to a topic, each with an id of its own, or with the ids ``who``-0, ``who``-1, …"""
        topic_id = topic_id_of(self.kafka, topic, {})
        producer = Producer({"bootstrap.servers": self.kafka, "log_level": 0})

        def delivered(error: object, message: Message) -> None:
            assert error is None, error
            at = message.offset()
            assert at is not None
            self.produced[topic][topic_id, partition, at] = json.loads(message.value() or b"")

        for number in range(count):
            n = next(self._numbers)
            body = {"n": n, "who": f"{who or n}-{number}", "at": f"2024-03-01T{10 + n % 3}:00:00Z"}
            producer.produce(
                topic,
                json.dumps(body).encode(),
                key=f"{n}".encode() if n % 2 else None,
                headers=[("trace", b"1"), ("trace", b"\xff"), ("nothing", None)],
                partition=partition,
                on_delivery=delivered,
            )
        assert producer.flush(30) == 0

    def forget(self, topic: str, partition: int) -> dict[Address, Body]:
        """Expect no more of what was produced to a partition of the topic as it is now. Returns that."""
        topic_id = topic_id_of(self.kafka, topic, {})
        gone = {of: body for of, body in self.produced[topic].items() if of[:2] == (topic_id, partition)}
        self.produced[topic] = {of: body for of, body in self.produced[topic].items() if of not in gone}
        return gone

    def drain(self, project: Project) -> int:
        """Process what there is; returns the number of records read."""
        return sum(done.records for done in drain(self.spark, project, self.kafka).batches)

    @contextmanager
    def running(self, project: Project) -> Iterator[Running]:
        """The speed layer in another thread. At the end of the block, it is stopped."""
        running, stop = Running(), threading.Event()
        with ThreadPoolExecutor(1) as pool:
            running.done = pool.submit(SpeedLayer(self.spark, project, Kafka(self.kafka), running).run, stop)
            try:
                wait_until(lambda: running.ready.is_set() or running.done.done(), "the speed layer did not start")
                yield running
            finally:
                stop.set()

    def reset(self, source: str, target: Target = "earliest") -> None:
        SourceReset(self.whole, self.whole.sources[source], self.kafka, target).apply(NOW)

    def check(self, source: str, *, distinct: bool = False, accepted: dict[Address, Body] | None = None) -> int:
        """Everything that was produced to the source's topic is archived once, and counts once (or, if ``distinct``, once
        for each id and hour); returns how many records that were. ``accepted`` are others, of a log that is gone.
        """
        want = self.produced[source] | (accepted or {})
        archived = DeltaTable(f"{self.whole.tables}/events/{source}").to_pyarrow_table().to_pylist()
        found = Counter((row["topic_id"], row["partition"], row["offset"], row["n"]) for row in archived)
        assert found == Counter((*of, body["n"]) for of, body in want.items())
        counting = {row["who"]: row for row in reversed(archived)}.values() if distinct else archived
        by_hour = Counter(row["hour"] for row in counting)
        with serving_layer.connect(self.of(source)) as connection:
            rows = connection.sql(f"SELECT hour, records, total FROM {source}_n").fetchall()
        if not distinct:
            sums = {hour: sum(row["n"] for row in archived if row["hour"] == hour) for hour in by_hour}
            assert {hour: total for hour, _, total in rows} == sums
        assert {hour: records for hour, records, _ in rows} == by_hour
        return len(want)
