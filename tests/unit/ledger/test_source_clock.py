"""The clock of a source: the slowest live partition holds it, no single record carries it away, and silence moves it."""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.ledger.source_clock import Micros, PartitionClock, SourceClock
from tests.support import oracle

BASE = datetime(2024, 3, 1, tzinfo=UTC)
LONG_AFTER = BASE + timedelta(days=1000)
IDLE = timedelta(minutes=15)


def minutes(number: float) -> datetime:
    return BASE + timedelta(minutes=number)


def micros(*moments: datetime) -> Micros:
    return np.array(
        [(moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) for moment in moments], dtype=np.int64
    )


def read(
    clock: SourceClock,
    *numbers: float,
    partition: int = 0,
    arrived: datetime = LONG_AFTER,
) -> SourceClock:
    """The clock after one micro-batch with events at these minutes in one partition."""
    return after(clock, {("topic", partition): micros(*map(minutes, numbers))}, arrived)


def after(
    clock: SourceClock,
    times: Mapping[tuple[str, int], Micros],
    arrived: datetime = LONG_AFTER,
    behind: Collection[tuple[str, int]] = (),
) -> SourceClock:
    """The clock after one micro-batch with these event times, by partition."""
    read = [clock.of_partition(of, arrived).advance(some, arrived, timedelta(0)) for of, some in times.items()]
    return clock.after_records(read, behind=behind)


def test_the_slowest_partition_holds_the_clock() -> None:
    clock = read(read(SourceClock(), 0, 10), 50, 60, partition=1)
    assert clock.time == minutes(10)
    assert read(clock, 55).time == minutes(55)


def test_a_clock_never_goes_back() -> None:
    clock = read(read(SourceClock(), 60), 10, partition=1)
    assert clock.time == minutes(60)
    assert read(clock, 30).time == minutes(60)


def test_one_record_far_ahead_does_not_move_the_clock() -> None:
    clock = read(SourceClock(), 0, 5, 60 * 24 * 49, 10, 12)
    assert clock.time == minutes(12)
    assert [(known.ahead, known.held_back) for known in clock.partitions] == [((), 1)]


def test_records_far_ahead_among_others_never_add_up() -> None:
    times = [time for number in range(40) for time in (number, 10_000 + number)]
    clock = read(SourceClock(), *times)
    assert clock.time == minutes(39)


def test_a_gap_counts_once_three_further_records_confirm_it() -> None:
    clock = read(SourceClock(), 0, 300, 310, 320)
    assert clock.time == minutes(0)
    assert clock.partitions[0].ahead == (minutes(300), minutes(310), minutes(320))
    assert read(clock, 325).time == minutes(325)


def test_records_of_one_time_do_not_confirm_each_other() -> None:
    clock = read(SourceClock(), 0, *[300] * 20)
    assert clock.time == minutes(0)
    assert read(clock, 301).time == minutes(301)


def test_late_records_do_not_refute_a_gap() -> None:
    assert read(SourceClock(), 10, 300, 5, 310, 5, 320, 5, 330).time == minutes(330)


def test_the_first_records_do_not_begin_with_one_far_ahead() -> None:
    assert read(SourceClock(), 10_000, 0, 5, 10, 15).time == minutes(15)


def test_the_clock_never_passes_arrival_but_by_the_skew_of_producers() -> None:
    known = PartitionClock("topic", 0, minutes(0), minutes(0))
    arrived = minutes(10)
    assert known.advance(micros(minutes(12)), arrived, timedelta(0)).clock == arrived
    assert known.advance(micros(minutes(12)), arrived, timedelta(minutes=1)).clock == minutes(11)


def test_an_idle_partition_no_longer_holds_the_clock() -> None:
    clock = read(read(SourceClock(), 0, arrived=minutes(0)), 0, partition=1, arrived=minutes(0))
    held = read(clock, 10, 20, arrived=minutes(20))
    assert held.time == minutes(0)
    assert held.without_idle(minutes(15), IDLE).time == minutes(0)
    moved = held.without_idle(minutes(20), IDLE)
    assert moved.time == minutes(20)
    assert held.without_idle(minutes(20), IDLE, unread=[("topic", 1)]).time == minutes(0), "it is behind"
    assert held.without_idle(minutes(20), IDLE, unread=[("topic", 2)]).time == minutes(0), "who knows what it has"
    back = read(moved, 5, partition=1, arrived=minutes(21))
    assert back.time == minutes(20), "it was told what it was told"


