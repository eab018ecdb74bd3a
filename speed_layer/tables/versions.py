"""The versions of the rows of a table: its events and tombstones, which a task holds in tables of DuckDB."""

from collections.abc import Iterable, Mapping, Sequence

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.model.scratch_columns import DUPLICATE, EVENT_TIME, RECORD, SCRATCH_PREFIX, SEQUENCE
from hourline_core.model.table import KEY_FIELD
from hourline_core.sql.literals import identifier, literal
from hourline_core.validation.keys import read_keys
from speed_layer.derived.read_events import ADDRESS
from speed_layer.derived.rows import Part
from speed_layer.derived.run_sql import run_sql
from speed_layer.tables.plan import TablePlan
from speed_layer.tables.tombstones import keep_tombstones, times_of

_RECORD_KEY = f"{SCRATCH_PREFIX}{KEY_FIELD}"
"""The column of events with the key of their record. A field of theirs may have the name that it has in a row."""
ARRIVAL = ("s", *(f"a{number}" for number in range(len(ADDRESS))))
"""The columns that order versions by arrival."""


class Versions:
    """Holds the versions of the keys of a part in the table ``events``, and the events with null in their key in
    ``without_key``, if it is the first part. Both have these columns:

    | column | is |
    |---|---|
    | ``moment`` | the event time in microseconds since 1970 |
    | ``s``, ``a0``, … | ARRIVAL |
    | ``k0``, … and ``f0``, … | the key, and the columns |
    | those of ``further`` | further expressions over an event |
    | ``address`` | the address of an event as text; null: it is a tombstone |
    | ``deleted`` | whether it deletes the row |
    | ``is_new`` | whether its sequence is above ``after`` |
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        plan: TablePlan,
        sequences: tuple[int, int],
        part: Part,
        further: Mapping[str, str],
    ) -> None:
        self._connection, self._plan, self._part, self._further = connection, plan, part, further
        self._after, self._up_to = sequences
        self.keys = [f"k{number}" for number in range(len(plan.key))]
        self.values = [f"f{number}" for number in range(len(plan.columns))]
        empty = self._with_key(pa.schema([*plan.table.types.items()]).empty_table())
        for table in ("events", "without_key"):
            run_sql(connection, f"CREATE OR REPLACE TEMP TABLE {table} AS {self._event}", empty)

    @property
    def fields(self) -> list[str]:
        """The fields of an archived row, under the names that they have here."""
        return self._fields_by(self._plan.key)

    def _fields_by(self, key: Sequence[str]) -> list[str]:
        names, here = [*key, *self._plan.columns], [*self.keys, *self.values]
        return [f"{identifier(name)} AS {of}" for name, of in zip(names, here, strict=True)]

    @property
    def is_of_part(self) -> str:
        """The condition under which a row has a key of this part."""
        part = self._part
        mine = [f"hash({', '.join(self.keys)}) % {part.of} = {part.number}"] if part.of > 1 else []
        return " AND ".join([self._has_key, *mine])

    def hold_events(self, archived: Iterable[pa.Table], condition: str = "true") -> None:
        """Hold those ``archived`` events of the table, by the columns of the plan, that fulfil a condition."""
        for rows in map(self._with_key, archived):
            mine = f"FROM ({self._event}) WHERE ({condition})"
            run_sql(self._connection, f"INSERT INTO events {mine} AND {self.is_of_part}", rows)
            if self._part.number == 0:
                run_sql(self._connection, f"INSERT INTO without_key {mine} AND NOT ({self._has_key})", rows)

    def hold_tombstones(self, archived: Iterable[pa.Table], condition: str = "true") -> None:
        """Hold those tombstones among ``archived`` rejected records that fulfil a condition. They have no fields, and
        an address as events have.
        """
        for rows in archived:
            assert self._plan.key_type, "the key of a record is that of the table"
            some = keep_tombstones(self._plan, rows.filter(pc.less_equal(rows["sequence"], self._up_to)))
            key = read_keys(some["key"].combine_chunks(), self._plan.key_type)
            some = some.set_column(some.column_names.index("key"), "key", key)
            tombstone = f"""
                SELECT epoch_us(counts) AS moment, sequence AS s, topic_id AS a0, partition AS a1, "offset" AS a2,
                       0 AS a3, key AS k0, true AS deleted, sequence > {self._after} AS is_new
                FROM archived"""
            mine = f"SELECT * FROM ({tombstone}) WHERE ({condition}) AND {self.is_of_part}"
            counts = some.append_column("counts", times_of(self._plan, some))
            run_sql(self._connection, f"INSERT INTO events BY NAME ({mine})", counts)

    @property
    def _event(self) -> str:
        """What is held of ``archived`` events."""
        plan = self._plan
        fields = self._fields_by([_RECORD_KEY] if plan.key_type else plan.key)
        address = [f"{identifier(name)} AS {of}" for name, of in zip((SEQUENCE, *ADDRESS), ARRIVAL, strict=True)]
        further = [f"{of} AS {name}" for name, of in self._further.items()]
        row = f"concat_ws(':', {literal(plan.source)}, {', '.join(map(identifier, ADDRESS))})"
        return f"""
            SELECT epoch_us({identifier(EVENT_TIME)}) AS moment, {", ".join([*address, *fields, *further])},
                   {row} AS address, coalesce(({plan.deleted or "false"}), false) AS deleted,
                   {identifier(SEQUENCE)} > {self._after} AS is_new
            FROM archived WHERE NOT coalesce({identifier(DUPLICATE)}, false)"""

    @property
    def _has_key(self) -> str:
        return " AND ".join(f"{name} IS NOT NULL" for name in self.keys)

    def _with_key(self, rows: pa.Table) -> pa.Table:
        """The rows, with the key of their record as a column, if that is the key of the table."""
        if self._plan.key_type is None:
            return rows
        keys = pc.struct_field(rows[RECORD].combine_chunks(), "key")
        return rows.drop_columns(RECORD).append_column(_RECORD_KEY, read_keys(keys, self._plan.key_type))
