"""The life of a speed layer: what it does in each state, and what ends it."""

import threading
from pathlib import Path

import pytest

from hourline_core.errors import ConflictError, KafkaAwayError, LostRecordsError, SparkError, TopicReplacedError
from speed_layer.state import State
from speed_layer.streams.stream import GOES_ON
from tests.support import raised
from tests.support.stubbed_streams import ForeachBatch, Query, World, stream_of

STOPPED, STARTING, RUNNING, AWAY, STOPPING = (
    State.STOPPED,
    State.STARTING,
    State.RUNNING,
    State.AWAY,
    State.STOPPING,
)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    return World(monkeypatch, tmp_path)


def test_a_run_starts_streams_and_stops_them(world: World) -> None:
    layer = world.layer("visits", "scans")
    assert layer.state is STOPPED
    assert layer.run(world.stop) == []
    assert (world.lives, world.states) == (2, [STARTING, RUNNING, STOPPING, STOPPED])
    assert layer.state is STOPPED


def test_streams_that_have_drained_end_the_run(world: World) -> None:
    drained = Query()
    drained.isActive = False
    world.streams = [stream_of(ForeachBatch("visits"), drained)]
    assert world.layer(drain=True).run(threading.Event()) == []
    assert world.states == [STARTING, RUNNING, STOPPING, STOPPED]


def test_a_stream_that_has_drained_is_active_until_its_last_commit() -> None:
    drained, foreach_batch = Query(), ForeachBatch("visits")
    stream = stream_of(foreach_batch, drained)
    assert stream.is_active()
    drained.isActive, foreach_batch.committing = False, True
    assert stream.is_active(), "what is joined of it reads what this commit finishes"
    foreach_batch.committing = False
    assert not stream.is_active()


def test_a_kafka_that_goes_and_comes_back_is_outlived(world: World) -> None:
    world.ends = [world.go_away, world.go_away]
    world.run()
    assert world.states == [STARTING, RUNNING, AWAY, RUNNING, AWAY, RUNNING, STOPPING, STOPPED]


def test_a_start_that_fails_while_kafka_is_away_is_tried_again(world: World) -> None:
    def fail_twice() -> None:
        if 2 <= world.lives <= 3:
            world.go_away()

    world.ends, world.begins = [world.go_away], fail_twice
    world.run()
    assert world.lives == 4
    assert world.states == [STARTING, RUNNING, AWAY, RUNNING, STOPPING, STOPPED]


def test_a_stop_before_the_run_starts_nothing(world: World) -> None:
    world.stop.set()
    assert world.run() == []
    assert (world.lives, world.states) == (0, [STARTING, STOPPING, STOPPED])


def test_a_stop_while_it_starts_stops_what_has_started(world: World) -> None:
    foreach_batch = ForeachBatch("visits", in_time=False)
    world.streams = [stream_of(foreach_batch, Query())]
    world.begins = world.stop.set
    assert world.run() == ["visits"]
    assert foreach_batch.happened == ["stop", "join"]
    assert world.states == [STARTING, RUNNING, STOPPING, STOPPED]


def test_a_start_that_fails_after_a_stop_says_why_without_having_run(world: World) -> None:
    def stop_and_fail() -> None:
        world.stop.set()
        world.go_away()

    world.begins = stop_and_fail
    with pytest.raises(KafkaAwayError, match=r"no answer$"):
        world.run()
    assert world.states == [STARTING, STOPPING, STOPPED]


def test_a_stop_while_kafka_is_away_ends_the_wait(world: World) -> None:
    world.error = KafkaAwayError("no answer")
    world.ends, world.waits = [world.go_away], world.stop.set
    assert world.run() == []
    assert (world.lives, world.retries) == (1, [])
    assert world.states == [STARTING, RUNNING, AWAY, STOPPING, STOPPED]


def test_the_streams_are_stopped_in_the_state_that_says_so(world: World) -> None:
    seen: list[State] = []

    class Stopping(ForeachBatch):
        def join(self, seconds: float) -> bool:
            seen.append(layer.state)
            return True

    world.streams = [stream_of(Stopping("visits"), Query())]
    layer = world.layer()
    layer.run(world.stop)
    assert seen == [STOPPING]


