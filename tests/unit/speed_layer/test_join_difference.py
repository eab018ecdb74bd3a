"""Joins of events that may be taken back, beside nested loops over those that stand."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hourline_core.compute.worker_database import connect
from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.model.join import JOINED_ROW, UNMATCHED
from hourline_core.model.scratch_columns import DUPLICATE, EVENT_TIME, HOUR, SEQUENCE, TAKEN_BACK
from speed_layer.derived.passed import Passed
from speed_layer.derived.read_events import ADDRESS
from speed_layer.derived.rows import AT, Part
from speed_layer.joins.difference import DifferenceJoiner
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
    "row": pa.string(),
    "w": pa.int64(),
    "v": pa.int64(),
}


class Kind(NamedTuple):
    """What an input declares. One that never takes an event back may have an ``id``."""

    taken_back: bool
    identity: bool = False
    where: bool = False
    recognises: bool = False
    """Whether the speed layer recognised the duplicates of an id, or left them to the recompute."""


class Event(NamedTuple):
    """An event of an input, and the sequence that takes it back. Its row tells an event that may be from others. It is
    the ``id`` of other events.
    """

    sequence: int
    minutes: int
    key: int | None
    row: str | None
    gone: int | None
    number: int
    weight: int | None = 1

    @property
    def at(self) -> datetime:
        return BEGIN + timedelta(minutes=self.minutes)

    @property
    def hour(self) -> datetime:
        return self.at.replace(minute=0)

    def stands(self, sequence: int) -> bool:
        return self.sequence <= sequence and (self.gone is None or self.gone > sequence)


@dataclass
class Held:
    """The archive of an input, as a ``Side``. An event that is taken back has a second row, and a duplicate that was
    recognised is marked.
    """

    events: list[Event]
    after: int
    up_to: int
    recognised: frozenset[int]

    def new(self) -> Iterator[pa.Table]:
        return self._rows(self.after, self.up_to)

    def near(self) -> Iterator[pa.Table]:
        return self._rows(0, self.after)

    def far(self) -> Iterator[pa.Table]:
        return self._rows(0, self.after)

    def identities(self) -> Iterator[pa.Table]:
        return self._rows(0, self.up_to)

    def _rows(self, after: int, up_to: int) -> Iterator[pa.Table]:
        for event in self.events:
            for sequence, back in ((event.sequence, False), (event.gone, True)):
                if sequence is not None and after < sequence <= up_to:
                    duplicate, place = back or event.number in self.recognised, (event.number, int(back))
                    fields = (event.key, event.row, event.weight, event.number)
                    row = (sequence, event.at, duplicate, event.hour, "t", 0, *place, *fields)
                    columns = zip(row, COLUMNS.values(), strict=True)
                    yield pa.table([pa.array([value], of) for value, of in columns], names=[*COLUMNS])


def side(name: str, kind: Kind) -> SidePlan:
    columns = {column: column for column in COLUMNS}
    where = '("w" > 0)' if kind.where else None
    identity, taken_back = ('"row"' if kind.identity else None), ('"row"' if kind.taken_back else None)
    return SidePlan(
        name, name, "", {}, columns, columns, COLUMNS, ["k"], identity, where, {f"{name}_v": "v"}, None, taken_back
    )  # fmt: skip


Draw = tuple[int, int, int | None, str | None, int | None, int | None]
Step = tuple[int, int, int]

events = st.lists(
    st.tuples(
        st.integers(1, 6),
        st.sampled_from([0, 0, 30, 61]),
        st.sampled_from([1, 1, 1, 1, 2, None]),
        st.sampled_from(["a", "b", "c", None]),
        st.sampled_from([1, 2, 3, 4, None, None]),
        st.sampled_from([1, 1, 1, 0, None]),
    ),
    max_size=6,
)
plain_kinds = st.tuples(st.just(False), st.booleans(), st.booleans(), st.booleans()).map(lambda of: Kind(*of))
taken_back_kinds = st.booleans().map(lambda where: Kind(True, where=where))
two_kinds = st.sampled_from([(True, False), (False, True), (True, True)]).flatmap(
    lambda back: st.tuples(*(taken_back_kinds if one else plain_kinds for one in back))
)
BOTH, LEFT_ALONE = (Kind(True), Kind(True)), (Kind(True), Kind(False))


def archived(drawn: list[Draw], kind: Kind) -> list[Event]:
    """Rows of a table have the same id at other times, as those of snapshots. Other events may repeat an id."""
    if not kind.taken_back:
        return [Event(*one[:4], None, number, one[5]) for number, one in enumerate(drawn, 100)]
    return [
        Event(
            *(sequence, minutes, key),
            row and f"{row}{key}{number // 2}",
            sequence + later if later and row else None,
            number,
            weight,
        )
        for number, (sequence, minutes, key, row, later, weight) in enumerate(
            {(row or number, one[1]): one for number, one in enumerate(drawn) for row in [one[3]]}.values(), 100
        )
    ]


def repeats(events: list[Event], kind: Kind) -> frozenset[int]:
    """The numbers of those that repeat an id in its hour."""
    firsts: dict[tuple[str, datetime], int] = {}
    for event in sorted(events, key=lambda event: (event.sequence, event.number)):
        if kind.identity and event.row is not None:
            firsts.setdefault((event.row, event.hour), event.number)
    return frozenset(
        event.number
        for event in events
        if kind.identity and event.row is not None and firsts[event.row, event.hour] != event.number
    )


def counting(events: list[Event], kind: Kind) -> list[Event]:
    """Those that count in their input, as long as they stand."""
    return [
        event
        for event in events
        if event.number not in repeats(events, kind) and (not kind.where or (event.weight or 0) > 0)
    ]


@settings(max_examples=examples(24))
@given(
    left=events,
    right=events,
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 90)), min_size=3, max_size=6),
    first=st.sampled_from([100, 200, 0, None]),
    before=st.sampled_from([60, 30, 0]),
    after=st.sampled_from([60, 30, 0]),
    parts=st.integers(1, 2),
    outer=st.sampled_from([(True, True), (True, False), (False, True), (False, False)]),
    kinds=two_kinds,
    timed_by=st.sampled_from([(False, False), (True, False), (False, True)]),
)
@example(
    left=[(1, 0, 1, "a", None, 1)], right=[(2, 0, 1, None, None, 1)], steps=[(1, 1, 0), (0, 1, 0)], first=100,
    before=0, after=0, parts=1, outer=(True, False), kinds=LEFT_ALONE, timed_by=(False, False),
)  # fmt: skip
@example(
    left=[(1, 0, 1, "a", 2, 1)], right=[(1, 0, 1, None, None, 1)], steps=[(1, 1, 0), (2, 0, 0)], first=30,
    before=0, after=0, parts=1, outer=(True, False), kinds=LEFT_ALONE, timed_by=(False, False),
)  # fmt: skip
@example(
    left=[(1, 0, 1, "x", None, 1), (2, 30, 1, "x", None, 1)], right=[(2, 0, 1, "a", 2, 1)],
    steps=[(1, 0, 0), (1, 2, 0), (0, 2, 0)], first=100, before=60, after=60, parts=1, outer=(True, False),
    kinds=(Kind(False, identity=True), Kind(True)), timed_by=(False, False),
)  # fmt: skip
def test_after_each_step_what_is_joined_is_what_stands(
    left: list[Draw], right: list[Draw], steps: list[Step], first: int | None, before: int, after: int, parts: int,
    outer: tuple[bool, bool], kinds: tuple[Kind, Kind], timed_by: tuple[bool, bool],
) -> None:  # fmt: skip
    both = (archived(left, kinds[0]), archived(right, kinds[1]))
    check_join(both, steps, first, (before, after), parts, outer, kinds, timed_by)


@settings(max_examples=examples(10))
@given(
    partners=st.lists(st.tuples(st.integers(1, 7), st.integers(1, 3)), min_size=1, max_size=3),
    sizes=st.lists(st.integers(1, 2), min_size=8, max_size=8),
)
@example(partners=[(2, 1), (4, 1)], sizes=[1] * 8)
def test_an_event_comes_without_a_partner_whenever_the_last_one_goes(
    partners: list[tuple[int, int]], sizes: list[int]
) -> None:
    event = [Event(1, 0, 1, "a", None, 100)]
    of_event = [Event(at, 0, 1, f"p{n}", at + later, 200 + n) for n, (at, later) in enumerate(partners)]
    steps = [(size, size, 0) for size in sizes]
    check_join((event, of_event), steps, 100, (0, 0), 1, (True, True), BOTH)


def check_join(
    both: tuple[list[Event], list[Event]], steps: list[Step], first: int | None, within: tuple[int, int], parts: int,
    outer: tuple[bool, bool], kinds: tuple[Kind, Kind], timed_by: tuple[bool, bool] = (False, False),
) -> None:  # fmt: skip
    """Join ``both`` in ``steps``, and all that is left in a last one. A step is how many sequences of each input are
    read, and how many minutes the clock goes on. It shows ``first`` when both inputs are read.
    """
    before, after = within
    plan = JoinPlan(
        (side("l", kinds[0]), side("r", kinds[1])),
        ["l_v", "r_v", JOINED_ROW, *([UNMATCHED] if any(outer) else [])],
        timedelta(minutes=before),
        timedelta(minutes=after),
        outer,
        timed_by,
    )

    def are_partners(one: Event, other: Event) -> bool:
        return one.key is not None and one.key == other.key and -before <= other.minutes - one.minutes <= after

    counted = [counting(of, kind) for of, kind in zip(both, kinds, strict=True)]
    recognised = [
        repeats(of, kind) if kind.recognises else frozenset[int]() for of, kind in zip(both, kinds, strict=True)
    ]
    connection, nulls = connect(), [0, 0]
    came, back, clock, read = Counter[Any](), Counter[Any](), None, (0, 0)
    for *step, further in [*steps, (12, 12, 0)]:
        up_to = (read[0] + step[0], read[1] + step[1])
        now = (first if clock is None else clock + further) if all(up_to) else None
        passed = Passed(*(None if m is None else BEGIN + timedelta(minutes=m) for m in (clock, now)))
        for number in range(parts):
            one, other = (Held(both[n], read[n], up_to[n], recognised[n]) for n in (0, 1))
            joined = DifferenceJoiner(connection, plan, read, Part(number, parts)).join(one, other, passed)
            nulls = [nulls[n] + sum(of.values()) for n, of in enumerate(joined.null_keys)]
            for row in [row for table in joined.changes for row in table.to_pylist()]:
                values = (row.get("l_v"), row.get("r_v"))
                times = {
                    n: (event.at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
                    for n, value in enumerate(values)
                    for event in both[n]
                    if event.number == value
                }
                timed = [at for n, at in times.items() if timed_by[n]]
                assert row[AT] == max(timed or times.values())
                (back if row[TAKEN_BACK] else came)[values, row[JOINED_ROW]] += 1
        read, clock = up_to, now if now is not None else clock
        there = [[event for event in of if event.stands(read[n])] for n, of in enumerate(counted)]
        wanted: set[tuple[int | None, int | None]] = {
            (one.number, other.number) for one, other in product(*there) if are_partners(one, other)
        }
        for n in [n for n in (0, 1) if outer[n]]:
            for event in there[n]:
                met = any(are_partners(*((event, o) if n == 0 else (o, event))) for o in there[1 - n])
                if not met and clock is not None and event.minutes < clock:
                    wanted.add((event.number, None) if n == 0 else (None, event.number))
        assert Counter(values for (values, _) in (came - back).elements()) == Counter(wanted)
        assert not back - came
        # A recompute leaves an id out that comes again in its hour.
        assert max([*came.values(), *back.values()], default=1) == 1
    for n in [n for n in (0, 1) if kinds[n].recognises or not kinds[n].identity]:
        assert nulls[n] == (0 if outer[n] else sum(event.key is None for event in counted[n]))
