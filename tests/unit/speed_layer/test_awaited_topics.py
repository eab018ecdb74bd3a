"""A source that goes on with a recreated topic waits while there is none, and the others do not."""

import errno
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest

from hourline_core.errors import SourceError
from hourline_core.ledger.last_read import LastRead
from hourline_core.model import EventTime, Field, Project, Settings, Source
from hourline_core.runtime.lease import lease
from hourline_core.runtime.topic_absence import absent_topics
from speed_layer.kafka.awaited_topics import AwaitedTopics
from speed_layer.observer import Observer

NOW = datetime(2024, 4, 1, tzinfo=UTC)
_SETTINGS = {"fields": {"n": Field(type="long")}, "event_time": EventTime(expression="at")}
STAYING = Source.model_validate({"name": "orders", "topic": "orders", **_SETTINGS})
GOING_ON = STAYING.model_copy(update={"name": "visits", "topic": ["visits", "scans"], "on_recreate": "continue"})


class Kafka(Observer):
    """Stands in for a Kafka, a wall clock, and a terminal."""

    def __init__(self) -> None:
        self.topics: dict[str, str | None] = {"visits": "id-1", "scans": "id-2"}
        self.now = NOW
        self.back: list[str] = []
        self.hears = True

    bootstrap = "kafka:9092"

    def cluster_id(self) -> str:
        return "here"

    def ids(self, topics: set[str]) -> dict[str, str | None]:
        return {topic: self.topics[topic] for topic in topics}

    def topic_is_back(self, topic: str) -> None:
        self.back.append(topic)
        if not self.hears:
            raise BrokenPipeError


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    kafka = Kafka()
    monkeypatch.setattr("speed_layer.kafka.awaited_topics.KafkaFacts", lambda *_: kafka)
    return kafka


def awaited_in(workspace: Path, kafka: Kafka) -> AwaitedTopics:
    settings = Settings().model_copy(update={"workspace": workspace})
    project = Project(workspace, settings, {"visits": GOING_ON, "orders": STAYING}, {})
    return AwaitedTopics(project, lambda: kafka.now, kafka)


def test_a_source_is_not_read_until_all_its_topics_are_there(tmp_path: Path, kafka: Kafka) -> None:
    awaited = awaited_in(tmp_path, kafka)
    awaited.look("kafka:9092")
    assert awaited.sources() == [GOING_ON, STAYING]
    kafka.topics["scans"] = None
    awaited.look("kafka:9092")
    kafka.topics["visits"], kafka.now = None, NOW + timedelta(minutes=1)
    awaited.look("kafka:9092")
    assert awaited.sources() == [STAYING]
    with lease(tmp_path, "speed"):
        assert absent_topics(tmp_path) == {"scans": NOW, "visits": kafka.now}
        awaited.are_there({"visits", "orders"})
        assert awaited.sources() == [STAYING]
        assert absent_topics(tmp_path) == {"scans": NOW}
        kafka.hears = False
        awaited.are_there({"visits", "scans"})
        assert awaited.sources() == [GOING_ON, STAYING]
        assert absent_topics(tmp_path) == {}
    assert kafka.back == ["visits", "scans"]


def test_another_kafka_is_refused_and_its_topics_are_not_awaited(
    tmp_path: Path, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speed_layer.kafka.awaited_topics.last_read", lambda *_: LastRead("elsewhere"))
    awaited = awaited_in(tmp_path, kafka)
    awaited.look("kafka:9092")
    kafka.topics["scans"] = None
    with pytest.raises(SourceError, match="from the Kafka cluster elsewhere, and the one at kafka:9092 is here"):
        awaited.look("kafka:9092")
    assert not awaited.now()


def test_what_an_ended_speed_layer_waited_for_says_nothing_about_now(tmp_path: Path, kafka: Kafka) -> None:
    kafka.topics["scans"] = None
    awaited_in(tmp_path, kafka).look("kafka:9092")
    assert absent_topics(tmp_path) == {}
    with lease(tmp_path, "speed"):
        assert absent_topics(tmp_path) == {"scans": NOW}
        awaited_in(tmp_path, kafka)
        assert absent_topics(tmp_path) == {}


def test_a_full_disk_ends_no_stream(tmp_path: Path, kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(*_: Any) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("speed_layer.kafka.awaited_topics.note_absent_topics", fill)
    kafka.topics["scans"] = None
    awaited = awaited_in(tmp_path, kafka)
    awaited.look("kafka:9092")
    assert awaited.now() == {"scans"}