def test_it_cannot_run_twice_at_a_time_but_again(world: World) -> None:
    layer = world.layer()

    def run_again() -> None:
        with pytest.raises(ValueError, match="that is running cannot be starting"):
            layer.run(world.stop)
        assert layer.state is RUNNING

    world.ends = [run_again]
    layer.run(world.stop)
    world.stop.clear()
    layer.run(world.stop)
    assert world.states == [STARTING, RUNNING, STOPPING, STOPPED] * 2


def test_a_topic_that_is_deleted_is_waited_for_without_its_stream(world: World) -> None:
    def delete() -> None:
        world.topic_id = None
        raise TopicReplacedError("topic 'visits' was deleted", goes_on=True)

    started: list[int] = []

    def note_and_bring_back() -> None:
        started.append(world.lives)
        world.topics_are_there()

    world.ends = [delete, note_and_bring_back]
    world.run()
    assert (started, world.lives) == ([1], 2)
    assert [str(why) for why in world.replaced] == ["topic 'visits' was deleted"]
    assert world.back == ["visits"]
    assert world.states == [STARTING, RUNNING, STOPPING, STOPPED]


@pytest.mark.parametrize("drain", [True, False])
def test_a_topic_that_is_replaced_ends_a_drain_and_a_source_that_does_not_go_on(world: World, drain: bool) -> None:
    def replace() -> None:
        raise TopicReplacedError("topic 'visits' was recreated", goes_on=drain)

    world.ends = [replace]
    with pytest.raises(TopicReplacedError):
        world.layer(drain=drain).run(world.stop)
    assert (world.lives, world.replaced) == (1, [])


def test_records_that_are_lost_meanwhile_are_looked_for_by_another_start(world: World) -> None:
    def lose() -> None:
        raise LostRecordsError("offsets 1 to 7 were deleted")

    world.ends = [lose]
    world.run()
    assert world.lives == 2


def test_a_failure_of_spark_is_that_of_lost_records_if_there_are_some(world: World) -> None:
    def fail() -> None:
        raise SparkError("offsets out of range")

    world.ends, world.has_gaps = [fail], True
    world.run()
    assert world.lives == 2
    world.ends, world.has_gaps = [fail], False
    world.stop.clear()
    with pytest.raises(SparkError, match="out of range"):
        world.run()
    assert world.states[-2:] == [STOPPING, STOPPED]


def test_a_kafka_of_ours_that_ends_is_outlived_unless_the_topics_are_drained(world: World) -> None:
    def end_kafka() -> None:
        world.own_kafka_ends = 1

    world.ends = [end_kafka]
    world.run()
    told = "the embedded Kafka at kafka:9092 has ended by itself (its log is logs/broker.log)"
    assert world.retries == [(told, 2)]
    world.ends = [end_kafka]
    world.stop.clear()
    with pytest.raises(KafkaAwayError) as failed:
        world.layer(drain=True).run(world.stop)
    assert str(failed.value) == f"{told}; {GOES_ON}"


def test_a_stream_that_fails_ends_the_wait_for_the_others(world: World) -> None:
    others = Query()
    world.streams = [stream_of(ForeachBatch("visits"), Query(raised.AWAY)), stream_of(ForeachBatch("scans"), others)]
    with pytest.raises(KafkaAwayError, match="the stream of source 'visits' stopped: Kafka at kafka:9092 does not"):
        world.layer("visits", "scans", drain=True).run(world.stop)
    assert not others.isActive
    assert not world.stop.is_set()


def test_what_needs_kafka_is_done_between_heartbeats_unless_the_topics_are_drained(world: World) -> None:
    for drain, happens in ((False, ["clock", "look", "stop", "join"]), (True, ["stop", "join"])):
        foreach_batch = ForeachBatch("visits")
        world.streams = [stream_of(foreach_batch, Query())]
        world.stop.clear()
        world.layer(drain=drain).run(world.stop)
        assert foreach_batch.happened == happens


def test_another_writer_is_told_before_a_kafka_that_is_away(world: World) -> None:
    def be_replaced() -> None:
        replaced.error = ConflictError("another process writes")
        raise KafkaAwayError("no answer")

    replaced = ForeachBatch("visits")
    world.streams, world.ends = [stream_of(replaced, Query())], [be_replaced]
    with pytest.raises(ConflictError, match="another process writes"):
        world.run()
