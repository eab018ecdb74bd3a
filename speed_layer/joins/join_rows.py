"""Joins events of two inputs, in a task, by DuckDB. What does not fit into memory goes to files.

It holds those earlier events alone that have a partner among the new ones of the other input.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

import duckdb
import pyarrow as pa

from hourline_core.model.scratch_columns import DUPLICATE, EVENT_TIME, HOUR, SEQUENCE
from hourline_core.sql.literals import identifier
from speed_layer.joins.plan import ADDRESS, JoinPlan, SidePlan
from speed_layer.joins.read_side import Side

SIDE, INPUT_SEQUENCE, AT = "side", "sequence", "at"
"""The columns of a pair beside its fields: 0 or 1 for the input whose event completed it, the sequence of that event,
and the event time in microseconds since 1970.
"""
_ROWS = 20_000
_PLACE = ("s", *(f"a{number}" for number in range(len(ADDRESS))))
"""The columns that say which event of an id is the first."""


class Part(NamedTuple):
    """The share of a task: the keys whose hash is ``number``, of ``of``."""

    number: int = 0
    of: int = 1


WHOLE = Part()
"""That of the only task."""


@dataclass(frozen=True)
class Joined:
    """What comes of the new events of a micro-batch."""

    null_keys: tuple[dict[int, int], dict[int, int]]
    """Of each input, the number of new events with null in their key, by sequence. Of the first part alone."""
    pairs: Iterator[pa.Table]
    """SIDE, INPUT_SEQUENCE, AT and the fields of the plan, in the order of the first two. The same each time."""


class Joiner:
    """Joins the events of one micro-batch, on a connection of its own."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, plan: JoinPlan, part: Part = WHOLE) -> None:
        self._connection, self._plan, self._part = connection, plan, part

    def join(self, left: Side, right: Side) -> Joined:
        """The pairs with a new event. ``left`` and ``right`` are the events of the inputs of the plan."""
        sides = (_Table(self._connection, self._plan.sides[0], "l"), _Table(self._connection, self._plan.sides[1], "r"))
        nulls = [table.take_new(side, self._part) for table, side in zip(sides, (left, right), strict=True)]
        for table, side, other in ((sides[0], left, sides[1]), (sides[1], right, sides[0])):
            if not other.is_empty():
                table.take_near(side, self._part, f"EXISTS (SELECT 1 FROM {other.new} o WHERE {self._meets(table)})")
        for table, side in zip(sides, (left, right), strict=True):
            table.keep_firsts(side)
        return Joined((nulls[0], nulls[1]), self._pairs(*sides))

    def _meets(self, table: "_Table") -> str:
        """The condition under which a row of ``rows``, of the input of ``table``, is a partner of ``o``."""
        left, right = ("rows", "o") if table.name == "l" else ("o", "rows")
        return self._is_pair(left, right)

    def _is_pair(self, left: str, right: str) -> str:
        keys = [f"{left}.k{number} = {right}.k{number}" for number in range(len(self._plan.sides[0].key))]
        before, after = _micros(self._plan.before), _micros(self._plan.after)
        within = [f"{right}.at >= {left}.at - {before}", f"{right}.at <= {left}.at + {after}"]
        return " AND ".join([*keys, *within])

    def _pairs(self, left: "_Table", right: "_Table") -> Iterator[pa.Table]:
        fields = [
            f"l.{left.columns[name]}" if name in left.columns else f"r.{right.columns[name]}"
            for name in self._plan.fields
        ]
        named = [f"{sql} AS {identifier(name)}" for sql, name in zip(fields, self._plan.fields, strict=True)]
        parts = [
            (f"{left.new} l", 0, f"(SELECT *, 0 AS old FROM {right.new} UNION ALL SELECT *, 1 FROM {right.near}) r"),
            (f"{left.near} l", 1, f"(SELECT *, 0 AS old FROM {right.new}) r"),
        ]
        queries = [
            f"SELECT {side} AS {SIDE}, {'r' if side else 'l'}.s AS {INPUT_SEQUENCE}, "
            f"greatest(l.at, r.at) AS {AT}, {', '.join(named)}, l.n AS ln, r.old AS ro, r.n AS rn "
            f"FROM {one} JOIN {other} ON {self._is_pair('l', 'r')}"
            for one, side, other in parts
        ]
        # The same order each time: places in it are addresses.
        order = f"ORDER BY {SIDE}, {INPUT_SEQUENCE}, ln, ro, rn"
        found = self._connection.execute(f"SELECT * EXCLUDE (ln, ro, rn) FROM ({' UNION ALL '.join(queries)}) {order}")
        for batch in found.to_arrow_reader(_ROWS):
            yield pa.Table.from_batches([batch])


