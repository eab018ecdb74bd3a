"""The snapshots of a table, beside a pass over all of its events for each of them."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hourline_core.compute.worker_database import connect
from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.model.decoding import TOMBSTONE
from hourline_core.model.scratch_columns import DUPLICATE, EVENT_TIME, HOUR, RECORD, SEQUENCE, TAKEN_BACK
from hourline_core.model.snapshot import SNAPSHOT_ROW, SNAPSHOT_TIME
from hourline_core.model.table import KEY_FIELD
from speed_layer.derived.read_events import ADDRESS
from speed_layer.derived.rows import AT, Part
from speed_layer.snapshots.plan import SnapshotPlan
from speed_layer.snapshots.snapshot_rows import Archived, SnapshotTaker
from speed_layer.snapshots.step import Times, floor
from speed_layer.tables.plan import ArchiveColumns
from tests.support.examples import examples

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
TIME = "orders_event_time"
AHEAD = timedelta(minutes=30)
LONG_AGO = datetime(1971, 1, 1, tzinfo=UTC)
ADDRESS_TYPES = dict(zip(ADDRESS, (pa.string(), pa.int32(), pa.int64(), pa.int32()), strict=True))
TABLE = {
    SEQUENCE: pa.int64(),
    EVENT_TIME: TIMESTAMP,
    DUPLICATE: pa.bool_(),
    HOUR: TIMESTAMP,
    **ADDRESS_TYPES,
    RECORD: pa.struct({"key": pa.binary(), "arrived": TIMESTAMP}),
    "value": pa.int64(),
}
EARLIER = {
    HOUR: TIMESTAMP,
    SEQUENCE: pa.int64(),
    SNAPSHOT_ROW: pa.string(),
    TIME: TIMESTAMP,
    KEY_FIELD: pa.string(),
    "value": pa.int64(),
}
REJECTED = {
    "sequence": pa.int64(),
    "topic_id": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "key": pa.binary(),
    "decoding": pa.string(),
    "timestamp": TIMESTAMP,
    "arrived": TIMESTAMP,
}


class Record(NamedTuple):
    """A record of the table. Without a value, it is a tombstone; a value of 0 deletes the row, too."""

    sequence: int
    minutes: int
    key: str | None
    value: int | None
    number: int

    @property
    def at(self) -> datetime:
        """A tombstone counts AHEAD of its arrival at most, and all arrive after three hours."""
        at = BEGIN + timedelta(minutes=self.minutes)
        return at if self.value is not None else min(at, BEGIN + timedelta(hours=3) + AHEAD)


def plan_of(every: timedelta) -> SnapshotPlan:
    columns = {name: name for name in TABLE}
    table = ArchiveColumns("", {}, columns, TABLE)
    return SnapshotPlan(
        "orders", table, "", AHEAD, None, "string", [KEY_FIELD], ["value"], TIME, '"value" = 0', every
    )  # fmt: skip


def oracle(records: list[Record], every: timedelta, up_to: int, clock: datetime) -> Counter[tuple[Any, ...]]:
    """Each snapshot up to the clock, by a pass over all records."""
    known = [one for one in records if one.sequence <= up_to and one.key is not None]
    found: Counter[tuple[Any, ...]] = Counter()
    if not known:
        return found
    snapshot = floor(min(one.at for one in known), every) + every
    while snapshot <= clock:
        newest: dict[str | None, Record] = {}
        for one in sorted(
            (one for one in known if one.at < snapshot), key=lambda one: (one.at, one.sequence, one.number)
        ):
            newest[one.key] = one
        for one in newest.values():
            if one.value:
                found[snapshot, one.key, one.value, one.at, f"orders:t:0:{one.number}:0"] += 1
        snapshot += every
    return found


class Snapshots:
    """The archive of the snapshots, and what has come of the table's records so far."""

    def __init__(self, records: list[Record], every: timedelta, parts: int, earliest: datetime = LONG_AGO) -> None:
        self.earliest = earliest
        self.records, self.every, self.parts, self.plan = records, every, parts, plan_of(every)
        self.archive: list[tuple[Any, ...]] = []
        self.null_keys = 0

    def step(self, after: int, up_to: int, before: datetime | None, now: datetime | None) -> None:
        last, taken = (clock and floor(clock, self.every) for clock in (before, now))
        fresh = [one.at for one in self.records if after < one.sequence <= up_to and one.at >= self.earliest]
        late = min((time for time in fresh if last is not None and time < last), default=None)
        times = Times(last, taken, late and floor(late, self.every))
        if not (times.takes_some or times.changed_after):
            return
        first = times.changed_after or last or BEGIN
        end = taken if times.takes_some else last
        assert end
        come = []
        for number in range(self.parts):
            with connect() as connection:
                part = Part(number, self.parts)
                earlier = ArchiveColumns("", {}, {name: name for name in EARLIER}, EARLIER)
                taker = SnapshotTaker(connection, self.plan, earlier, (after, up_to), part)
                archived = Archived(
                    self.events(first, end, up_to), self.rejected(), self.earlier({last, times.changed_after})
                )
                for rows in taker.take(archived, times):
                    come += rows.to_pylist()
                self.null_keys += taker.count_null_keys(times)
        self.archive += [
            (row[SNAPSHOT_TIME], row[KEY_FIELD], row["value"], row[TIME], row[SNAPSHOT_ROW], row[TAKEN_BACK])
            for row in come
        ]
        for row in come:
            assert row[AT] == (row[SNAPSHOT_TIME] - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) - 1

    @property
    def standing(self) -> Counter[tuple[Any, ...]]:
        """The rows that count: those that were not taken back."""
        came = Counter(row[:-1] for row in self.archive if not row[-1])
        back = Counter(row[:-1] for row in self.archive if row[-1])
        assert not back - came
        assert max([*came.values(), *back.values()], default=1) == 1, "each row comes once, and is taken back once"
        return came - back

    def events(self, first: datetime, end: datetime, up_to: int) -> Iterator[pa.Table]:
        hours = [one for one in self.records if one.value is not None and one.sequence <= up_to]
        chosen = [one for one in hours if first <= one.at < end]
        for begin in range(0, len(chosen), 3):
            rows = [
                (
                    *(one.sequence, one.at, False, one.at.replace(minute=0), "t", 0, one.number, 0),
                    {"key": one.key and one.key.encode(), "arrived": one.at},
                    one.value,
                )
                for one in chosen[begin : begin + 3]
            ]
            yield table_of(rows, TABLE)

    def rejected(self) -> Iterator[pa.Table]:
        """All rejected records: tombstones, also later ones, and another one."""
        arrived = BEGIN + timedelta(hours=3)
        tombstones = [
            (
                one.sequence,
                "t",
                0,
                one.number,
                one.key and one.key.encode(),
                TOMBSTONE,
                BEGIN + timedelta(minutes=one.minutes),
                arrived,
            )
            for one in self.records
            if one.value is None
        ]
        yield table_of([*tombstones, (1, "t", 0, 9, b"a", "0123456789ab", BEGIN, arrived)], REJECTED)

    def earlier(self, snapshots: set[datetime | None]) -> Iterator[pa.Table]:
        """Whole hours of the archive."""
        hours = {time - timedelta(hours=1) for time in snapshots if time}
        rows = [
            (hour, 1, row[4], row[3], row[1], row[2])
            for row in self.archive
            if (hour := (row[0] - timedelta(microseconds=1)).replace(minute=0, second=0, microsecond=0)) in hours
        ]
        yield table_of(rows, EARLIER)


