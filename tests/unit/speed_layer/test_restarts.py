"""Streams that ended because of Kafka are started again, and not for ever where that mends nothing."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hourline_core.errors import BrokerError, KafkaAwayError, KafkaForbidsError
from hourline_core.runtime.kafka import Kafka
from speed_layer.recovery.restarts import MOST_FAILURES, OVER, Restarts
from tests.support.observed import Observed
from tests.support.stubbed_streams import World


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    return World(monkeypatch, tmp_path)


def test_streams_go_on_however_often_kafka_goes_and_comes_back(world: World) -> None:
    world.ends = [world.go_away] * 100
    world.run()
    assert (world.lives, world.retries, world.survived) == (101, [], 100)


def test_streams_that_fail_while_kafka_answers_are_started_a_few_times_each_later_than_before(world: World) -> None:
    world.ends = [world.fail] * MOST_FAILURES
    world.run()
    assert world.lives == MOST_FAILURES + 1
    assert world.retries == [("no leader", seconds) for seconds in (2, 4, 8, 16, 32)]
    world.ends = [world.fail] * (MOST_FAILURES + 1)
    world.stop.clear()
    with pytest.raises(KafkaAwayError, match="no leader; nothing is lost, and `hourline speed` goes on where it stop"):
        world.run()


def test_failures_that_are_long_past_do_not_count(world: World) -> None:
    def fail_later() -> None:
        world.now += OVER
        world.fail()

    world.ends = [fail_later] * 100
    world.run()
    assert world.lives == 101


@pytest.mark.parametrize("ends", [1, 2, MOST_FAILURES])
def test_a_kafka_of_ours_is_started_again_as_often_as_it_ends_during_one_wait(world: World, ends: int) -> None:
    def end() -> None:
        world.own_kafka_ends = ends
        world.go_away()

    world.ends = [end]
    world.run()
    assert (world.lives, world.own_kafka_ends) == (2, 0)
    assert world.retries == [("no answer", 2**ends)]


@pytest.mark.parametrize(("at_once", "lives"), [(MOST_FAILURES + 1, 1), (1, MOST_FAILURES + 1)])
def test_a_kafka_of_ours_that_ends_again_and_again_is_given_up(world: World, at_once: int, lives: int) -> None:
    def end() -> None:
        world.own_kafka_ends = at_once
        world.go_away()

    world.ends = [end] * 100
    with pytest.raises(KafkaAwayError):
        world.run()
    assert world.lives == lives


def test_what_kafka_forbids_is_waited_for_and_then_needs_a_person(world: World) -> None:
    world.ends = [world.go_away]
    world.error = KafkaForbidsError("not authorized")
    began = world.now
    with pytest.raises(KafkaForbidsError, match="not authorized"):
        world.run()
    assert OVER < world.now - began < OVER + timedelta(seconds=2)


def test_what_kafka_forbids_while_it_answers_is_tried_for_as_long_and_then_needs_a_person(world: World) -> None:
    world.ends = [world.be_forbidden] * 1000
    began = world.now
    with pytest.raises(KafkaForbidsError, match="not authorized to read"):
        world.run()
    assert OVER < world.now - began <= OVER + timedelta(seconds=62)
    assert world.lives < 20


def test_what_is_forbidden_does_not_count_as_another_failure(world: World) -> None:
    world.ends = [*[world.be_forbidden] * 12, world.fail]
    world.run()
    assert world.lives == 14
    assert world.retries[-1] == ("no leader", 2), "of other failures there was one"


def test_what_was_forbidden_long_ago_does_not_count(world: World) -> None:
    def be_forbidden_later() -> None:
        world.now += OVER
        world.be_forbidden()

    world.ends = [be_forbidden_later] * 100
    world.run()
    assert world.lives == 101


def test_a_failure_after_a_stop_is_not_told(world: World) -> None:
    def stop_and_fail() -> None:
        world.own_kafka_ends = 1
        world.stop.set()
        world.fail()

    world.ends = [stop_and_fail]
    assert world.run() == []
    assert (world.lives, world.retries, world.survived) == (1, [], 0)
    assert world.own_kafka_ends == 1, "a Kafka is started for a speed layer that ends"


def test_other_errors_and_those_of_the_first_start_are_not_tried_again(world: World) -> None:
    def refuse() -> None:
        raise BrokerError("the topic has too few partitions")

    world.ends = [refuse]
    with pytest.raises(BrokerError, match=r"too few partitions$"):
        world.run()
    assert world.lives == 1
    world.begins = world.go_away
    with pytest.raises(KafkaAwayError, match=r"no answer$"):
        world.run()
    assert world.lives == 2


def test_a_kafka_that_was_away_for_long_may_refuse_when_it_comes_back() -> None:
    now = datetime(2024, 4, 1, tzinfo=UTC)

    def until_answer(stop: threading.Event) -> Iterator[BrokerError | None]:
        nonlocal now
        yield KafkaAwayError("no answer")
        now += 3 * OVER
        yield KafkaForbidsError("the server of the tokens is not there yet")
        yield None

    watch = SimpleNamespace(absences=0, until_answer=until_answer)
    restarts = Restarts(cast(Any, watch), Kafka("kafka:9092"), Observed(), lambda: now)
    watch.absences = 1
    restarts.wait(KafkaAwayError("no answer"), threading.Event())
