"""Reading ahead: Spark reads the next micro-batch while the one before is committed, and nothing else changes."""

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hourline_core.errors import BrokerError, ConflictError, HourlineError, SourceError, TopicReplacedError
from hourline_core.ledger.source_clock import SourceClock
from speed_layer.commit.offset_order import OffsetOrder, OffsetsReached
from speed_layer.intake.part import Part
from speed_layer.intake.read_micro_batch import Read
from speed_layer.streams.foreach_batch import ForeachBatch

NOW = datetime(2024, 4, 1, tzinfo=UTC)
SECONDS = 20.0
"""The maximum time to wait for what must happen."""


class Batch:
    """Stands in for what plans, reads and commits. Its evaluated records are numbers, 0 of which is an empty
    micro-batch.
    """

    def __init__(self) -> None:
        self.source = SimpleNamespace(name="visits")
        self.source_tables = SimpleNamespace(first_sequence=7)
        self.happened: list[str] = []
        self.allowed = threading.Semaphore(0)
        """Released once for each commit that may end."""
        self.failing: set[int] = set()
        self.failure: type[BaseException] = ConflictError
        self.read_up_to = threading.Condition()
        self.size = SimpleNamespace(records=10)
        self.limits: list[int] = []

    def ends(self, number: int) -> dict[tuple[str, int], int]:
        return {}

    def limit(self, records: int) -> None:
        self.limits.append(records)

    def is_met(self, topic_ids: object) -> bool:
        return True

    def read(self, number: int, origin: object, ends: object, sequence: int) -> Read | None:
        with self.read_up_to:
            self.happened.append(f"read {number}")
            self.size.records *= 10
            self.read_up_to.notify_all()
        return Read(number, sequence, Part(), {}, cast(Any, None), NOW, SourceClock()) if number else None

    def commit(self, read: Read) -> str:
        number, sequence = read.number, read.sequence
        assert self.allowed.acquire(timeout=SECONDS)
        if number in self.failing:
            raise self.failure(f"commit of {number} failed")
        self.happened.append(f"commit {number} as {sequence}")
        return f"finished {number}"


class SameKafka:
    """Stands in for a Continuity. Kafka is what it was, until ``failures`` has another answer."""

    cluster = "cluster-id"

    def __init__(self) -> None:
        self.topic_ids: dict[str, str] = {}
        self.failures: list[Exception] = []
        self.asked = threading.Semaphore(0)

    def confirm(self, last: object, partitions: object) -> None:
        self.asked.release()
        if self.failures:
            raise self.failures[0]


@pytest.fixture
def batch() -> Batch:
    return Batch()


@pytest.fixture
def kafka() -> SameKafka:
    return SameKafka()


@pytest.fixture
def stream(batch: Batch, kafka: SameKafka, monkeypatch: pytest.MonkeyPatch) -> ForeachBatch:
    def maintain(project: object, tables: object, finished: int) -> None:
        batch.happened.append(f"maintain after {finished}")

    monkeypatch.setattr("speed_layer.streams.foreach_batch.maintain_after", maintain)
    return ForeachBatch(
        cast(Any, None),
        cast(Any, batch),
        cast(Any, batch),
        cast(Any, kafka),
        cast(Any, batch),
        lambda finished: None,
        lambda offsets: None,
    )


