"""Idle partitions move the clock of a source by a commit to progress, and only while Kafka has nothing unread."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import serving_layer
from hourline_core.errors import BrokerError, ConflictError
from hourline_core.ledger.source_clock import PartitionClock, SourceClock
from speed_layer.commit.idle_partitions import IdlePartitions, Offsets
from tests.support.visits import Visit, Visits, hour

IDLE = timedelta(minutes=30)
ARRIVED = datetime(2024, 4, 1, tzinfo=UTC)


class Watched:
    """A source with ``idle``, one visit in its first hour, and what Kafka and the wall say of it."""

    def __init__(self, folder: Path, knows_metric: bool = True) -> None:
        self.visits = Visits(folder)
        self.visits.source = self.visits.source.model_copy(update={"idle": IDLE})
        self.now = ARRIVED
        self.ends: Offsets | BrokerError = {("topic-id", 0): 1}
        self.read: Offsets = {}
        self.asked = 0
        self.start(knows_metric)
        self.visits.micro_batch(Visit(0, "home", 5))
        self.show_clock()

    def show_clock(self) -> None:
        shown = PartitionClock("topic-id", 0, hour(0), ARRIVED)
        self.visits.source_tables.clock = SourceClock(hour(0), (shown,))

    def start(self, knows_metric: bool = True) -> None:
        self.visits.start(knows_metric=knows_metric)
        self.idle_partitions = IdlePartitions(
            self.visits.source_tables, self.ask, lambda: self.read, clock=lambda: self.now
        )

    def ask(self) -> Offsets:
        self.asked += 1
        if isinstance(self.ends, BrokerError):
            raise self.ends
        return self.ends

    def pass_time(self, **time: float) -> bool:
        """Whether the clock moves after that time."""
        self.now += timedelta(**time)
        if not self.idle_partitions.moves_clock():
            return False
        ends = self.idle_partitions.ask_ends()
        return ends is not None and self.idle_partitions.moves_clock(ends)

    def commit(self) -> None:
        assert not isinstance(self.ends, BrokerError)
        self.idle_partitions.commit(self.visits.sequence, self.ends)
        self.visits.sequence += 1

    def closed(self) -> set[datetime]:
        with serving_layer.connect(self.visits.project) as connection:
            return {row[0] for row in connection.sql("SELECT DISTINCT hour FROM hours WHERE closed").fetchall()}


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_silence_closes_the_last_hour(watched: Watched) -> None:
    assert not watched.pass_time(minutes=29)
    assert not watched.pass_time(minutes=29), "the clock is still in the same hour"
    assert watched.asked == 0
    assert watched.pass_time(minutes=2, seconds=1)
    watched.commit()
    assert watched.closed() == set()
    assert not watched.pass_time(minutes=5)
    assert watched.pass_time(minutes=55)
    watched.commit()
    assert watched.closed() == {hour(0)}
    with serving_layer.connect(watched.visits.project) as connection:
        assert connection.sql("SELECT visits, state FROM loads").fetchall() == [(1, "provisional")]


def test_unread_records_are_no_silence(watched: Watched) -> None:
    watched.ends = {("topic-id", 0): 2, ("topic-id", 1): 0}
    assert not watched.pass_time(hours=5)
    watched.read = {("topic-id", 0): 2}  # the marker of a transaction, which Spark has passed
    assert watched.pass_time(minutes=1)


def test_a_kafka_that_does_not_answer_is_no_silence(watched: Watched) -> None:
    watched.ends = BrokerError("away")
    assert not watched.pass_time(hours=5)
    watched.ends = {("topic-id", 0): 1}
    assert not watched.pass_time(minutes=30), "producers could not send, either"
    assert watched.asked == 1
    assert watched.pass_time(seconds=1)


def test_kafka_is_not_asked_at_every_look(watched: Watched) -> None:
    watched.ends = {("topic-id", 0): 2}
    assert not watched.pass_time(hours=5)
    watched.ends = {("topic-id", 0): 1}
    assert not watched.pass_time(seconds=14)
    assert watched.asked == 1
    assert watched.pass_time(seconds=1)


def test_a_start_waits_for_as_long_as_if_the_last_record_had_just_come(watched: Watched) -> None:
    watched.now += timedelta(hours=5)
    watched.start()
    watched.show_clock()
    assert not watched.pass_time(minutes=30)
    assert watched.pass_time(seconds=1)


def test_a_writer_that_was_fenced_out_moves_no_clock(watched: Watched) -> None:
    assert watched.pass_time(hours=5)
    Visits.start(watched.visits)  # another process
    with pytest.raises(ConflictError):
        watched.commit()
    assert watched.closed() == set()


def test_a_metric_that_was_new_at_the_start_is_complete_from_there_on(tmp_path: Path) -> None:
    watched = Watched(tmp_path, knows_metric=False)
    watched.start()
    watched.show_clock()
    complete_from = dict(watched.visits.source_tables.complete_from)
    assert list(complete_from.values()) == [2]
    assert watched.pass_time(hours=5)
    watched.commit()
    watched.start()
    assert watched.visits.source_tables.complete_from == complete_from
