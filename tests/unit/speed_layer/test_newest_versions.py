"""The newest versions of the keys of a table, beside a pass over all versions for each of them."""

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
from hourline_core.model.table import KEY_FIELD
from hourline_core.model.upsert import UPSERT_ROW
from speed_layer.derived.read_events import ADDRESS
from speed_layer.derived.rows import AT, Part
from speed_layer.tables.plan import ArchiveColumns
from speed_layer.upserts.newest_versions import Archived, VersionFinder
from speed_layer.upserts.plan import UpsertPlan
from tests.support.examples import examples
from tests.unit.speed_layer.test_snapshot_rows import ADDRESS_TYPES, REJECTED, table_of

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
TIME = "payments_event_time"
AHEAD = timedelta(minutes=30)
ARRIVED = BEGIN + timedelta(hours=9)
TABLE = {
    SEQUENCE: pa.int64(),
    EVENT_TIME: TIMESTAMP,
    DUPLICATE: pa.bool_(),
    HOUR: TIMESTAMP,
    **ADDRESS_TYPES,
    RECORD: pa.struct({"key": pa.binary(), "arrived": TIMESTAMP}),
    "revision": pa.int64(),
    "value": pa.int64(),
}


class Record(NamedTuple):
    """A record of the table. Without a value, it is a tombstone; a value of 0 deletes the row, too."""

    sequence: int
    minutes: int
    key: str | None
    revision: int | None
    value: int | None
    number: int

    @property
    def at(self) -> datetime:
        at = BEGIN + timedelta(minutes=self.minutes)
        return at if self.value is not None else min(at, ARRIVED + AHEAD)

    def comes_after(self, other: "Record") -> bool:
        """A record that a reset reads again has a later sequence, and its place in the partition."""
        return self.sequence > other.sequence or self.number > other.number

    @property
    def rank(self) -> tuple[bool, int, int, int]:
        """Greater for newer versions. Of equal ones, the first to arrive is the newest."""
        return self.revision is not None, self.revision or 0, -self.sequence, -self.number


def oracle(records: list[Record], within: timedelta, up_to: int) -> Counter[tuple[Any, ...]]:
    """The versions that count, each by a pass over all of its key."""
    known = [one for one in records if one.sequence <= up_to and one.key is not None]
    return Counter(
        (one.at, one.key, one.value, f"payments:t:0:{one.number}:0")
        for one in known
        if one.value
        and not any(
            other.comes_after(one) if other.value is None else other.rank > one.rank
            for other in known
            if other.key == one.key and abs(other.at - one.at) <= within
        )
    )