class _Table:
    """The events of one input that are held."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, plan: SidePlan, name: str) -> None:
        self._connection, self._plan, self.name = connection, plan, name
        self.new, self.near = f"{name}_new", f"{name}_near"
        self.columns = {name: f"f{number}" for number, name in enumerate(plan.fields)}
        """By field of the joined source, its column here."""
        self._rows = 0
        empty = pa.schema([(of, plan.types[of]) for of in plan.columns]).empty_table()
        for table in (self.new, self.near):
            self._run(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT *, 0::BIGINT AS n FROM ({self._select})", empty)

    @property
    def _select(self) -> str:
        """What is held of ``archived`` events that count, unless they turn out to repeat an id."""
        plan = self._plan
        selected = [
            f"{identifier(SEQUENCE)} AS s",
            f"epoch_us({identifier(EVENT_TIME)}) AS at",
            *(f"{identifier(name)} AS k{number}" for number, name in enumerate(plan.key)),
            *(f"{identifier(column)} AS f{number}" for number, column in enumerate(plan.fields.values())),
        ]
        where = [f"NOT coalesce({identifier(DUPLICATE)}, false)", *([f"({plan.where})"] if plan.where else [])]
        return f"SELECT {', '.join([*selected, *self._identity])} FROM archived WHERE {' AND '.join(where)}"

    @property
    def _identity(self) -> list[str]:
        if self._plan.identity is None:
            return []
        address = [f"{identifier(name)} AS {column}" for name, column in zip(ADDRESS, _PLACE[1:], strict=True)]
        return [f"({self._plan.identity}) AS id", f"{identifier(HOUR)} AS h", *address]

    def take_new(self, side: Side, part: Part) -> dict[int, int]:
        """Hold the new events of a part. Gives the number of those with null in their key, by sequence."""
        nulls: dict[int, int] = {}
        for archived in side.new():
            self._insert(self.new, archived, self._of_part(part))
            if part.number == 0:
                is_null = " OR ".join(f"k{number} IS NULL" for number in range(len(self._plan.key)))
                for sequence, events in self._run(
                    f"SELECT s, count(*) FROM ({self._select}) WHERE {is_null} GROUP BY s", archived
                ):
                    nulls[sequence] = nulls.get(sequence, 0) + events
        return nulls

    def take_near(self, side: Side, part: Part, condition: str) -> None:
        """Hold the earlier events of a part that fulfil a condition over ``rows``."""
        for archived in side.near():
            self._insert(self.near, archived, f"{self._of_part(part)} AND {condition}")

    def keep_firsts(self, side: Side) -> None:
        """Hold only the first event of each id and hour, by sequence and address, as a recompute counts them."""
        if self._plan.identity is None or (self.is_empty() and self._is_empty(self.near)):
            return
        held = f"SELECT id, h FROM {self.new} UNION SELECT id, h FROM {self.near}"
        self._run(f"CREATE OR REPLACE TEMP TABLE held AS SELECT * FROM ({held}) WHERE id IS NOT NULL")
        address = ", ".join(f"'{column}': {column}" for column in _PLACE)
        seen = ", ".join([*self._identity, f"{identifier(SEQUENCE)} AS s"])
        first = f"id, h, {{{address}}} AS place"
        self._run(f"CREATE OR REPLACE TEMP TABLE seen AS SELECT {first} FROM {self.new} LIMIT 0")
        for archived in side.identities():
            chosen = f"SELECT {first} FROM (SELECT {seen} FROM archived) SEMI JOIN held USING (id, h)"
            self._run(f"INSERT INTO seen {chosen}", archived)
        self._run("CREATE OR REPLACE TEMP TABLE firsts AS SELECT id, h, min(place) AS place FROM seen GROUP BY id, h")
        for table in (self.new, self.near):
            of_first = f"f.id = {table}.id AND f.h = {table}.h AND f.place = {{{address}}}"
            self._run(
                f"DELETE FROM {table} WHERE id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM firsts f WHERE {of_first})"
            )

    def is_empty(self) -> bool:
        """Whether no new event is held."""
        return self._is_empty(self.new)

    def _is_empty(self, table: str) -> bool:
        return not self._run(f"SELECT 1 FROM {table} LIMIT 1")

    def _of_part(self, part: Part) -> str:
        keys = [f"k{number}" for number in range(len(self._plan.key))]
        there = [f"{key} IS NOT NULL" for key in keys]
        mine = [f"hash({', '.join(keys)}) % {part.of} = {part.number}"] if part.of > 1 else []
        return " AND ".join([*there, *mine])

    def _insert(self, table: str, archived: pa.Table, condition: str) -> None:
        numbered = f"SELECT *, {self._rows} + row_number() OVER () AS n FROM ({self._select})"
        self._run(f"INSERT INTO {table} SELECT * FROM ({numbered}) rows WHERE {condition}", archived)
        self._rows += archived.num_rows

    def _run(self, sql: str, archived: pa.Table | None = None) -> list[tuple[int, ...]]:
        if archived is None:
            return self._connection.execute(sql).fetchall()
        self._connection.register("archived", archived)
        try:
            return self._connection.execute(sql).fetchall()
        finally:
            self._connection.unregister("archived")


def _micros(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1)
