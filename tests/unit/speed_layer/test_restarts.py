"""Streams that ended because of Kafka are started again, and not for ever where that mends nothing."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from hourline_core.errors import BrokerError, KafkaAwayError, KafkaForbidsError
from speed_layer.kafka_watch import KafkaWatch
from speed_layer.restarts import MOST_FAILURES, OVER, run_again_after_kafka


class World:
    """Streams, a Kafka and a clock. Each of ``ends`` is what one life of the streams does; then one goes well."""

    def __init__(self, *ends: Callable[[], None]) -> None:
        self.ends = list(ends)
        self.now = datetime(2024, 4, 1, tzinfo=UTC)
        self.lives = 0
        self.absences = 0
        self.error: BrokerError | None = None
        """What is wrong with Kafka, for ever."""
        self.ready, self.stop = threading.Event(), threading.Event()
        self.said: list[str] = []
        self.own_kafka_ends = False

    def run(self) -> None:
        run_again_after_kafka(
            self._live,
            self.ready,
            cast(KafkaWatch, self),
            cast(threading.Event, _Waiting(self)),
            self.said.append,
            lambda: self.now,
            lambda: self.own_kafka_ends,
        )

    def wait_for_answer(self, stop: threading.Event, on_error: Callable[[BrokerError], None]) -> None:
        while self.error is not None and not stop.is_set():
            on_error(self.error)
            self.now += timedelta(seconds=1)

    def _live(self) -> list[str]:
        self.lives += 1
        self.ready.set()
        if self.ends:
            self.ends.pop(0)()
        return []

    def fail(self) -> None:
        raise KafkaAwayError("no leader")

    def go_away(self) -> None:
        self.absences += 1
        raise KafkaAwayError("no answer")


class _Waiting(threading.Event):
    """A stop that lets the time of a World go by."""

    def __init__(self, world: World) -> None:
        self.world = world

    def wait(self, timeout: float | None = None) -> bool:
        self.world.now += timedelta(seconds=timeout or 0)
        return self.world.stop.is_set()

    def is_set(self) -> bool:
        return self.world.stop.is_set()


def times(number: int, end: Callable[[World], None]) -> World:
    world = World()
    world.ends = [lambda: end(world)] * number
    return world


def test_streams_go_on_however_often_kafka_goes_and_comes_back() -> None:
    world = times(100, World.go_away)
    world.run()
    assert (world.lives, world.said) == (101, [])


def test_streams_that_fail_while_kafka_answers_are_started_a_few_times_each_later_than_before() -> None:
    world = times(MOST_FAILURES, World.fail)
    world.run()
    assert world.lives == MOST_FAILURES + 1
    assert [said.rpartition(" in ")[2] for said in world.said] == ["2 s", "4 s", "8 s", "16 s", "32 s"]
    world = times(MOST_FAILURES + 1, World.fail)
    with pytest.raises(KafkaAwayError, match="no leader"):
        world.run()


def test_failures_that_are_long_past_do_not_count() -> None:
    def fail_later(world: World) -> None:
        world.now += OVER
        world.fail()

    world = times(100, fail_later)
    world.run()
    assert world.lives == 101


def test_a_kafka_of_ours_that_ends_again_and_again_is_given_up() -> None:
    world = times(100, World.go_away)
    world.own_kafka_ends = True
    with pytest.raises(KafkaAwayError):
        world.run()
    assert world.lives == MOST_FAILURES + 1


def test_what_kafka_forbids_is_waited_for_and_then_needs_a_person() -> None:
    world = times(1, World.go_away)
    world.error = KafkaForbidsError("not authorized")
    began = world.now
    with pytest.raises(KafkaForbidsError, match="not authorized"):
        world.run()
    assert OVER < world.now - began < OVER + timedelta(seconds=2)


def test_a_stop_ends_the_wait() -> None:
    world = times(1, World.go_away)
    world.error = KafkaAwayError("no answer")
    world.ends.insert(0, world.fail)
    world.stop.set()
    world.run()
    assert world.lives == 1


def test_other_errors_and_those_of_the_first_start_are_not_tried_again() -> None:
    def lose_records() -> None:
        raise BrokerError("offsets 1 to 7 were deleted")

    world = World(lose_records)
    with pytest.raises(BrokerError, match="were deleted"):
        world.run()
    world = times(1, World.go_away)
    world.ready = cast(threading.Event, _Waiting(world))  # is never set
    world.ready.set = lambda: None  # type: ignore[method-assign]
    with pytest.raises(KafkaAwayError):
        world.run()
    assert world.lives == 1