class Upserts:
    """The archive of the upsert, after each micro-batch."""

    def __init__(self, records: list[Record], within: timedelta, parts: int = 1) -> None:
        table = ArchiveColumns("", {}, {name: name for name in TABLE}, TABLE)
        self.plan = UpsertPlan(
            "payments", table, "", AHEAD, None, "string", [KEY_FIELD], ["value"], TIME, '"value" = 0', "revision", within
        )  # fmt: skip
        self.records, self.parts = records, parts
        self.archive: list[tuple[Any, ...]] = []
        self.null_keys = 0

    def step(self, after: int, up_to: int) -> None:
        """All that is earlier is read: what is read of it, tests of the step say."""
        for number in range(self.parts):
            with connect() as connection:
                finder = VersionFinder(connection, self.plan, (after, up_to), Part(number, self.parts))
                archived = Archived(self.events(after, up_to), self.rejected(), self.events(0, after), self.rejected())
                rows = [row for found in finder.find(archived) for row in found.to_pylist()]
                self.null_keys += finder.count_null_keys()
            for row in rows:
                assert row[AT] == (row[TIME] - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
                self.archive.append((row[TIME], row[KEY_FIELD], row["value"], row[UPSERT_ROW], row[TAKEN_BACK]))

    @property
    def standing(self) -> Counter[tuple[Any, ...]]:
        """The versions that count: those that were not taken back."""
        came = Counter(row[:-1] for row in self.archive if not row[-1])
        back = Counter(row[:-1] for row in self.archive if row[-1])
        assert not back - came
        assert max([*came.values(), *back.values()], default=1) == 1, "each comes once, and is taken back once"
        return came - back

    def events(self, after: int, up_to: int) -> Iterator[pa.Table]:
        chosen = [one for one in self.records if one.value is not None and after < one.sequence <= up_to]
        for begin in range(0, len(chosen), 3):
            yield table_of(
                [
                    (
                        *(one.sequence, one.at, False, one.at.replace(minute=0), "t", 0, one.number, 0),
                        {"key": one.key and one.key.encode(), "arrived": ARRIVED},
                        one.revision,
                        one.value,
                    )
                    for one in chosen[begin : begin + 3]
                ],
                TABLE,
            )

    def rejected(self) -> Iterator[pa.Table]:
        """All rejected records: tombstones, also later ones, and another one."""
        tombstones = [
            (one.sequence, "t", 0, one.number, one.key and one.key.encode(), TOMBSTONE, at, ARRIVED)
            for one in self.records
            if one.value is None
            for at in [BEGIN + timedelta(minutes=one.minutes)]
        ]
        yield table_of([*tombstones, (1, "t", 0, 9, b"a", "0123456789ab", BEGIN, ARRIVED)], REJECTED)


records = st.lists(
    st.tuples(
        st.integers(0, 600) | st.sampled_from([0, 60, 120, 180]),
        st.none() | st.sampled_from("aab"),
        st.none() | st.integers(1, 4),
        st.none() | st.integers(0, 3),
    ),
    max_size=14,
)


@given(
    records,
    st.lists(st.integers(1, 4), min_size=14, max_size=14),
    st.sampled_from([1, 60, 120, 1000]),
    st.integers(1, 3),
    st.sets(st.integers(100, 113)),
)
@example([(0, "a", 1, 1), (120, "a", 3, 1), (60, "a", 2, 1)], [1] * 14, 60, 1, set())
@example([(0, "a", 2, 1), (60, "a", None, None), (0, "a", 1, 2), (60, "a", 3, 2)], [1] * 14, 60, 1, set())
@example([(0, "a", 1, 1), (0, "a", 1, 2), (0, "a", 2, 0), (0, "a", 2, 1)], [1] * 14, 1, 1, set())
@example([(0, "a", 1, 1), (0, "a", None, None), (0, "a", 1, 2)], [1] * 14, 1, 1, {100, 102})
@settings(max_examples=examples(60))
def test_after_each_step_the_newest_versions_count(
    drawn: list[tuple[int, str | None, int | None, int | None]],
    sizes: list[int],
    minutes: int,
    parts: int,
    anew: set[int],
) -> None:
    """Events with the numbers ``anew`` are rejected at first, and read again by a reset."""
    sequences = [number for number, size in enumerate(sizes, 1) for _ in range(size)]
    sent = [
        Record(s + (20 if n in anew and one[-1] is not None else 0), *one, n)
        for n, (s, one) in enumerate(zip(sequences, drawn, strict=False), 100)
    ]
    check_each_step(sent, timedelta(minutes=minutes), parts)


def check_each_step(sent: list[Record], within: timedelta = timedelta(hours=1), parts: int = 1) -> Upserts:
    upserts = Upserts(sent, within, parts)
    for sequence in sorted({one.sequence for one in sent}):
        upserts.step(sequence - 1, sequence)
        assert upserts.standing == oracle(sent, within, sequence)
    assert upserts.null_keys == sum(one.key is None and one.value is not None for one in sent)
    return upserts


def test_the_same_version_again_changes_nothing() -> None:
    upserts = check_each_step([Record(1, 10, "a", 1, 5, 100), Record(2, 10, "a", 1, 5, 101)])
    assert [row[-1] for row in upserts.archive] == [False]


def test_of_versions_in_one_micro_batch_only_the_newest_comes() -> None:
    upserts = check_each_step([Record(1, 10, "a", number, number, 99 + number) for number in (3, 1, 2)])
    assert [row[2] for row in upserts.archive] == [3]


@pytest.mark.parametrize(("minutes", "values"), [(60, [2]), (61, [1, 2])])
def test_a_version_replaces_one_up_to_the_distance_away(minutes: int, values: list[int]) -> None:
    upserts = check_each_step([Record(1, 0, "a", 1, 1, 100), Record(2, minutes, "a", 2, 2, 101)])
    assert sorted(row[2] for row in upserts.standing) == values


def test_a_tombstone_deletes_what_came_before_it_and_a_newer_version_counts_again() -> None:
    sent = [
        Record(1, 0, "a", 2, 1, 100),
        Record(2, 10, "a", None, None, 101),
        Record(3, 0, "a", 1, 2, 102),
        Record(4, 0, "a", 3, 3, 103),
    ]
    upserts = check_each_step(sent)
    assert [row[2] for row in upserts.standing] == [3]


def test_a_version_that_a_reset_reads_again_stays_deleted() -> None:
    sent = [Record(1, 10, "a", None, None, 101), Record(9, 5, "a", 1, 7, 100)]
    assert not check_each_step(sent).archive


def test_a_tombstone_of_next_year_counts_when_it_arrives() -> None:
    sent = [Record(1, 540, "a", 1, 1, 100), Record(2, 500_000, "a", None, None, 101)]
    assert not check_each_step(sent).standing


def test_many_versions_of_one_key_are_ranked_in_order() -> None:
    """Not each beside each other one."""
    size = 30_000
    rows = pa.table(
        {
            SEQUENCE: pa.array([1] * size, pa.int64()),
            EVENT_TIME: pa.array([BEGIN] * size, TIMESTAMP),
            DUPLICATE: pa.array([False] * size),
            HOUR: pa.array([BEGIN] * size, TIMESTAMP),
            **{name: pa.array(["t"] * size if of == pa.string() else [0] * size, of) for name, of in ADDRESS_TYPES.items()},
            ADDRESS[2]: pa.array(range(size), pa.int64()),
            RECORD: pa.array([{"key": b"a", "arrived": ARRIVED}] * size, TABLE[RECORD]),
            "revision": pa.array(range(size), pa.int64()),
            "value": pa.array(range(size), pa.int64()),
        }
    )  # fmt: skip
    with connect() as connection:
        finder = VersionFinder(connection, Upserts([], timedelta(hours=1)).plan, (0, 1))
        found = pa.concat_tables(finder.find(Archived([rows], [], [], [])))
    assert found["value"].to_pylist() == [size - 1]