def table_of(rows: list[tuple[Any, ...]], types: dict[str, Any]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(types)
    return pa.table([pa.array(values, of) for values, of in zip(columns, types.values(), strict=True)], names=[*types])


records = st.lists(
    st.tuples(
        st.integers(0, 600) | st.sampled_from([10, 60, 119, 120]),
        st.none() | st.sampled_from("abc"),
        st.none() | st.integers(0, 3),
    ),
    max_size=14,
)


@settings(max_examples=examples(60))
@given(
    records,
    st.lists(st.integers(1, 4), min_size=14, max_size=14),
    st.lists(st.integers(0, 200), min_size=14, max_size=14),
    st.sampled_from([1, 2]),
    st.integers(1, 3),
)
@example([(10, "a", 1), (500, "b", 1), (20, "a", 2), (130, "a", None)], [1] * 14, [30, 500, 0, 0] + [0] * 10, 1, 1)
@example([(59, "a", 1), (60, "a", 0), (119, "a", 3), (60, "a", 2)], [2] * 14, [200] * 14, 1, 1)
def test_each_snapshot_has_the_newest_row_of_each_key(
    drawn: list[tuple[int, str | None, int | None]], sizes: list[int], clocks: list[int], hours: int, parts: int
) -> None:
    sequences = [number for number, size in enumerate(sizes, 1) for _ in range(size)]
    sent = [Record(s, *one, n) for n, (s, one) in enumerate(zip(sequences, drawn, strict=False), 100)]
    check_each_step(sent, clocks, timedelta(hours=hours), parts)


def check_each_step(
    sent: list[Record], clocks: list[int], every: timedelta = timedelta(hours=1), parts: int = 1
) -> None:
    """Compare with the oracle after each micro-batch. ``clocks`` are the minutes by which each of them moves the clock."""
    snapshots, clock = Snapshots(sent, every, parts), None
    for sequence in sorted({one.sequence for one in sent}):
        now = (clock or BEGIN) + timedelta(minutes=clocks[sequence - 1])
        snapshots.step(sequence - 1, sequence, clock, now)
        clock = now
        assert snapshots.standing == oracle(sent, every, sequence, clock)
    decided = [
        one for one in sent if one.key is None and one.value is not None and clock and one.at < floor(clock, every)
    ]
    assert snapshots.null_keys == len(decided)


@pytest.mark.parametrize("value", [0, None])
def test_a_row_that_a_late_event_deletes_is_in_no_later_snapshot(value: int | None) -> None:
    sent = [Record(1, 10, "a", 1, 100), Record(2, 70, "a", value, 101), Record(3, 200, "b", 1, 102)]
    check_each_step(sent, [130, 0, 170])


def test_a_tombstone_before_the_event_that_is_the_row_deletes_nothing() -> None:
    sent = [Record(1, 10, "a", None, 100), Record(1, 10, "a", 1, 101), Record(2, 170, "a", 2, 102)]
    check_each_step(sent, [300, 0])


def test_a_tombstone_before_the_earliest_event_that_is_allowed_deletes_nothing() -> None:
    """It changes no snapshot, so the row is that of the last one."""
    sent = [Record(1, 10, "a", 1, 100), Record(2, -900, "a", None, 101), Record(3, 150, "b", 1, 102)]
    snapshots, hours = Snapshots(sent, timedelta(hours=1), 1, earliest=BEGIN), timedelta(hours=1)
    snapshots.step(0, 1, None, BEGIN + 2 * hours)
    snapshots.step(1, 2, BEGIN + 2 * hours, BEGIN + 3 * hours)
    assert snapshots.standing == oracle(sent, snapshots.every, 1, BEGIN + 3 * hours)


def test_of_events_with_the_same_time_the_last_one_to_arrive_is_the_row() -> None:
    sent = [Record(sequence, 10, "a", value, 99 + value) for sequence, value in ((1, 1), (1, 2), (2, 3))]
    check_each_step(sent, [130, 0])


def test_the_last_moment_of_an_hour_is_in_its_snapshot_and_the_next_one_is_not() -> None:
    sent = [Record(1, 59, "a", 1, 100), Record(1, 60, "b", 1, 101)]
    snapshots = Snapshots(sent, timedelta(hours=1), 1)
    snapshots.step(0, 1, None, BEGIN + timedelta(hours=1))
    assert [(row[0], row[1]) for row in snapshots.archive] == [(BEGIN + timedelta(hours=1), "a")]


@pytest.mark.parametrize(("time", "last"), [(0, 0), (59, 0), (60, 60), (121, 120)])
def test_a_snapshot_is_taken_at_whole_hours(time: int, last: int) -> None:
    assert floor(BEGIN + timedelta(minutes=time), timedelta(hours=1)) == BEGIN + timedelta(minutes=last)


def test_a_key_of_several_fields_and_times_before_1970_are_as_any() -> None:
    """The columns have the names of Hourline's own ones elsewhere."""
    new_year = datetime(1969, 1, 1, tzinfo=UTC)
    columns = {SEQUENCE: pa.int64(), EVENT_TIME: TIMESTAMP, DUPLICATE: pa.bool_(), HOUR: TIMESTAMP, **ADDRESS_TYPES}
    columns |= {"side": pa.int32(), "day": pa.date32(), "at": pa.string(), "address": pa.int64()}
    table = ArchiveColumns("", {}, {name: name for name in columns}, columns)
    day = timedelta(days=1)
    plan = SnapshotPlan("orders", table, "", AHEAD, None, None, ["side", "day"], ["at", "address"], TIME, None, day)
    earlier = ArchiveColumns("", {}, {}, {HOUR: TIMESTAMP, TIME: TIMESTAMP, SNAPSHOT_ROW: pa.string(), **columns})
    rows = [
        (1, new_year + timedelta(hours=hours), False, new_year, "t", 0, number, 0, side, of_day, at, 5)
        for number, (hours, side, of_day, at) in enumerate(
            [
                (30, 1, new_year.date(), "a"),
                (50, 1, new_year.date(), "b"),
                (3, 1, None, "c"),
                (20, 2, new_year.date(), "d"),
            ]
        )
    ]
    with connect() as connection:
        taker = SnapshotTaker(connection, plan, earlier, (0, 1))
        times = Times(None, new_year + 3 * day)
        taken = pa.concat_tables(taker.take(Archived([table_of(rows, columns)], [], []), times))
        assert taker.count_null_keys(times) == 1
    found = [(row[SNAPSHOT_TIME] - new_year, row["side"], row["at"], row["address"]) for row in taken.to_pylist()]
    assert found == [
        (day, 2, "d", 5),
        (2 * day, 1, "a", 5),
        (2 * day, 2, "d", 5),
        (3 * day, 1, "b", 5),
        (3 * day, 2, "d", 5),
    ]
