"""A sink's topic that a plain consumer reads, and a KTable of Kafka Streams."""

import os
from pathlib import Path

import pytest

import serving_layer
from benchmarks.peers.streams import WITH_BROKER, read_as_table
from hourline_core.model import Project
from hourline_core.runtime.topics import topic_offsets
from serving_layer.sinks.kafka_topic import KafkaTopic
from tests.support.forked import start
from tests.support.kafka_streams import skip_without
from tests.support.sent_values import key_text
from tests.support.sent_visits import KILLED, made, send
from tests.support.sink_topic import in_view, newest_of, read_json, read_topic
from tests.support.visits import Visit

TOPIC = "ktable-sink"

pytestmark = pytest.mark.long


def send_and_die(project: Project) -> None:
    """Killed after Kafka has the records, and before their transaction is committed."""

    def killed(*_: object, **__: object) -> None:
        os._exit(KILLED)

    KafkaTopic._refuse_another_topic = killed  # type: ignore[method-assign] # in a process of its own
    send(project)


def test_a_ktable_has_what_a_plain_reader_and_the_view_have(tmp_path: Path, kafka: str) -> None:
    skip_without(WITH_BROKER)
    visits = made(tmp_path / "ktable_sink", kafka, topic=TOPIC, partitions=3)
    send(visits.project)
    visits.micro_batch(*(Visit(3, f"page {number}", number) for number in range(20)), Visit(9, "a", 900, visit="x"))
    visits.micro_batch(Visit(0, "a", 50), Visit(9, "duplicate", 5, visit="x", missed=True))
    send(visits.project)
    visits.micro_batch(Visit(3, "page 7", 70), Visit(9, "never committed", 5, visit="x", missed=True))
    killed = start(send_and_die, visits.project)
    killed.join()
    assert killed.exitcode == KILLED
    visits.publish(3, 9)
    assert send(visits.project)[1] == 1, "the recompute has found both duplicates, and one of them was sent"

    records = read_topic(kafka, TOPIC)
    newest = {key_text(record.key): record.value for record in records}
    found = {key_text(read_json(key)): read_json(value) for key, value in read_as_table(kafka, TOPIC).items()}
    assert found == {key: value for key, value in newest.items() if value is not None}
    with serving_layer.connect(visits.project) as connection:
        assert newest_of(records) == in_view(connection, "loads")
    assert all(end > first for first, end in topic_offsets(kafka, TOPIC, {}).values()), "a partition is empty"