def test_a_silent_source_goes_on_by_wall_time() -> None:
    old = read(SourceClock(), 0, 10, arrived=LONG_AFTER)
    quiet = LONG_AFTER + timedelta(minutes=15)
    assert old.without_idle(quiet, IDLE).time == minutes(10)
    assert old.without_idle(quiet + timedelta(minutes=5), IDLE).time == minutes(30)
    assert old.without_idle(quiet + timedelta(minutes=5), IDLE, unread=[("topic", 0)]).time == minutes(10)


def test_a_source_without_an_accepted_event_has_no_clock() -> None:
    rejected = after(SourceClock(), {("topic", 0): micros()}, minutes(0))
    assert rejected.time is None
    assert rejected.without_idle(LONG_AFTER, IDLE).time is None


def test_a_partition_that_begins_with_bad_records_holds_the_clock_while_it_may_have_more() -> None:
    bad: Micros = micros()
    times = {("topic", 0): micros(minutes(90)), ("topic", 1): bad}
    behind = after(SourceClock(), times, behind=list(times))
    assert behind.time is None
    assert after(behind, times).time == minutes(90), "it has no more: a topic without a key for it"


def test_an_import_moves_the_clock_only_of_a_source_without_partitions() -> None:
    files_only = SourceClock().after_import(minutes(500), LONG_AFTER)
    assert files_only.time == minutes(500)
    assert read(SourceClock(), 0).after_import(minutes(500), LONG_AFTER).time == minutes(0)
    assert SourceClock().after_import(minutes(500), minutes(20)).time == minutes(20)


def test_partitions_of_a_topic_that_is_read_no_more_hold_nothing() -> None:
    clock = after(SourceClock(), {("old", 0): micros(minutes(0))}).of_topics(["new"])
    assert clock.partitions == ()
    assert clock.time == minutes(0)


# Times in steps of 25 minutes, so that steps below, at and beyond the leap of an hour all come up.
BATCHES = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12).map(lambda steps: 20 * steps)), min_size=1, max_size=12),
    max_size=8,
)


@given(BATCHES, BATCHES)
def test_the_clock_is_that_of_a_naive_pass(
    batches: list[list[tuple[int, int]]], recreated: list[list[tuple[int, int]]]
) -> None:
    """The topic is recreated in between, and has other partitions from then on."""
    clock, naive = SourceClock(), oracle.Clock()
    of_topics = [("old", 0, batch) for batch in batches] + [("new", -oracle.RECREATED, batch) for batch in recreated]
    for sequence, (topic, number, batch) in enumerate(of_topics):
        events = [
            oracle.Event(sequence, number + partition, offset, minutes(time), minutes(time), {})
            for offset, (partition, time) in enumerate(batch)
        ]
        naive.pass_sequence(events)
        clock = after(
            clock.of_topics([topic]),
            {
                (topic, of): micros(*(minutes(time) for partition, time in batch if partition == of))
                for of in {p for p, _ in batch}
            },
        )
        assert clock.time == naive.time


@given(BATCHES, st.data())
def test_the_size_of_micro_batches_changes_nothing_but_the_beginning(
    batches: list[list[tuple[int, int]]], data: st.DataObject
) -> None:
    """Once each partition has shown some records, it does not matter how the rest is divided."""
    begun = SourceClock()
    for partition in range(3):
        begun = read(begun, 0, partition=partition)
    together, apart = begun, begun
    for batch in batches:
        cut = data.draw(st.integers(0, len(batch)))
        together = after_batch(together, batch)
        apart = after_batch(after_batch(apart, batch[:cut]), batch[cut:])
    assert [known.clock for known in together.partitions] == [known.clock for known in apart.partitions]
    assert [known.held_back for known in together.partitions] == [known.held_back for known in apart.partitions]


def after_batch(clock: SourceClock, batch: Iterable[tuple[int, int]]) -> SourceClock:
    of_partition: dict[tuple[str, int], list[datetime]] = {}
    for partition, time in batch:
        of_partition.setdefault(("topic", partition), []).append(minutes(time))
    return after(clock, {of: micros(*times) for of, times in of_partition.items()})


@pytest.mark.parametrize("records", [100, 100_000])
def test_a_stream_in_order_is_followed_to_its_last_record(records: int) -> None:
    times = micros(BASE) + np.arange(records, dtype=np.int64) * 1_000_000
    clock = after(SourceClock(), {("topic", 0): times})
    assert clock.time == BASE + timedelta(seconds=records - 1)