def in_background(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def give(stream: ForeachBatch, *numbers: int) -> None:
    for number in numbers:
        stream(cast(Any, number), number)


def end(stream: ForeachBatch) -> None:
    stream.stop()
    assert stream.join(SECONDS)


def test_what_a_micro_batch_has_taught_limits_the_next_one(stream: ForeachBatch, batch: Batch) -> None:
    batch.allowed.release(1)
    give(stream, 1)
    assert batch.limits == [100]
    give(stream, 0)
    assert batch.limits == [100, 1000]
    end(stream)


def test_the_next_one_is_read_while_the_one_before_is_committed(stream: ForeachBatch, batch: Batch) -> None:
    spark = in_background(lambda: give(stream, 1, 2, 3))
    with batch.read_up_to:
        assert batch.read_up_to.wait_for(lambda: len(batch.happened) == 2, SECONDS)
    assert batch.happened == ["read 1", "read 2"], "a third one is read before the first is committed"
    batch.allowed.release(3)
    spark.join(SECONDS)
    end(stream)
    committed = [what for what in batch.happened if not what.startswith("read")]
    assert committed == [
        *("commit 1 as 7", "maintain after 1"),
        *("commit 2 as 8", "maintain after 2"),
        *("commit 3 as 9", "maintain after 3"),
    ]
    assert batch.happened.index("commit 1 as 7") < batch.happened.index("read 3")


class Panic(BaseException):
    """As delta-rs raises where it cannot go on: no Exception."""


@pytest.mark.parametrize("failure", [ConflictError, Panic])
def test_after_a_failed_commit_there_is_no_other(
    stream: ForeachBatch, batch: Batch, failure: type[BaseException]
) -> None:
    batch.failing, batch.failure = {1}, failure
    batch.allowed.release(3)
    with pytest.raises(HourlineError, match="commit of 1 failed"):
        give(stream, 1, 2, 3)
    with pytest.raises(HourlineError, match="commit of 1 failed"):
        give(stream, 4)
    end(stream)
    assert "commit of 1 failed" in str(stream.error)
    assert not any(what.startswith(("commit", "maintain")) for what in batch.happened)


def test_a_micro_batch_without_records_takes_no_sequence(stream: ForeachBatch, batch: Batch) -> None:
    batch.allowed.release(2)
    give(stream, 1, 0, 2)
    end(stream)
    assert [what for what in batch.happened if what.startswith("commit")] == ["commit 1 as 7", "commit 2 as 8"]


@pytest.mark.parametrize("seconds", [0.0, SECONDS])
def test_the_end_waits_for_the_commit_that_runs(stream: ForeachBatch, batch: Batch, seconds: float) -> None:
    give(stream, 1)
    stream.stop()
    ending = in_background(lambda: stream.join(seconds))
    ending.join(0.05)
    assert ending.is_alive(), "the lease would be given back while a commit runs"
    batch.allowed.release()
    ending.join(SECONDS)
    assert not ending.is_alive()
    give(stream, 2)
    assert batch.happened == ["read 1", "commit 1 as 7", "maintain after 1"]


def test_an_interrupt_ends_the_wait_for_spark_and_not_for_the_commit_that_runs(
    stream: ForeachBatch, batch: Batch
) -> None:
    class Interrupted:
        def acquire(self, timeout: float) -> bool:
            raise KeyboardInterrupt

    def join() -> None:
        with pytest.raises(KeyboardInterrupt):
            stream.join(SECONDS)
        ended.set()

    give(stream, 1)
    stream.stop()
    stream._running = cast(Any, Interrupted())
    ended = threading.Event()
    ending = in_background(join)
    assert not ended.wait(0.05), "the lease would be given back while a commit runs"
    batch.allowed.release()
    ending.join(SECONDS)
    assert ended.is_set()
    assert batch.happened == ["read 1", "commit 1 as 7", "maintain after 1"]


def test_the_end_does_not_wait_for_a_kafka_that_is_away(stream: ForeachBatch, batch: Batch) -> None:
    answers = threading.Event()
    reading = threading.Event()

    def read(number: int, origin: object, ends: object, sequence: int) -> Read:
        reading.set()
        assert answers.wait(SECONDS)
        return Read(number, sequence, Part(), {}, cast(Any, None), NOW, SourceClock())

    batch.read = read  # type: ignore[method-assign]

    def give_late() -> None:
        with suppress(RuntimeError):
            give(stream, 1)

    spark = in_background(give_late)
    assert reading.wait(SECONDS)
    stream.stop()
    assert not stream.join(0.01)
    answers.set()
    batch.allowed.release()
    spark.join(SECONDS)
    assert batch.happened == [], "what is read after the end is committed, beside the next start"
    assert stream.error is None, "to be told to stop is no fault"


def test_the_clock_of_idle_partitions_waits_for_what_was_read(stream: ForeachBatch, batch: Batch) -> None:
    class Idle:
        def moves_clock(self, ends: object = None) -> bool:
            if ends:
                batch.happened.append("idle partitions look at progress")
            return True

        def ask_ends(self) -> object:
            return {("topic-id", 0): 1}

        def commit(self, sequence: int, ends: object) -> None:
            batch.happened.append(f"clock as {sequence}")

    give(stream, 1)
    passing = in_background(lambda: stream.advance_idle_clock(cast(Any, Idle())))
    batch.allowed.release()
    passing.join(SECONDS)
    assert batch.happened == [
        *("read 1", "commit 1 as 7", "maintain after 1"),
        *("idle partitions look at progress", "clock as 8"),
    ]
    batch.failing = {2}
    batch.allowed.release()
    give(stream, 2)
    stream.advance_idle_clock(cast(Any, Idle()))
    assert batch.happened[-1] == "read 2", "what was read is lost, and its partition is no idle one"


def test_offsets_may_be_missing_but_not_repeated() -> None:
    order = OffsetOrder({("topic-id", 0): 5})
    reached = OffsetsReached({})
    first, second, topics = ("topic-id", 0), ("topic-id", 1), {"topic-id": "orders"}
    for read in ({first: (5, 6)}, {first: (9, 12)}, {second: (0, 1)}):
        order.refuse_repeated(read, topics)
        order.note_committed("topic-id", reached.advance(read, {})["topic-id"])
    for read, words in (
        ({first: (12, 13)}, "topic 'orders' partition 0 gave offset 12 after offset 12 was"),
        ({second: (1, 2)}, "partition 1"),
    ):
        with pytest.raises(SourceError, match=words):
            order.refuse_repeated(read, topics)
    order.refuse_repeated({first: (13, 13)}, topics)
    assert order.next_offsets("topic-id") == {0: 13, 1: 2}
    assert order.next_offsets("another-id") == {}


def test_a_micro_batch_of_another_topic_is_not_committed(stream: ForeachBatch, batch: Batch, kafka: SameKafka) -> None:
    kafka.failures = [TopicReplacedError("topic 'orders' was deleted and recreated")]
    batch.allowed.release(2)
    with pytest.raises(TopicReplacedError, match="recreated"):
        give(stream, 1, 2, 3)
    end(stream)
    assert not any(what.startswith("commit") for what in batch.happened)


def test_a_micro_batch_waits_for_a_kafka_that_is_away(stream: ForeachBatch, batch: Batch, kafka: SameKafka) -> None:
    kafka.failures = [BrokerError("did not answer")]
    batch.allowed.release(2)
    give(stream, 1)
    for _ in range(2):
        assert kafka.asked.acquire(timeout=SECONDS)
    assert batch.happened == ["read 1"]
    kafka.failures = []
    give(stream, 2)
    end(stream)
    assert stream.error is None
    assert [what for what in batch.happened if what.startswith("commit")] == ["commit 1 as 7", "commit 2 as 8"]


def test_a_stop_while_kafka_is_away_drops_what_was_read(stream: ForeachBatch, batch: Batch, kafka: SameKafka) -> None:
    kafka.failures = [BrokerError("did not answer")]
    batch.allowed.release(2)
    give(stream, 1)
    reading = in_background(lambda: give(stream, 2))
    assert kafka.asked.acquire(timeout=SECONDS)
    ending = in_background(lambda: end(stream))
    ending.join(SECONDS)
    reading.join(SECONDS)
    assert not ending.is_alive()
    assert stream.error is None
    assert not any(what.startswith("commit") for what in batch.happened), "the next start reads it again"
