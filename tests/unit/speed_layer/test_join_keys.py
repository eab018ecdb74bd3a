"""Keys of two fields, of each type that a key may have, beside nested loops over plain values."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import product
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hourline_core.compute.derived_inputs import translate_key
from hourline_core.compute.worker_database import connect
from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.model import Source
from hourline_core.model.join import KEY_TYPES, UNMATCHED
from hourline_core.model.scratch_columns import DUPLICATE, EVENT_TIME, HOUR, SEQUENCE, TAKEN_BACK
from speed_layer.derived.passed import Passed
from speed_layer.derived.read_events import ADDRESS
from speed_layer.derived.rows import Part
from speed_layer.joins.join_rows import Joiner
from speed_layer.joins.plan import JoinPlan, SidePlan
from tests.support.examples import examples

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
ARROW = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
}
"""By type of a key, that of its column in an archive."""
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
VALUES: dict[str, list[tuple[Any, Any]]] = {
    "string": [("", " "), ("a", "A"), ("a", "a "), ("a", "a\0"), ("é", "e\u0301")],
    "int": [(0, -1), (2**31 - 1, -(2**31))],
    "long": [(2**53, 2**53 + 1), (2**63 - 1, -(2**63))],
    "boolean": [(True, False)],
    "date": [(date(1969, 12, 31), date(1970, 1, 1)), (date(1, 1, 1), date(9999, 12, 31))],
    "timestamp": [(NOON, NOON + timedelta(microseconds=1)), (datetime(1, 1, 1, tzinfo=UTC), NOON)],
}
"""By type of a key, values that are close to each other, or at its ends."""


class Event(NamedTuple):
    """An event of an input. Its number is its offset."""

    sequence: int
    minutes: int
    key: tuple[Any, Any]
    number: int


@dataclass
class Held:
    """The events of an input in memory, as a ``Side``."""

    events: list[Event]
    types: dict[str, pa.DataType]
    after: int
    up_to: int

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
            if after < event.sequence <= up_to:
                at = BEGIN + timedelta(minutes=event.minutes)
                row = (event.sequence, at, False, at.replace(minute=0), "t", 0, event.number, 0, *event.key)
                columns = [pa.array([value], of) for value, of in zip(row, self.types.values(), strict=True)]
                yield pa.table(columns, names=[*self.types])


def side(name: str, types: tuple[str, str]) -> SidePlan:
    source = Source.model_validate(
        {
            "name": name,
            "topic": name,
            "fields": {**{f"k{n}": of for n, of in enumerate(types)}, "at": "timestamp"},
            "event_time": "at",
        }
    )
    keys = [translated.typed_sql for n in (0, 1) if (translated := translate_key(source, f"k{n}"))]
    columns = {
        SEQUENCE: pa.int64(),
        EVENT_TIME: TIMESTAMP,
        DUPLICATE: pa.bool_(),
        HOUR: TIMESTAMP,
        **dict(zip(ADDRESS, (pa.string(), pa.int32(), pa.int64(), pa.int32()), strict=True)),
        **{f"k{n}": ARROW[of] for n, of in enumerate(types)},
    }
    names = {column: column for column in columns}
    return SidePlan(name, name, "", {}, names, names, columns, keys, None, None, {f"{name}_n": ADDRESS[2]})


@st.composite
def two_inputs(draw: st.DrawFn) -> tuple[tuple[str, str], list[list[Event]]]:
    """The types of both parts of the key, and the events of both inputs."""
    types = draw(st.tuples(st.sampled_from(KEY_TYPES), st.sampled_from(KEY_TYPES)))
    parts = [st.sampled_from([*2 * draw(st.sampled_from(VALUES[of])), None]) for of in types]
    events = st.lists(st.tuples(st.integers(1, 4), st.sampled_from([0, 30, 61]), st.tuples(*parts)), max_size=8)
    return types, [
        [Event(sequence, minutes, key, number) for number, (sequence, minutes, key) in enumerate(draw(events), first)]
        for first in (100, 200)
    ]


@settings(max_examples=examples(60))
@given(
    inputs=two_inputs(),
    steps=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=3),
    parts=st.integers(1, 3),
    outer=st.sampled_from([(False, False), (True, False), (True, True)]),
)
def test_events_are_partners_if_both_parts_of_their_keys_are_equal_and_not_null(
    inputs: tuple[tuple[str, str], list[list[Event]]],
    steps: list[tuple[int, int]],
    parts: int,
    outer: tuple[bool, bool],
) -> None:
    types, both = inputs
    sides = (side("l", types), side("r", types))
    fields = ["l_n", "r_n", *([UNMATCHED] if any(outer) else [])]
    plan = JoinPlan(sides, fields, timedelta(minutes=30), timedelta(minutes=60), outer)
    balance, nulls, read, clock = Counter[Any](), [0, 0], (0, 0), None
    for step in [*steps, (9, 9)]:
        up_to = (read[0] + step[0], read[1] + step[1])
        passed = Passed(clock, BEGIN + timedelta(hours=9) if all(up_to) else None)
        for number in range(parts):
            one, other = (Held(both[n], dict(sides[n].types), read[n], up_to[n]) for n in (0, 1))
            joined = Joiner(connect(), plan, Part(number, parts)).join(one, other, passed)
            nulls = [nulls[n] + sum(of.values()) for n, of in enumerate(joined.null_keys)]
            balance.update((row["l_n"], row["r_n"]) for table in joined.pairs for row in table.to_pylist())
            for row in [row for table in joined.changes for row in table.to_pylist()]:
                balance[row.get("l_n"), row.get("r_n")] += -1 if row[TAKEN_BACK] else 1
        read, clock = up_to, passed.after or clock
    pairs = [
        (one.number, other.number)
        for one, other in product(*both)
        if None not in one.key and one.key == other.key and -30 <= other.minutes - one.minutes <= 60
    ]
    met = [{pair[n] for pair in pairs} for n in (0, 1)]
    alone = [[event.number for event in both[n] if outer[n] and event.number not in met[n]] for n in (0, 1)]
    assert balance == Counter([*pairs, *((one, None) for one in alone[0]), *((None, one) for one in alone[1])])
    assert nulls == [0 if outer[n] else sum(None in event.key for event in both[n]) for n in (0, 1)]
