"""A speed layer whose streams, Kafka and time are stand-ins, for tests of when it starts, waits and ends."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hourline_core.errors import BrokerError, KafkaAwayError, KafkaForbidsError
from hourline_core.model import EventTime, Field, Project, Settings, Source
from hourline_core.runtime.kafka import Kafka
from speed_layer.kafka.awaited_topics import AwaitedTopics
from speed_layer.speed_layer import SpeedLayer
from speed_layer.state import State
from speed_layer.streams.topic_stream import TopicStream
from tests.support.observed import Observed

VISITS = Source(
    name="visits",
    topic="visits",
    on_recreate="continue",
    fields={"n": Field(type="long")},
    event_time=EventTime(expression="at"),
)


class Query:
    """Stands in for a query of Spark."""

    def __init__(self, failure: Exception | None = None, hangs: bool = False) -> None:
        self.isActive = failure is None
        self.failure, self.hangs = failure, hangs
        self.stopped = threading.Semaphore(0)
        """Released by each stop."""

    def exception(self) -> Exception | None:
        return self.failure

    def stop(self) -> None:
        self.stopped.release()
        if self.hangs:
            threading.Event().wait()
        self.isActive = False


class ForeachBatch:
    """Stands in for what Spark calls. ``in_time``: whether its reading ends in time."""

    def __init__(self, source: str, error: Exception | None = None, in_time: bool = True) -> None:
        self.source, self.error, self.in_time = source, error, in_time
        self.happened: list[str] = []
        self.committing = False

    def stop(self) -> None:
        self.happened.append("stop")

    def join(self, seconds: float) -> bool:
        self.happened.append("join")
        return self.in_time

    def is_committing(self) -> bool:
        return self.committing

    def advance_idle_clock(self, idle: object) -> None:
        self.happened.append("clock")

    def look(self) -> None:
        self.happened.append("look")


class SameKafka:
    """Stands in for a Continuity: Kafka is what it was."""

    def cause_of(self, error: Exception) -> Exception:
        return error


def stream_of(foreach_batch: ForeachBatch, query: Query) -> TopicStream:
    return TopicStream(cast(Any, foreach_batch), cast(Any, query), cast(Any, SimpleNamespace()), cast(Any, SameKafka()))


class World(Observed):
    """Streams, a Kafka and a clock, and the observer of the speed layer that lives in it. Each of ``ends`` is what
    happens to one life of the streams; then one is told to stop.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, workspace: Path) -> None:
        super().__init__()
        self.workspace = workspace
        self.ends: list[Callable[[], object]] = []
        self.begins: Callable[[], object] = lambda: None
        """What happens while a stream starts."""
        self.waits: Callable[[], object] = lambda: None
        """What happens while Kafka is waited for."""
        self.now = datetime(2024, 4, 1, tzinfo=UTC)
        self.stop = PassingTime(self)
        self.lives = 0
        """How often a stream was started."""
        self.streams: list[TopicStream] = []
        """The next ones. There is another one if none is left."""
        self.absences_seen = 0
        self.error: BrokerError | None = None
        """What is wrong with Kafka, for ever."""
        self.own_kafka_ends = 0
        """How often it ends yet."""
        self.has_gaps = False
        self.topic_id: str | None = "id-1"
        where = "speed_layer.speed_layer"
        monkeypatch.setattr(f"{where}.start_stream", self._start)
        monkeypatch.setattr(f"{where}.find_gaps", lambda *_: None)
        monkeypatch.setattr(f"{where}.has_gaps", lambda *_: self.has_gaps)
        monkeypatch.setattr(f"{where}.KafkaWatch", lambda *given: _Watch(self, given[-1]))
        facts = SimpleNamespace(ids=self._ids, cluster_id=lambda: "here", bootstrap="kafka:9092")
        monkeypatch.setattr("speed_layer.kafka.awaited_topics.KafkaFacts", lambda *_: facts)

    def layer(self, *sources: str, drain: bool = False) -> SpeedLayer:
        """A speed layer of ``sources``, or of one."""
        settings = Settings().model_copy(update={"workspace": self.workspace})
        declared = {name: VISITS.model_copy(update={"name": name, "topic": name}) for name in sources or ["visits"]}
        project = Project(self.workspace, settings, declared, {})
        kafka = Kafka("kafka:9092", alive=lambda: not self.own_kafka_ends, restart=self._restart_kafka)
        return SpeedLayer(cast(Any, None), project, kafka, self, drain=drain, clock=lambda: self.now)

    def run(self) -> list[str]:
        return self.layer().run(self.stop)

    def heartbeat(self) -> None:
        if self.states[-1] is State.AWAY:
            self.waits()
        elif self.ends:
            self.ends.pop(0)()
        else:
            self.stop.set()

    def topics_are_there(self) -> None:
        self.topic_id = "id-2"
        self.awaited.are_there({"visits"})

    def fail(self) -> None:
        raise KafkaAwayError("no leader")

    def be_forbidden(self) -> None:
        raise KafkaForbidsError("not authorized to read")

    def go_away(self) -> None:
        self.absences_seen += 1
        raise KafkaAwayError("no answer")

    @property
    def survived(self) -> int:
        """The number of failures in the log."""
        log = self.workspace / "logs" / "errors.log"
        return log.read_text().count(" the speed layer, which goes on\n") if log.exists() else 0

    awaited: AwaitedTopics

    def _start(self, *_: object) -> TopicStream:
        self.lives += 1
        self.begins()
        return self.streams.pop(0) if self.streams else stream_of(ForeachBatch("visits"), Query())

    def _restart_kafka(self) -> bool:
        self.own_kafka_ends -= 1
        return True

    def _ids(self, topics: set[str]) -> dict[str, str | None]:
        return dict.fromkeys(topics, self.topic_id)


class PassingTime(threading.Event):
    """A stop that lets the time of a World go by."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def wait(self, timeout: float | None = None) -> bool:
        self._world.now += timedelta(seconds=timeout or 0)
        return self.is_set()


class _Watch:
    """Stands in for a KafkaWatch."""

    def __init__(self, world: World, awaited: AwaitedTopics) -> None:
        self._world = world
        world.awaited = awaited

    def __enter__(self) -> "_Watch":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def absences(self) -> int:
        return self._world.absences_seen

    def until_answer(self, stop: threading.Event) -> Iterator[BrokerError | None]:
        while not stop.is_set():
            ends = self._world.own_kafka_ends
            yield self._world.error
            if self._world.error is None and self._world.own_kafka_ends == ends:
                return
            self._world.now += timedelta(seconds=1)
