"""Joins events of two inputs of which some may be taken back, in a task, by DuckDB.

It joins the events that are held twice: as the inputs stood before the micro-batch, and as they stand now. The
difference comes out. An event of an input stands from its own sequence on, up to that in which it is taken back.
"""

from collections.abc import Iterator
from itertools import chain

import duckdb
import pyarrow as pa

from hourline_core.model.join import JOINED_ROW, UNMATCHED
from hourline_core.model.scratch_columns import TAKEN_BACK
from hourline_core.sql.literals import identifier
from speed_layer.derived.passed import Passed
from speed_layer.derived.rows import AT, WHOLE, Part
from speed_layer.derived.run_sql import read_sql, run_sql
from speed_layer.joins.held_events import HeldEvents, hold_events, is_pair, is_passed, time_of_pair
from speed_layer.joins.join_rows import Joined
from speed_layer.joins.plan import JoinPlan
from speed_layer.joins.read_side import Side

_STATES = ("before", "now", "gone_before", "gone_now")
"""Of an event that is held: whether it stood, and stands, and whether it had been taken back, and is."""


class DifferenceJoiner:
    """Joins the events of one micro-batch, on a connection of its own, as ``Joiner`` does. The inputs were read before
    up to the sequences ``after``.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, plan: JoinPlan, after: tuple[int, int], part: Part = WHOLE
    ) -> None:
        self._connection, self._plan, self._after, self._part = connection, plan, after, part

    def join(self, left: Side, right: Side, passed: Passed) -> Joined:
        """As that of ``Joiner``, with JOINED_ROW. Pairs that come or are taken back are among the events without a
        partner.
        """
        sides, nulls = hold_events(self._connection, self._plan, self._part, left, right, passed)
        for table, after in zip(sides, self._after, strict=True):
            self._hold_states(table, after)
        ways = ((sides[0], sides[1]), (sides[1], sides[0]))
        unmatched = [self._unmatched(table, other, passed) for table, other in ways if table.outer]
        return Joined(nulls, iter(()), chain(self._pairs(*sides), *unmatched))

    def _hold_states(self, table: HeldEvents, after: int) -> None:
        """Hold each event once in ``l_states`` or ``r_states``, with its states. If the row with which it came is not
        held, it came before the micro-batch. Not all partners of a far one are held, so it is not ``whole``.
        """
        columns = ", ".join(
            [f"any_value({identifier(of)}) AS {identifier(of)}" for of in ("at", *table.keys, *table.columns.values())]
        )
        parts = [
            f"SELECT *, {whole} AS whole FROM {held}"
            for held, whole in ((table.new, "true"), (table.near, "true"), (table.far, "false"))
        ]
        states = f"""
            SELECT u, {columns}, bool_or(whole) AS whole,
                   coalesce(min(s) FILTER (NOT back), 0) AS came, min(s) FILTER (back) AS gone
            FROM ({" UNION ALL ".join(parts)}) GROUP BY u"""
        gone = f"coalesce(gone <= {after}, false) AS gone_before, gone IS NOT NULL AS gone_now"
        stands = f"came <= {after} AND NOT gone_before AS before, NOT gone_now AS now"
        held = f"SELECT *, {stands} FROM (SELECT *, {gone} FROM ({states}))"
        run_sql(self._connection, f"CREATE OR REPLACE TEMP TABLE {table.name}_states AS {held}")

    def _pairs(self, left: HeldEvents, right: HeldEvents) -> Iterator[pa.Table]:
        columns = {name: f"{table.name}.{column}" for table in (left, right) for name, column in table.columns.items()}
        named = [f"{columns[name]} AS {identifier(name)}" for name in self._plan.fields if name in columns]
        yield from read_sql(
            self._connection,
            f"""
            SELECT {time_of_pair(self._plan)} AS {AT}, l.before AND r.before AS {TAKEN_BACK},
                   concat_ws('+', l.u, r.u) AS {JOINED_ROW}, {", ".join(named)}
            FROM l_states l JOIN r_states r ON {is_pair(self._plan, "l", "r")}
            WHERE (l.before AND r.before) <> (l.now AND r.now)
            ORDER BY {JOINED_ROW}""",
        )

    def _unmatched(self, table: HeldEvents, other: HeldEvents, passed: Passed) -> Iterator[pa.Table]:
        """The events of ``table`` that come to be without a partner, and those that are no longer. Whatever has come
        and gone never comes again. So the JOINED_ROW of an event has the number of its partners that are gone: it is
        another one after each of them.
        """
        ends = ("rows", "o") if table.name == "l" else ("o", "rows")
        stood, stands = (
            f"rows.{when} AND {is_passed(clock)} AND partners.{when} = 0"
            for when, clock in (("before", passed.before), ("now", passed.after))
        )
        states = f"""
            SELECT rows.*, {stood} AS stood, {stands} AS stands,
                   concat_ws('+', u, nullif(partners.gone_before, 0)) AS row_before,
                   concat_ws('+', u, nullif(partners.gone_now, 0)) AS row_now
            FROM {table.name}_states rows, (
                SELECT {", ".join(f"count(*) FILTER (o.{of}) AS {of}" for of in _STATES)}
                FROM {other.name}_states o WHERE {is_pair(self._plan, *ends)}) partners
            WHERE whole"""
        named = ", ".join(f"{column} AS {identifier(name)}" for name, column in table.columns.items())
        yield from read_sql(
            self._connection,
            f"""
            WITH states AS ({states}), changed AS (FROM states WHERE (stood, row_before) <> (stands, row_now))
            SELECT changed.at AS {AT}, true AS {TAKEN_BACK}, row_before AS {JOINED_ROW}, u AS {UNMATCHED}, {named}
            FROM changed WHERE stood
            UNION ALL
            SELECT changed.at AS {AT}, false AS {TAKEN_BACK}, row_now AS {JOINED_ROW}, u AS {UNMATCHED}, {named}
            FROM changed WHERE stands
            ORDER BY {JOINED_ROW}""",
        )
