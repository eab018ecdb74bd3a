"""The join of new and archived events of two inputs, beside nested loops over all events; also of those without a partner."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hourline_core.compute.worker_database import connect
from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.model.join import UNMATCHED
from hourline_core.model.scratch_columns import DUPLICATE, EVENT_TIME, HOUR, SEQUENCE, TAKEN_BACK
from speed_layer.derived.passed import Passed
from speed_layer.derived.read_events import ADDRESS
from speed_layer.derived.rows import AT, INPUT_SEQUENCE, SIDE, Part
from speed_layer.joins.join_rows import Joiner
from speed_layer.joins.plan import JoinPlan, SidePlan
from tests.support.examples import examples

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
COLUMNS = {
    SEQUENCE: pa.int64(),
    EVENT_TIME: TIMESTAMP,
    DUPLICATE: pa.bool_(),
    HOUR: TIMESTAMP,
    **dict(zip(ADDRESS, (pa.string(), pa.int32(), pa.int64(), pa.int32()), strict=True)),
    "k": pa.int64(),
    "i": pa.string(),
    "v": pa.int64(),
}


class Event(NamedTuple):
    """An event of an input. Its number, which is unique in the input, is its offset."""

    sequence: int
    minutes: int
    key: int | None
    identity: str | None
    value: int
    number: int

    @property
    def at(self) -> datetime:
        return BEGIN + timedelta(minutes=self.minutes)

    @property
    def hour(self) -> datetime:
        return self.at.replace(minute=0)


@dataclass
class Held:
    """The events of an input in memory, as a ``Side``. Duplicates that the speed layer recognised are marked."""

    events: Sequence[Event]
    after: int
    up_to: int
    recognised: frozenset[int] = frozenset()
    asked: list[str] = field(default_factory=list)

    def new(self) -> Iterator[pa.Table]:
        return self._tables(lambda event: self.after < event.sequence <= self.up_to)

    def near(self) -> Iterator[pa.Table]:
        return self._tables(lambda event: event.sequence <= self.after)

    def far(self) -> Iterator[pa.Table]:
        return self.near()

    def identities(self) -> Iterator[pa.Table]:
        return self._tables(lambda event: event.sequence <= self.up_to)

    def _tables(self, chosen) -> Iterator[pa.Table]:  # type: ignore[no-untyped-def]
        events = [event for event in self.events if chosen(event)]
        for first in range(0, len(events), 3):
            rows = [
                (e.sequence, e.at, e.number in self.recognised, e.hour, "t", 0, e.number, 0, e.key, e.identity, e.value)
                for e in events[first : first + 3]
            ]
            columns = zip(*rows, strict=True)
            yield pa.table([pa.array(c, t) for c, t in zip(columns, COLUMNS.values(), strict=True)], names=[*COLUMNS])


def side(name: str, *, identity: bool, where: bool, itself: bool = False) -> SidePlan:
    columns = {column: column for column in COLUMNS}
    return SidePlan(
        "both" if itself else name, name, "", {}, columns, columns, COLUMNS, ["k"], '"i"' if identity else None, '("v" > 0)' if where else None,
        {f"{name}_v": "v", f"{name}_at": EVENT_TIME},
    )  # fmt: skip


events = st.lists(
    st.tuples(
        st.integers(0, 200),
        st.none() | st.integers(1, 3),
        st.none() | st.sampled_from("ab"),
        st.integers(0, 3),
    ),
    max_size=12,
)
may_be_one_source = st.sampled_from([False, False, True])
sizes = st.lists(st.integers(1, 4), min_size=12, max_size=12)


def arrived(drawn: list[tuple[int, int | None, str | None, int]], batches: list[int]) -> list[Event]:
    """The events in the order in which they arrive, in micro-batches of these sizes."""
    sequences = [number for number, size in enumerate(batches, 1) for _ in range(size)]
    return [
        Event(sequence, *event, number)
        for number, (sequence, event) in enumerate(zip(sequences, drawn, strict=False), start=100)
    ]


def two_sides(left: list[Event], right: list[Event], *, itself: bool) -> tuple[list[Event], list[Event]]:
    """The events of both inputs, which are those of ``left`` if a source is joined with itself."""
    return (left, left) if itself else (left, right)


def up_to_after(read: tuple[int, int], step: Sequence[int], *, itself: bool) -> tuple[int, int]:
    """The sequences up to which both inputs are read after a step: the same ones of one source."""
    return (read[0] + step[0], (read[0] + step[0]) if itself else (read[1] + step[1]))


def counting(held: list[Event], *, identity: bool, where: bool) -> list[Event]:
    """Those that count, as a recompute decides it."""
    firsts: dict[tuple[str, datetime], int] = {}
    for event in held:  # They are in the order of sequence and address.
        if event.identity is not None:
            firsts.setdefault((event.identity, event.hour), event.number)
    return [
        event
        for event in held
        if (not identity or event.identity is None or firsts[event.identity, event.hour] == event.number)
        and (not where or event.value > 0)
    ]


@settings(max_examples=examples(60))
@given(
    left=events,
    right=events,
    of_left=sizes,
    of_right=sizes,
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6),
    before=st.integers(0, 90),
    after=st.integers(0, 90),
    parts=st.integers(1, 3),
    identity=st.booleans(),
    where=st.booleans(),
    recognises=st.booleans(),
    itself=may_be_one_source,
    timed_by=st.sampled_from([(False, False), (True, False), (False, True)]),
)
def test_each_pair_is_joined_once_in_whatever_order_both_sides_come(  # type: ignore[no-untyped-def]
    left, right, of_left, of_right, steps, before, after, parts, identity, where, recognises, itself, timed_by
) -> None:
    both = two_sides(arrived(left, of_left), arrived(right, of_right), itself=itself)
    counted = [counting(held, identity=identity, where=where) for held in both]
    plans = [side(name, identity=identity, where=where, itself=itself) for name in "lr"]
    plan = JoinPlan(
        (plans[0], plans[1]),
        ["l_v", "l_at", "r_v", "r_at"],
        timedelta(minutes=before),
        timedelta(minutes=after),
        timed_by=timed_by,
    )
    wanted = sorted(
        (
            one.at if timed_by[0] else other.at if timed_by[1] else max(one.at, other.at),
            one.value,
            one.at,
            other.value,
            other.at,
        )
        for one, other in product(*counted)
        if one.key is not None
        and one.key == other.key
        and one.at - timedelta(minutes=before) <= other.at <= one.at + timedelta(minutes=after)
        and not (itself and one.number == other.number)
    )
    # The speed layer recognises duplicates, or leaves them to the recompute.
    firsts = [{event.number for event in counting(held, identity=identity, where=False)} for held in both]
    recognised = [
        frozenset(event.number for event in held if event.number not in of) if recognises else frozenset[int]()
        for held, of in zip(both, firsts, strict=True)
    ]
    found, nulls, read = [], 0, (0, 0)
    for step in [*steps, (12, 12)]:
        up_to = up_to_after(read, step, itself=itself)
        for number in range(parts):
            one, other = (Held(both[n], read[n], up_to[n], recognised[n]) for n in (0, 1))
            joined = Joiner(connect(), plan, Part(number, parts)).join(one, other, Passed())
            nulls += sum(sum(of.values()) for of in joined.null_keys)
            for row in [row for table in joined.pairs for row in table.to_pylist()]:
                assert read[row[SIDE]] < row[INPUT_SEQUENCE] <= up_to[row[SIDE]]
                at = datetime.fromtimestamp(row[AT] / 1_000_000, UTC)
                found.append((at, row["l_v"], row["l_at"], row["r_v"], row["r_at"]))
        read = up_to
    assert sorted(found) == wanted
    if not identity:
        assert nulls == sum(event.key is None for of in counted[: 1 if itself else 2] for event in of)


def rows_of(tables: Iterator[pa.Table]) -> list[dict[str, Any]]:
    return [row for table in tables for row in table.to_pylist()]


@settings(max_examples=examples(60))
@given(
    left=events,
    right=events,
    of_left=sizes,
    of_right=sizes,
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 90)), max_size=6),
    first=st.none() | st.integers(0, 200),
    before=st.integers(0, 90),
    after=st.integers(0, 90),
    parts=st.integers(1, 3),
    identity=st.booleans(),
    where=st.booleans(),
    full=st.booleans(),
    itself=may_be_one_source,
)
def test_after_each_step_the_events_without_a_partner_are_those_that_the_clock_has_passed(  # type: ignore[no-untyped-def]
    left, right, of_left, of_right, steps, first, before, after, parts, identity, where, full, itself
) -> None:
    both = two_sides(arrived(left, of_left), arrived(right, of_right), itself=itself)
    counted = [counting(held, identity=identity, where=where) for held in both]
    plans = [side(name, identity=identity, where=where, itself=itself) for name in "lr"]
    plan = JoinPlan(
        (plans[0], plans[1]),
        ["l_v", "l_at", "r_v", "r_at", UNMATCHED],
        timedelta(minutes=before),
        timedelta(minutes=after),
        (True, full),
    )

    def are_partners(one: Event, other: Event) -> bool:
        within = one.minutes - before <= other.minutes <= one.minutes + after
        itself_again = itself and one.number == other.number
        return one.key is not None and one.key == other.key and within and not itself_again

    balance, told, read, clock = Counter[str](), Counter[tuple[str, bool]](), (0, 0), None
    for *step, further in [*steps, (12, 12, 0)]:
        up_to = up_to_after(read, step, itself=itself)
        now = (first if clock is None else clock + further) if all(up_to) else None
        passed = Passed(*(None if m is None else BEGIN + timedelta(minutes=m) for m in (clock, now)))
        for number in range(parts):
            one, other = (Held(both[n], read[n], up_to[n]) for n in (0, 1))
            joined = Joiner(connect(), plan, Part(number, parts)).join(one, other, passed)
            pairs, unmatched = rows_of(joined.pairs), rows_of(joined.changes)
            balance.update(f"{row['l_v']} {row['l_at']} {row['r_v']} {row['r_at']}" for row in pairs)
            for row in unmatched:
                told[row[UNMATCHED], row[TAKEN_BACK]] += 1
                balance[row[UNMATCHED]] += -1 if row[TAKEN_BACK] else 1
                of = next(
                    e
                    for n, e in [(0, e) for e in both[0]] + [(1, e) for e in both[1]]
                    if row[UNMATCHED] == f"{'lr'[n]}:t:0:{e.number}:0"
                )
                assert row[AT] == (of.at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
                assert of.value in (row.get("l_v"), row.get("r_v"))
            assert not joined.null_keys[0]
            assert not (joined.null_keys[1] and (full or itself))
        read, clock = up_to, now if now is not None else clock
        there = [[event for event in of if event.sequence <= up_to[n]] for n, of in enumerate(counted)]
        wanted = Counter(
            f"{one.value} {one.at} {other.value} {other.at}"
            for one, other in product(*there)
            if are_partners(one, other)
        )
        for n, sign in enumerate("lr"[: 1 + full]):
            for event in there[n]:
                met = any(are_partners(*((event, o) if n == 0 else (o, event))) for o in there[1 - n])
                if not met and clock is not None and event.minutes < clock:
                    wanted[f"{sign}:t:0:{event.number}:0"] += 1
        assert +balance == wanted
        assert not -balance
    assert max(told.values(), default=1) == 1


def test_an_event_is_taken_back_by_its_first_partner_alone() -> None:
    orders = [Event(1, 0, 1, None, 7, 100)]
    payments = [Event(sequence, 0, 1, None, sequence, 100 + sequence) for sequence in (2, 3)]
    plan = JoinPlan(
        (side("l", identity=False, where=False), side("r", identity=False, where=False)),
        ["l_v", "r_v", UNMATCHED], timedelta(hours=1), timedelta(hours=1), (True, False),
    )  # fmt: skip
    passed = Passed(BEGIN + timedelta(minutes=1), BEGIN + timedelta(minutes=1))
    taken_back, pairs = [], []
    for step in (2, 3):
        joined = Joiner(connect(), plan).join(Held(orders, 1, 1), Held(payments, step - 1, step), passed)
        pairs += [(row["l_v"], row["r_v"]) for row in rows_of(joined.pairs)]
        taken_back += [(step, row[TAKEN_BACK]) for row in rows_of(joined.changes)]
    assert pairs == [(7, 2), (7, 3)]
    assert taken_back == [(2, True)]


def test_a_source_may_meet_itself_by_another_field_of_it() -> None:
    # The key of the left side is `k`, and that of the right one is `v`.
    keys = [(1, 2), (2, 1), (2, 2), (None, 1), (None, 3)]
    held = arrived([(0, key, None, value) for key, value in keys], [2] * 12)
    left, right = (side(name, identity=False, where=False, itself=True) for name in "lr")
    plan = JoinPlan(
        (left, replace(right, key=["v"])), ["l_v", "r_v", UNMATCHED], timedelta(0), timedelta(0), (False, True)
    )
    passed = Passed(None, BEGIN + timedelta(minutes=1))
    joined = Joiner(connect(), plan).join(Held(held, 0, 3), Held(held, 0, 3), passed)
    pairs = sorted((row["l_v"], row["r_v"]) for row in rows_of(joined.pairs))
    # That of keys 2 and 2 is no partner of itself, and those without a left key are partners by their right one.
    assert pairs == [(1, 2), (1, 2), (2, 1), (2, 1), (2, 2)]
    assert joined.null_keys == ({2: 1, 3: 1}, {})
    assert [row["r_v"] for row in rows_of(joined.changes)] == [3]
    other_way = replace(plan, sides=(replace(left, key=["v"]), right), outer=(False, False))
    joined = Joiner(connect(), other_way).join(Held(held, 0, 3), Held(held, 0, 3), passed)
    assert joined.null_keys == ({}, {2: 1, 3: 1})


def test_the_same_pairs_come_in_the_same_order_each_time() -> None:
    both = [arrived([(n, 1, None, n) for n in range(12)], [3] * 12) for _ in "lr"]
    plan = JoinPlan(
        (side("l", identity=False, where=False), side("r", identity=False, where=False)),
        ["l_v", "r_v"], timedelta(hours=1), timedelta(hours=1),
    )  # fmt: skip

    def pairs() -> list[dict[str, int]]:
        one, other = (Held(held, 2, 4) for held in both)
        joined = Joiner(connect(), plan).join(one, other, Passed())
        return [row for table in joined.pairs for row in table.to_pylist()]

    once = pairs()
    assert len(once) == 12 * 12 - 6 * 6
    assert pairs() == once
    assert [(row[SIDE], row[INPUT_SEQUENCE]) for row in once] == sorted(
        (row[SIDE], row[INPUT_SEQUENCE]) for row in once
    )
