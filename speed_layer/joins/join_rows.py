"""Joins events of two inputs, in a task, by DuckDB. What does not fit into memory goes to files.

It holds those earlier events alone that have a partner among the new ones of the other input. Of an outer side, it also
holds those that the clock passes now, and whatever was a partner of one that it holds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain

import duckdb
import pyarrow as pa

from hourline_core.model.join import UNMATCHED
from hourline_core.model.scratch_columns import DUPLICATE, EVENT_TIME, HOUR, SEQUENCE, TAKEN_BACK
from hourline_core.sql.literals import identifier, literal
from speed_layer.derived.passed import Passed
from speed_layer.derived.read_events import ADDRESS
from speed_layer.derived.rows import AT, INPUT_SEQUENCE, SIDE, WHOLE, Part
from speed_layer.derived.run_sql import run_sql
from speed_layer.joins.plan import JoinPlan, SidePlan
from speed_layer.joins.read_side import Side

_ROWS = 20_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLACE = ("s", *(f"a{number}" for number in range(len(ADDRESS))))
"""The columns that say which event of an id is the first."""


@dataclass(frozen=True)
class Joined:
    """What comes of the new events of a micro-batch."""

    null_keys: tuple[dict[int, int], dict[int, int]]
    """Of each input that is no outer side, the number of new events with null in their key, by sequence. Of the first
    part alone.
    """
    pairs: Iterator[pa.Table]
    """SIDE, INPUT_SEQUENCE, AT and the fields of the plan, in the order of the first two. The same each time."""
    unmatched: Iterator[pa.Table]
    """AT, TAKEN_BACK, UNMATCHED and the fields of one input: events without a partner, and such ones of before that
    have a partner now. To be read after the pairs. The same each time.
    """


class Joiner:
    """Joins the events of one micro-batch, on a connection of its own."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, plan: JoinPlan, part: Part = WHOLE) -> None:
        self._connection, self._plan, self._part = connection, plan, part

    def join(self, left: Side, right: Side, passed: Passed) -> Joined:
        """The pairs with a new event, and what becomes of events without a partner when the clock has ``passed``.
        ``left`` and ``right`` are the events of the inputs of the plan.
        """
        plan, outer = self._plan, self._plan.outer
        sides = (
            _Table(self._connection, plan.sides[0], "l", outer=outer[0], addressed=plan.is_self_join),
            _Table(self._connection, plan.sides[1], "r", outer=outer[1], addressed=plan.is_self_join),
        )
        ways = ((sides[0], left, sides[1]), (sides[1], right, sides[0]))
        nulls = [table.take_new(side, self._part) for table, side, _ in ways]
        if plan.same_key:
            nulls[1] = {}  # they are those of the left side
        for table, side, other in ways:
            conditions = [] if other.is_empty(other.new) else [self._has_partner(table, other.new)]
            conditions += [f"({_is_passed_now(passed)})"] if table.outer else []
            if conditions:
                table.take_near(side, self._part, " OR ".join(conditions))
        for table, side, other in ways:
            if other.outer and not other.is_empty(other.near):
                table.take_far(side, self._part, self._has_partner(table, other.near))
        for table, side, _ in ways:
            table.keep_firsts(side)
        unmatched = (self._unmatched(table, other, passed) for table, _, other in ways if table.outer)
        return Joined((nulls[0], nulls[1]), self._pairs(*sides), chain.from_iterable(unmatched))

    def _has_partner(self, table: "_Table", *among: str) -> str:
        """The condition under which a row of ``rows``, of the input of ``table``, has a partner in one of the tables
        ``among`` of the other input.
        """
        left, right = ("rows", "o") if table.name == "l" else ("o", "rows")
        return " OR ".join(f"EXISTS (SELECT 1 FROM {one} o WHERE {self._is_pair(left, right)})" for one in among)

    def _is_pair(self, left: str, right: str) -> str:
        keys = [f"{left}.k{number} = {right}.k{number}" for number in range(len(self._plan.sides[0].key))]
        before, after = _micros(self._plan.before), _micros(self._plan.after)
        within = [f"{right}.at >= {left}.at - {before}", f"{right}.at <= {left}.at + {after}"]
        address = [", ".join(f"{of}.{column}" for column in _PLACE[1:]) for of in (left, right)]
        others = [f"({address[0]}) IS DISTINCT FROM ({address[1]})"] if self._plan.is_self_join else []
        return " AND ".join([*keys, *within, *others])

    def _pairs(self, left: "_Table", right: "_Table") -> Iterator[pa.Table]:
        columns = {name: f"{table.name}.{column}" for table in (left, right) for name, column in table.columns.items()}
        named = [f"{columns[name]} AS {identifier(name)}" for name in self._plan.fields if name in columns]
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

    def _unmatched(self, table: "_Table", other: "_Table", passed: Passed) -> Iterator[pa.Table]:
        """The events of ``table`` that are decided now and have no partner, and those that have their first one now."""
        named = ", ".join(f"{column} AS {identifier(name)}" for name, column in table.columns.items())
        earlier = self._has_partner(table, other.near, other.far)
        later = self._has_partner(table, other.new)
        queries = [
            f"SELECT rows.at AS {AT}, {taken_back} AS {TAKEN_BACK}, u AS {UNMATCHED}, {named} "
            f"FROM {held} rows WHERE {condition}"
            for held, taken_back, condition in (
                (table.new, "false", f"({_is_passed(passed.after)}) AND NOT ({earlier} OR {later})"),
                (table.near, "false", f"({_is_passed_now(passed)}) AND NOT ({earlier} OR {later})"),
                (table.near, "true", f"({_is_passed(passed.before)}) AND ({later}) AND NOT ({earlier})"),
            )
        ]
        found = self._connection.execute(f"{' UNION ALL '.join(queries)} ORDER BY {UNMATCHED}")
        for batch in found.to_arrow_reader(_ROWS):
            yield pa.Table.from_batches([batch])


