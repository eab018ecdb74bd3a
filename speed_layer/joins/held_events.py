"""Holds events of both inputs of a join, in a task, in tables of DuckDB. What does not fit into memory goes to files.

It holds those earlier events alone that have a partner among the new ones of the other input. Of an outer side, it also
holds those that the clock passes now, and of the other side, their earlier partners.
"""

from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa

from hourline_core.model.scratch_columns import DUPLICATE, EVENT_TIME, HOUR, SEQUENCE
from hourline_core.sql.literals import identifier, literal
from speed_layer.derived.passed import Passed
from speed_layer.derived.read_events import ADDRESS
from speed_layer.derived.rows import Part
from speed_layer.derived.run_sql import run_sql
from speed_layer.joins.plan import JoinPlan
from speed_layer.joins.read_side import Side

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLACE = ("s", *(f"a{number}" for number in range(len(ADDRESS))))
"""The columns that say which event of an id is the first."""
NullKeys = tuple[dict[int, int], dict[int, int]]
"""By input, the number of events with null in their key, by sequence."""


class HeldEvents:
    """The events of one input that are held, in tables of DuckDB."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, plan: JoinPlan, number: int) -> None:
        self._connection, self._plan, self.outer = connection, plan.sides[number], plan.outer[number]
        side = self._plan
        self.name = "lr"[number]
        self._has_states = plan.inputs_take_back
        self._addressed = plan.is_self_join or side.identity is not None
        self.new, self.near, self.far = f"{self.name}_new", f"{self.name}_near", f"{self.name}_far"
        self.columns = {field: f"f{place}" for place, field in enumerate(side.fields)}
        """By field of the joined source, its column here."""
        self.keys = [f"k{place}" for place in range(len(side.key))]
        self._rows = 0
        empty = pa.schema([(of, side.types[of]) for of in side.columns]).empty_table()
        for table in (self.new, self.near, self.far):
            run_sql(
                self._connection,
                f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT *, 0::BIGINT AS n FROM ({self._select})",
                empty,
            )

    @property
    def _select(self) -> str:
        """What is held of ``archived`` events: those that count, unless they turn out to repeat an id, and what takes
        them back.
        """
        plan, is_duplicate = self._plan, f"coalesce({identifier(DUPLICATE)}, false)"
        selected = [
            f"{identifier(SEQUENCE)} AS s",
            f"epoch_us({identifier(EVENT_TIME)}) AS at",
            *(f"{part} AS k{number}" for number, part in enumerate(plan.key)),
            *(f"{identifier(column)} AS f{number}" for number, column in enumerate(plan.fields.values())),
            *([f"{self._id} AS u"] if self.outer or self._has_states else []),
            *([f"{is_duplicate} AS back"] if self._has_states else []),
        ]
        # An event that may be taken back is there again then, as a duplicate.
        where = ["true" if plan.id_taken_back else f"NOT {is_duplicate}", *([f"({plan.where})"] if plan.where else [])]
        address = self._address if self._addressed else []
        return f"SELECT {', '.join([*selected, *self._identity, *address])} FROM archived WHERE {' AND '.join(where)}"

    @property
    def _id(self) -> str:
        """What tells an event from all others of both inputs. One that is taken back is there twice, with an id that
        others have at other times.
        """
        plan, own = self._plan, ", ".join(map(identifier, ADDRESS))
        if plan.id_taken_back:
            own = f"coalesce({plan.id_taken_back}, concat_ws(':', {own})), epoch_us({identifier(EVENT_TIME)})"
        return f"concat_ws(':', {literal(plan.name)}, {own})"

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
                is_null = f"({is_null}) AND NOT back" if self._has_states else is_null
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


def hold_events(
    connection: duckdb.DuckDBPyConnection, plan: JoinPlan, part: Part, left: Side, right: Side, passed: Passed
) -> tuple[tuple[HeldEvents, HeldEvents], NullKeys]:
    """Hold what a micro-batch needs of ``left`` and ``right``, the inputs of the plan, when the clock has ``passed``.
    Gives the number of events with null in their key, too: of the first part, and of inputs that are no outer side.
    """
    sides = (HeldEvents(connection, plan, 0), HeldEvents(connection, plan, 1))
    ways = ((sides[0], left, sides[1]), (sides[1], right, sides[0]))
    nulls = [table.take_new(side, part) for table, side, _ in ways]
    if plan.same_key:
        nulls[1] = {}  # they are those of the left side
    for table, side, other in ways:
        conditions = [] if other.is_empty(other.new) else [has_partner(plan, table, other.new)]
        conditions += [f"({is_passed_now(passed)})"] if table.outer else []
        if conditions:
            table.take_near(side, part, " OR ".join(conditions))
    for table, side, other in ways:
        if other.outer and not other.is_empty(other.near):
            table.take_far(side, part, has_partner(plan, table, other.near))
    for table, side, _ in ways:
        table.keep_firsts(side)
    return sides, (nulls[0], nulls[1])


def has_partner(plan: JoinPlan, table: HeldEvents, *among: str) -> str:
    """The condition under which a row of ``rows``, of the input of ``table``, has a partner in one of the tables
    ``among`` of the other input.
    """
    left, right = ("rows", "o") if table.name == "l" else ("o", "rows")
    return " OR ".join(f"EXISTS (SELECT 1 FROM {one} o WHERE {is_pair(plan, left, right)})" for one in among)


def is_pair(plan: JoinPlan, left: str, right: str) -> str:
    """The condition under which rows of the tables called ``left`` and ``right`` are partners."""
    keys = [f"{left}.k{number} = {right}.k{number}" for number in range(len(plan.sides[0].key))]
    before, after = _micros(plan.before), _micros(plan.after)
    within = [f"{right}.at >= {left}.at - {before}", f"{right}.at <= {left}.at + {after}"]
    address = [", ".join(f"{of}.{column}" for column in _PLACE[1:]) for of in (left, right)]
    others = [f"({address[0]}) IS DISTINCT FROM ({address[1]})"] if plan.is_self_join else []
    return " AND ".join([*keys, *within, *others])


def time_of_pair(plan: JoinPlan) -> str:
    """The event time of a pair of rows called ``l`` and ``r``."""
    return next((f"{of}.at" for of, timed in zip("lr", plan.timed_by, strict=True) if timed), "greatest(l.at, r.at)")


def is_passed(clock: datetime | None) -> str:
    """Whether a ``clock`` has passed an event: others of the same time may still come before that."""
    return "false" if clock is None else f"rows.at < {_micros(clock - _EPOCH)}"


def is_passed_now(passed: Passed) -> str:
    """Whether the clock passes an event in this micro-batch."""
    return f"{is_passed(passed.after)} AND NOT ({is_passed(passed.before)})"


def _micros(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1)
