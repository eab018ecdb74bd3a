"""Streams that ended because of Kafka are started again, and not for ever where that mends nothing."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from hourline_core.errors import BrokerError, KafkaAwayError, KafkaForbidsError
from speed_layer.kafka.kafka_watch import KafkaWatch
from speed_layer.recovery.restarts import MOST_FAILURES, OVER, run_again_after_kafka


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
        self.logged: list[str] = []
        self.own_kafka_ends = 0
        """How often."""

    def run(self) -> None:
        run_again_after_kafka(
            self._live,
            self.ready,
            cast(KafkaWatch, self),
            cast(threading.Event, _Waiting(self)),
            self.said.append,
            lambda error: self.logged.append(str(error)),
            lambda: self.now,
            self.revive_kafka,
        )

    def wait_for_answer(self, stop: threading.Event, look: Callable[[BrokerError | None], None]) -> None:
        while not stop.is_set():
            ends = self.own_kafka_ends
            look(self.error)
            if self.error is None and self.own_kafka_ends == ends:
                return
            self.now += timedelta(seconds=1)

    def revive_kafka(self) -> bool:
        if not self.own_kafka_ends:
            return False
        self.own_kafka_ends -= 1
        return True

    def _live(self) -> list[str]:
        self.lives += 1
        self.ready.set()
        if self.ends:
            self.ends.pop(0)()
        return []

    def fail(self) -> None:
        raise KafkaAwayError("no leader")

    def be_forbidden(self) -> None:
        raise KafkaForbidsError("not authorized to read")

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
    assert world.logged == ["no answer"] * 100


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


@pytest.mark.parametrize("ends", [1, 2, MOST_FAILURES])
def test_a_kafka_of_ours_is_started_again_as_often_as_it_ends_during_one_wait(ends: int) -> None:
    world = times(1, World.go_away)
    world.own_kafka_ends = ends
    world.run()
    assert (world.lives, world.own_kafka_ends) == (2, 0)
    assert world.said == [f"no answer; the speed layer tries again by itself in {2**ends} s"]


def test_a_kafka_of_ours_that_ends_again_and_again_is_given_up() -> None:
    world = times(1, World.go_away)
    world.own_kafka_ends = MOST_FAILURES + 1
    with pytest.raises(KafkaAwayError):
        world.run()
    assert world.lives == 1

    def end(world: World) -> None:
        world.own_kafka_ends = 1
        world.go_away()

    world = times(100, end)
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


def test_what_kafka_forbids_while_it_answers_is_tried_for_as_long_and_then_needs_a_person() -> None:
    world = times(1000, World.be_forbidden)
    began = world.now
    with pytest.raises(KafkaForbidsError, match="not authorized to read"):
        world.run()
    assert OVER < world.now - began <= OVER + timedelta(seconds=60)
    assert world.lives < 20
    world = times(12, World.be_forbidden)
    world.ends += [world.fail]
    world.run()
    assert world.lives == 14, "of other failures there was one"


def test_what_was_forbidden_long_ago_does_not_count() -> None:
    def be_forbidden_later(world: World) -> None:
        world.now += OVER
        world.be_forbidden()

    world = times(100, be_forbidden_later)
    world.run()
    assert world.lives == 101


def test_a_failure_after_a_stop_is_not_told() -> None:
    def stop_and_fail(world: World) -> None:
        world.stop.set()
        world.fail()

    world = times(1, stop_and_fail)
    world.own_kafka_ends = 1
    world.run()
    assert (world.lives, world.said, world.logged) == (1, [], [])
    assert world.own_kafka_ends == 1, "a Kafka is started for a speed layer that ends"


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