def _is_passed(clock: datetime | None) -> str:
    """Whether a ``clock`` has passed an event: others of the same time may still come before that."""
    return "false" if clock is None else f"rows.at < {_micros(clock - _EPOCH)}"


def _is_passed_now(passed: Passed) -> str:
    return f"{_is_passed(passed.after)} AND NOT ({_is_passed(passed.before)})"


class _Table:
    """The events of one input that are held."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, plan: SidePlan, name: str, *, outer: bool, addressed: bool
    ) -> None:
        self._connection, self._plan, self.name, self.outer = connection, plan, name, outer
        self._addressed = addressed or plan.identity is not None
        self.new, self.near, self.far = f"{name}_new", f"{name}_near", f"{name}_far"
        self.columns = {name: f"f{number}" for number, name in enumerate(plan.fields)}
        """By field of the joined source, its column here."""
        self._rows = 0
        empty = pa.schema([(of, plan.types[of]) for of in plan.columns]).empty_table()
        for table in (self.new, self.near, self.far):
            run_sql(
                self._connection,
                f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT *, 0::BIGINT AS n FROM ({self._select})",
                empty,
            )

    @property
    def _select(self) -> str:
        """What is held of ``archived`` events that count, unless they turn out to repeat an id."""
        plan = self._plan
        selected = [
            f"{identifier(SEQUENCE)} AS s",
            f"epoch_us({identifier(EVENT_TIME)}) AS at",
            *(f"{part} AS k{number}" for number, part in enumerate(plan.key)),
            *(f"{identifier(column)} AS f{number}" for number, column in enumerate(plan.fields.values())),
            *([f"{self._unmatched_id} AS u"] if self.outer else []),
        ]
        where = [f"NOT coalesce({identifier(DUPLICATE)}, false)", *([f"({plan.where})"] if plan.where else [])]
        address = self._address if self._addressed else []
        return f"SELECT {', '.join([*selected, *self._identity, *address])} FROM archived WHERE {' AND '.join(where)}"

    @property
    def _unmatched_id(self) -> str:
        return f"concat_ws(':', {literal(self._plan.name)}, {', '.join(map(identifier, ADDRESS))})"

    @property
    def _identity(self) -> list[str]:
        if self._plan.identity is None:
            return []
        return [f"({self._plan.identity}) AS id", f"{identifier(HOUR)} AS h"]

    @property
    def _address(self) -> list[str]:
        return [f"{identifier(name)} AS {column}" for name, column in zip(ADDRESS, _PLACE[1:], strict=True)]

    def take_new(self, side: Side, part: Part) -> dict[int, int]:
        """Hold the new events of a part. Gives the number of those with null in their key, by sequence, unless they
        are joined, too.
        """
        nulls: dict[int, int] = {}
        for archived in side.new():
            self._insert(self.new, archived, self._of_part(part))
            if part.number == 0 and not self.outer:
                is_null = " OR ".join(f"k{number} IS NULL" for number in range(len(self._plan.key)))
                for sequence, events in run_sql(
                    self._connection, f"SELECT s, count(*) FROM ({self._select}) WHERE {is_null} GROUP BY s", archived
                ):
                    nulls[sequence] = nulls.get(sequence, 0) + events
        return nulls

    def take_near(self, side: Side, part: Part, condition: str) -> None:
        """Hold the earlier events of a part that fulfil a condition over ``rows``."""
        for archived in side.near():
            self._insert(self.near, archived, f"{self._of_part(part)} AND ({condition})")

    def take_far(self, side: Side, part: Part, condition: str) -> None:
        """Hold, apart from these, the earlier events of a part that fulfil a condition over ``rows``."""
        for archived in side.far():
            self._insert(self.far, archived, f"{self._of_part(part)} AND ({condition})")

    def keep_firsts(self, side: Side) -> None:
        """Hold only the first event of each id and hour, by sequence and address, as a recompute counts them."""
        tables = (self.new, self.near, self.far)
        if self._plan.identity is None or all(map(self.is_empty, tables)):
            return
        held = " UNION ".join(f"SELECT id, h FROM {table}" for table in tables)
        run_sql(self._connection, f"CREATE OR REPLACE TEMP TABLE held AS SELECT * FROM ({held}) WHERE id IS NOT NULL")
        address = ", ".join(f"'{column}': {column}" for column in _PLACE)
        seen = ", ".join([*self._identity, *self._address, f"{identifier(SEQUENCE)} AS s"])
        first = f"id, h, {{{address}}} AS place"
        run_sql(self._connection, f"CREATE OR REPLACE TEMP TABLE seen AS SELECT {first} FROM {self.new} LIMIT 0")
        for archived in side.identities():
            chosen = f"SELECT {first} FROM (SELECT {seen} FROM archived) SEMI JOIN held USING (id, h)"
            run_sql(self._connection, f"INSERT INTO seen {chosen}", archived)
        run_sql(
            self._connection,
            "CREATE OR REPLACE TEMP TABLE firsts AS SELECT id, h, min(place) AS place FROM seen GROUP BY id, h",
        )
        for table in tables:
            of_first = f"f.id = {table}.id AND f.h = {table}.h AND f.place = {{{address}}}"
            run_sql(
                self._connection,
                f"DELETE FROM {table} WHERE id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM firsts f WHERE {of_first})",
            )

    def is_empty(self, table: str) -> bool:
        """Whether one of its tables holds no event."""
        return not run_sql(self._connection, f"SELECT 1 FROM {table} LIMIT 1")

    def _of_part(self, part: Part) -> str:
        keys = [f"k{number}" for number in range(len(self._plan.key))]
        there = [] if self.outer else [f"{key} IS NOT NULL" for key in keys]
        mine = [f"hash({', '.join(keys)}) % {part.of} = {part.number}"] if part.of > 1 else []
        return " AND ".join([*there, *mine]) or "true"

    def _insert(self, table: str, archived: pa.Table, condition: str) -> None:
        numbered = f"SELECT *, {self._rows} + row_number() OVER () AS n FROM ({self._select})"
        run_sql(self._connection, f"INSERT INTO {table} SELECT * FROM ({numbered}) rows WHERE {condition}", archived)
        self._rows += archived.num_rows


def _micros(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1)
