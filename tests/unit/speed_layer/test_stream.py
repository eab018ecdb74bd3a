"""How streams end: within seconds, whatever Kafka does, and with one sentence about a failure."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hourline_core.errors import ConflictError, HourlineError, KafkaAwayError, ResourceError
from hourline_core.machine import Surroundings
from speed_layer.streams.stream import GOES_ON, Stream, raise_failure, stop_streams, wait_for_end
from tests.support.raised import AWAY, FULL_FILE
from tests.support.speed_process import PATIENCE

AROUND = Surroundings([], "broker-1:9092")


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

    def stop(self) -> None:
        self.happened.append("stop")

    def join(self, seconds: float) -> bool:
        self.happened.append("join")
        return self.in_time

    def advance_idle_clock(self, idle: object) -> None:
        self.happened.append("clock")

    def look(self) -> None:
        self.happened.append("look")


class SameKafka:
    """Stands in for a Continuity: Kafka is what it was."""

    def cause_of(self, error: Exception) -> Exception:
        return error


def stream_of(foreach_batch: ForeachBatch, query: Query) -> Stream:
    return Stream(cast(Any, foreach_batch), cast(Any, query), cast(Any, SimpleNamespace()), cast(Any, SameKafka()))


def told_to_stop() -> threading.Event:
    stop = threading.Event()
    stop.set()
    return stop


def wait(streams: list[Stream], stop: threading.Event | None = None) -> list[str]:
    """As ``run`` does, once the streams are there."""
    failures = wait_for_end(streams, stop or threading.Event(), lambda: True, False, AROUND, lambda: False)
    given_up = stop_streams(streams)
    raise_failure(streams, failures, AROUND)
    return given_up


def test_a_stop_names_what_kafka_did_not_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speed_layer.streams.stream._SECONDS_FOR_SPARK", 0.1)
    answering, away = ForeachBatch("visits"), ForeachBatch("scans", in_time=False)
    queries = [Query(), Query(hangs=True)]
    streams = [stream_of(answering, queries[0]), stream_of(away, queries[1])]
    assert wait(streams, told_to_stop()) == ["scans"]
    assert all(query.stopped.acquire(timeout=PATIENCE) for query in queries), (
        "a reader that hangs keeps the others running"
    )
    assert answering.happened == away.happened == ["stop", "join"]


def test_a_query_that_a_stop_has_ended_badly_is_no_failure() -> None:
    query = Query()
    query.failure = AWAY
    assert wait([stream_of(ForeachBatch("visits"), query)], told_to_stop()) == []


@pytest.mark.parametrize(
    ("query", "committed", "kind", "words"),
    [
        (
            Query(AWAY),
            None,
            KafkaAwayError,
            "the stream of source 'visits' stopped: Kafka at broker-1:9092 does not answer",
        ),
        (Query(AWAY), FULL_FILE, ResourceError, "the stream of source 'visits' stopped: the disk of"),
        (Query(), FULL_FILE, ResourceError, "is full; make room there; nothing is lost, and `hourline speed` goes on"),
        (Query(), ConflictError("another process writes"), ConflictError, "another process writes"),
    ],
)
def test_a_failure_is_one_sentence_about_its_first_cause(
    query: Query, committed: Exception | None, kind: type[HourlineError], words: str
) -> None:
    others = Query()
    streams = [stream_of(ForeachBatch("visits", committed), query), stream_of(ForeachBatch("scans"), others)]
    with pytest.raises(kind) as failed:
        wait(streams)
    assert words in str(failed.value)
    assert not (kind is KafkaAwayError and GOES_ON in str(failed.value)), "a restart says how it goes on"
    assert others.stopped.acquire(timeout=PATIENCE)


def test_a_commit_that_fails_while_it_is_stopped_is_told() -> None:
    class Failing(ForeachBatch):
        def join(self, seconds: float) -> bool:
            self.error = ConflictError("another process writes")
            return True

    with pytest.raises(ConflictError, match="another process writes"):
        wait([stream_of(Failing("visits"), Query())], told_to_stop())


def test_another_writer_of_any_stream_is_told_before_a_kafka_that_is_away() -> None:
    replaced = stream_of(ForeachBatch("scans", ConflictError("another process writes")), Query())
    with pytest.raises(ConflictError, match="another process writes"):
        wait([stream_of(ForeachBatch("visits"), Query(AWAY)), replaced])
    with pytest.raises(ConflictError, match="another process writes"):
        try:
            raise KafkaAwayError("the embedded Kafka has ended by itself")
        finally:
            stop_streams([replaced])


def test_an_embedded_kafka_that_has_ended_ends_the_wait() -> None:
    said = r"the embedded Kafka at broker-1:9092 has ended by itself \(its log is logs/broker.log\)$"
    with pytest.raises(KafkaAwayError, match=said):
        streams = [stream_of(ForeachBatch("visits"), Query())]
        wait_for_end(streams, threading.Event(), lambda: False, False, AROUND, lambda: False)


@pytest.mark.parametrize("number", [0, 1])
def test_other_streams_end_the_wait_also_if_there_was_none(number: int) -> None:
    streams = [stream_of(ForeachBatch("visits"), Query()) for _ in range(number)]
    answers = iter([False, True])
    assert wait_for_end(streams, threading.Event(), lambda: True, True, AROUND, lambda: next(answers)) == []
    assert next(answers, None) is None
    assert wait_for_end(streams, told_to_stop(), lambda: True, True, AROUND, lambda: False) == []
