"""How streams end: within seconds, whatever Kafka does, and with one sentence about a failure."""

import pytest

from hourline_core.errors import ConflictError, HourlineError, KafkaAwayError, RegistryForbidsError, ResourceError
from hourline_core.machine import Surroundings
from speed_layer.streams.stream import GOES_ON, Stream, failures_of, raise_failure, stop_streams
from tests.support.raised import AWAY, FULL_FILE, REGISTRY_FORBIDS, REGISTRY_IN_UDF
from tests.support.speed_process import PATIENCE
from tests.support.stubbed_streams import ForeachBatch, Query, stream_of

AROUND = Surroundings([], "broker-1:9092")


def end(*streams: Stream) -> list[str]:
    """As a speed layer does when it has waited."""
    failures = failures_of(streams)
    given_up = stop_streams(streams)
    raise_failure(streams, failures, AROUND)
    return given_up


def test_a_stop_names_what_kafka_did_not_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speed_layer.streams.stream._SECONDS_FOR_SPARK", 0.1)
    answering, away = ForeachBatch("visits"), ForeachBatch("scans", in_time=False)
    queries = [Query(), Query(hangs=True)]
    streams = [stream_of(answering, queries[0]), stream_of(away, queries[1])]
    assert end(*streams) == ["scans"]
    assert all(query.stopped.acquire(timeout=PATIENCE) for query in queries), (
        "a reader that hangs keeps the others running"
    )
    assert answering.happened == away.happened == ["stop", "join"]


def test_a_query_that_a_stop_has_ended_badly_is_no_failure() -> None:
    query = Query()
    query.failure = AWAY
    assert end(stream_of(ForeachBatch("visits"), query)) == []


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
        end(*streams)
    assert words in str(failed.value)
    assert not (kind is KafkaAwayError and GOES_ON in str(failed.value)), "a restart says how it goes on"
    assert others.stopped.acquire(timeout=PATIENCE)


@pytest.mark.parametrize("failure", [REGISTRY_IN_UDF, RegistryForbidsError(REGISTRY_FORBIDS)])
def test_a_failure_of_the_registry_names_the_source_once_wherever_it_was_asked(failure: Exception) -> None:
    with pytest.raises(RegistryForbidsError) as failed:
        end(stream_of(ForeachBatch("visits"), Query(failure)))
    assert str(failed.value) == f"the stream of source 'visits' stopped: {REGISTRY_FORBIDS}"
    assert (failed.value.source, failed.value.reason) == ("visits", REGISTRY_FORBIDS)


def test_a_commit_that_fails_while_it_is_stopped_is_told() -> None:
    class Failing(ForeachBatch):
        def join(self, seconds: float) -> bool:
            self.error = ConflictError("another process writes")
            return True

    with pytest.raises(ConflictError, match="another process writes"):
        end(stream_of(Failing("visits"), Query()))


def test_another_writer_of_any_stream_is_told_before_a_kafka_that_is_away() -> None:
    replaced = stream_of(ForeachBatch("scans", ConflictError("another process writes")), Query())
    with pytest.raises(ConflictError, match="another process writes"):
        end(stream_of(ForeachBatch("visits"), Query(AWAY)), replaced)
