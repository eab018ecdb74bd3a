"""A watch notes each change, says it once, and goes on asking whatever the disk and the terminal do."""

import errno
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from hourline_core.errors import BrokerError
from hourline_core.runtime.kafka_absence import KafkaAbsence
from speed_layer.kafka.kafka_watch import KafkaWatch
from speed_layer.observer import Observer

NOW = datetime(2024, 4, 1, tzinfo=UTC)
REFUSED = BrokerError("not authorized")


class Kafka(Observer):
    """Stands in for a Kafka and for where a watch tells of it."""

    def __init__(self) -> None:
        self.error: BrokerError | None = None
        self.happened: list[str] = []
        self.news = threading.Condition()
        self.full = False
        """Whether nothing can be written or told."""
        self.has_topic = True
        self.during: Callable[[], object] = lambda: None
        """What happens while Kafka answers, once."""

    @contextmanager
    def asking(self, doing: str, seconds: float) -> Iterator[Any]:
        yield SimpleNamespace(describe_topics=self.describe)

    def describe(self, topics: object, request_timeout: float) -> dict[str, Any]:
        if self.error:
            raise self.error
        answer: Future[Any] = Future()
        with self.news:
            if self.has_topic:
                answer.set_result(SimpleNamespace(partitions=[]))
            else:
                answer.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
            self.during, happens = lambda: None, self.during
            happens()
            self.news.notify_all()
        return {"visits": answer}

    def delete_after_an_answer(self, then: Callable[[], object]) -> None:
        """Return when a question was answered with the topic, which is deleted by now. ``then`` is called before the
        answer is there.
        """
        deleted = False

        def delete() -> None:
            nonlocal deleted
            self.has_topic, deleted = False, True
            then()

        with self.news:
            self.has_topic, self.during = True, delete
            assert self.news.wait_for(lambda: deleted, 20)

    def note(self, workspace: Path, absence: KafkaAbsence | None) -> None:
        if absence:
            self._tell("noted back" if absence.until else "noted away")

    def kafka_absent(self, absence: KafkaAbsence) -> None:
        self._tell("told back" if absence.until else "told away")

    def wait_for(self, number: int) -> list[str]:
        with self.news:
            assert self.news.wait_for(lambda: len(self.happened) >= number, 20), self.happened
            return list(self.happened)

    def _tell(self, what: str) -> None:
        with self.news:
            self.happened.append(what)
            self.news.notify_all()
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    kafka = Kafka()
    monkeypatch.setattr("speed_layer.kafka.kafka_watch.KeptAdmin", lambda bootstrap, options: kafka)
    monkeypatch.setattr("speed_layer.kafka.kafka_watch.note_absence", kafka.note)
    monkeypatch.setattr("speed_layer.kafka.kafka_watch._SECONDS_BETWEEN", 0.01)
    return kafka


class Awaited:
    """Stands in for the topics that are awaited."""

    def __init__(self) -> None:
        self.topics: set[str] = set()

    def now(self) -> frozenset[str]:
        return frozenset(self.topics)

    def are_there(self, topics: frozenset[str]) -> None:
        self.topics -= topics


@contextmanager
def watching(kafka: Kafka, awaited: Awaited | None = None) -> Iterator[KafkaWatch]:
    project = SimpleNamespace(
        workspace=Path("/workspace"),
        settings=SimpleNamespace(kafka=SimpleNamespace(options={})),
        sources={"visits": SimpleNamespace(topic="visits")},
    )
    with KafkaWatch(cast(Any, project), "broker-1:9092", lambda: NOW, kafka, cast(Any, awaited or Awaited())) as watch:
        yield watch


def answer_of(watch: KafkaWatch, look: Callable[[BrokerError | None], None] = lambda error: None) -> None:
    """Return when Kafka has answered. Fails if the watch asks no more."""

    def wait() -> None:
        for error in watch.until_answer(threading.Event()):
            look(error)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    waiting.join(20)
    assert not waiting.is_alive(), "it asks no more"


def test_what_is_told_was_noted_before(kafka: Kafka) -> None:
    with watching(kafka) as watch:
        answer_of(watch)
        assert kafka.happened == []
        kafka.error = REFUSED
        assert kafka.wait_for(2) == ["noted away", "told away"]
        kafka.error = None
        assert kafka.wait_for(4)[2:] == ["noted back", "told back"]
        answer_of(watch)
    assert watch.absences == 1


def test_a_full_disk_and_a_closed_terminal_do_not_end_the_watch(kafka: Kafka) -> None:
    kafka.full = True
    with watching(kafka) as watch:
        kafka.error = REFUSED
        assert kafka.wait_for(2) == ["noted away", "told away"]
        kafka.error = None
        answer_of(watch)
    assert kafka.happened == ["noted away", "told away", "noted back", "told back"]


def test_a_wait_looks_at_other_things_meanwhile(kafka: Kafka) -> None:
    kafka.error = REFUSED
    seen: list[BrokerError | None] = []

    def look(error: BrokerError | None) -> None:
        seen.append(error)
        if len(seen) == 3:
            kafka.error = None

    with watching(kafka) as watch:
        kafka.wait_for(2)
        answer_of(watch, look)
        assert seen[:3] == [REFUSED] * 3
        seen = []
        answer_of(watch, look)
    assert seen, "its Kafka may end while it answers"
    assert not any(seen)


def test_a_topic_is_there_again_once_a_question_that_was_asked_since_says_so(kafka: Kafka) -> None:
    awaited = Awaited()
    with watching(kafka, awaited) as watch:
        kafka.delete_after_an_answer(lambda: awaited.topics.add("visits"))
        answer_of(watch)
        assert awaited.topics == {"visits"}
        kafka.has_topic = True
        answer_of(watch)
        assert not awaited.topics
