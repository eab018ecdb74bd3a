"""Joins events of two inputs, in a task, by DuckDB. What does not fit into memory goes to files.

No event of an input is taken back: `difference.py` joins inputs of which some may be.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import duckdb
import pyarrow as pa

from hourline_core.model.join import UNMATCHED
from hourline_core.model.scratch_columns import TAKEN_BACK
from hourline_core.sql.literals import identifier
from speed_layer.derived.passed import Passed
from speed_layer.derived.rows import AT, INPUT_SEQUENCE, SIDE, WHOLE, Part
from speed_layer.derived.run_sql import read_sql
from speed_layer.joins.held_events import (
    HeldEvents,
    NullKeys,
    has_partner,
    hold_events,
    is_pair,
    is_passed,
    is_passed_now,
    time_of_pair,
)
from speed_layer.joins.plan import JoinPlan
from speed_layer.joins.read_side import Side


@dataclass(frozen=True)
class Joined:
    """What comes of the new events of a micro-batch."""

    null_keys: NullKeys
    """Of each input that is no outer side, the number of new events with null in their key, by sequence. Of the first
    part alone.
    """
    pairs: Iterator[pa.Table]
    """SIDE, INPUT_SEQUENCE, AT and the fields of the plan, in the order of the first two. The same each time."""
    changes: Iterator[pa.Table]
    """AT, TAKEN_BACK, UNMATCHED and the fields of one input: events without a partner, and such ones of before that
    have a partner now. If events of an input may be taken back, also pairs, and events whose last partner is gone, each
    with JOINED_ROW. To be read after ``pairs``. The same each time.
    """


class Joiner:
    """Joins the events of one micro-batch, on a connection of its own."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, plan: JoinPlan, part: Part = WHOLE) -> None:
        self._connection, self._plan, self._part = connection, plan, part

    def join(self, left: Side, right: Side, passed: Passed) -> Joined:
        """The pairs with a new event, and what becomes of events without a partner when the clock has ``passed``.
        ``left`` and ``right`` are the events of the inputs of the plan.
        """
        sides, nulls = hold_events(self._connection, self._plan, self._part, left, right, passed)
        ways = ((sides[0], sides[1]), (sides[1], sides[0]))
        unmatched = (self._unmatched(table, other, passed) for table, other in ways if table.outer)
        return Joined(nulls, self._pairs(*sides), chain.from_iterable(unmatched))

    def _pairs(self, left: HeldEvents, right: HeldEvents) -> Iterator[pa.Table]:
        columns = {name: f"{table.name}.{column}" for table in (left, right) for name, column in table.columns.items()}
        named = [f"{columns[name]} AS {identifier(name)}" for name in self._plan.fields if name in columns]
        parts = [
            (f"{left.new} l", 0, f"(SELECT *, 0 AS old FROM {right.new} UNION ALL SELECT *, 1 FROM {right.near}) r"),
            (f"{left.near} l", 1, f"(SELECT *, 0 AS old FROM {right.new}) r"),
        ]
        queries = [
            f"SELECT {side} AS {SIDE}, {'r' if side else 'l'}.s AS {INPUT_SEQUENCE}, "
            f"{time_of_pair(self._plan)} AS {AT}, {', '.join(named)}, l.n AS ln, r.old AS ro, r.n AS rn "
            f"FROM {one} JOIN {other} ON {is_pair(self._plan, 'l', 'r')}"
            for one, side, other in parts
        ]
        # The same order each time: places in it are addresses.
        order = f"ORDER BY {SIDE}, {INPUT_SEQUENCE}, ln, ro, rn"
        yield from read_sql(
            self._connection, f"SELECT * EXCLUDE (ln, ro, rn) FROM ({' UNION ALL '.join(queries)}) {order}"
        )

    def _unmatched(self, table: HeldEvents, other: HeldEvents, passed: Passed) -> Iterator[pa.Table]:
        """The events of ``table`` that are decided now and have no partner, and those that have their first one now."""
        named = ", ".join(f"{column} AS {identifier(name)}" for name, column in table.columns.items())
        earlier = has_partner(self._plan, table, other.near, other.far)
        later = has_partner(self._plan, table, other.new)
        queries = [
            f"SELECT rows.at AS {AT}, {taken_back} AS {TAKEN_BACK}, u AS {UNMATCHED}, {named} "
            f"FROM {held} rows WHERE {condition}"
            for held, taken_back, condition in (
                (table.new, "false", f"({is_passed(passed.after)}) AND NOT ({earlier} OR {later})"),
                (table.near, "false", f"({is_passed_now(passed)}) AND NOT ({earlier} OR {later})"),
                (table.near, "true", f"({is_passed(passed.before)}) AND ({later}) AND NOT ({earlier})"),
            )
        ]
        yield from read_sql(self._connection, f"{' UNION ALL '.join(queries)} ORDER BY {UNMATCHED}")
