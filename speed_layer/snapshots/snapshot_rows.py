"""Makes the rows of snapshots, in a task, by DuckDB. What does not fit into memory goes to files.

The rows of a snapshot are those of the one before, and what the table has had since. A late event changes the snapshots
from its own time to that of the next event of its key. These are made twice, from what was read before this micro-batch
and from all of it, and the difference comes out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.model.decoding import TOMBSTONE
from hourline_core.model.scratch_columns import DUPLICATE, EVENT_TIME, HOUR, RECORD, SEQUENCE, TAKEN_BACK
from hourline_core.model.snapshot import SNAPSHOT_KEY, SNAPSHOT_ROW, SNAPSHOT_TIME
from hourline_core.sql.literals import identifier, literal
from hourline_core.validation.keys import read_keys
from speed_layer.derived.read_events import ADDRESS
from speed_layer.derived.rows import AT, WHOLE, Part
from speed_layer.derived.run_sql import run_sql
from speed_layer.snapshots.plan import ArchiveColumns, SnapshotPlan
from speed_layer.snapshots.step import Times, times_of_tombstones

_ROWS = 20_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BEFORE_ALL = -(1 << 62)
_ARRIVAL = ("s", *(f"a{number}" for number in range(len(ADDRESS))))
"""The columns that order events with the same time."""


@dataclass(frozen=True)
class Archived:
    """What a micro-batch reads, in tables of a bounded size."""

    events: Iterable[pa.Table]
    """Events of the table, by the columns of the plan: all from the first snapshot that is changed or taken up to the
    last one.
    """
    tombstones: Iterable[pa.Table]
    """Rejected records of the table, with all tombstones of that time."""
    snapshots: Iterable[pa.Table]
    """Rows of the snapshots ``last`` and ``changed_after``."""


class SnapshotTaker:
    """Takes the snapshots of one micro-batch, of the keys of a part, on a connection of its own."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        plan: SnapshotPlan,
        earlier: ArchiveColumns,
        sequences: tuple[int, int],
        part: Part = WHOLE,
    ) -> None:
        """``earlier`` are the archived snapshots. The events above the first of two ``sequences``, up to the second,
        are new.
        """
        self._connection, self._plan, self._earlier, self._part = connection, plan, earlier, part
        self._after, self._up_to = sequences
        self._keys = [f"k{number}" for number in range(len(plan.key))]
        self._values = [f"f{number}" for number in range(len(plan.columns))]

    def take(self, archived: Archived, times: Times) -> Iterator[pa.Table]:
        """AT, TAKEN_BACK and the fields of rows that come, and of those that are taken back, in the order of AT. The
        same each time.
        """
        self._hold(archived)
        key, columns = ", ".join(self._keys), self._columns
        last, first = _micros(times.last), _micros(times.changed_after or times.last)
        run_sql(
            self._connection,
            f"CREATE OR REPLACE TEMP TABLE late AS SELECT DISTINCT {key} FROM events "
            f"WHERE is_new AND moment >= {first} AND moment < {last}",
        )
        for name, known in (("now", "true"), ("before", "NOT is_new")):
            versions = f"""
                SELECT {columns} FROM snapshots SEMI JOIN late USING ({key}) WHERE snapshot = {first}
                UNION ALL
                SELECT {columns} FROM events SEMI JOIN late USING ({key})
                WHERE moment >= {first} AND moment < {last} AND {known}"""
            run_sql(
                self._connection, f"CREATE OR REPLACE TEMP TABLE late_{name} AS {self._rows_at(versions, first, last)}"
            )
        parts = [
            "SELECT false AS back, * FROM late_now ANTI JOIN late_before USING (snapshot, address)",
            "SELECT true AS back, * FROM late_before ANTI JOIN late_now USING (snapshot, address)",
        ]
        if times.takes_some:
            now = _micros(times.now)
            versions = f"""
                SELECT {columns} FROM snapshots ANTI JOIN late USING ({key}) WHERE snapshot = {last}
                UNION ALL
                SELECT {columns} FROM late_now WHERE snapshot = {last}
                UNION ALL
                SELECT {columns} FROM events WHERE moment >= {last} AND moment < {now}"""
            parts.append(f"SELECT false AS back, * FROM ({self._rows_at(versions, last, now)})")
        fields = {
            SNAPSHOT_TIME: "make_timestamptz(taken.snapshot)",
            self._plan.event_time: "make_timestamptz(moment)",
            **dict(zip(self._plan.key, self._keys, strict=True)),
            **dict(zip(self._plan.columns, self._values, strict=True)),
            SNAPSHOT_ROW: "address",
        }
        named = ", ".join(f"{of} AS {identifier(name)}" for name, of in fields.items())
        # A field may be called as one of the columns that it is ordered by.
        found = self._connection.execute(f"""
            SELECT taken.snapshot - 1 AS {AT}, back AS {TAKEN_BACK}, {named}
            FROM ({" UNION ALL ".join(parts)}) taken
            ORDER BY taken.snapshot, taken.address, taken.back""")
        for batch in found.to_arrow_reader(_ROWS):
            yield pa.Table.from_batches([batch])

    def count_null_keys(self, times: Times) -> int:
        """The number of events that are no rows, since their key is null, and would change or come into a snapshot now.
        Of the first part alone. To be asked after ``take``.
        """
        ((events,),) = run_sql(
            self._connection,
            f"SELECT count(*) FROM without_key WHERE (is_new AND moment < {_micros(times.last)}) "
            f"OR (moment >= {_micros(times.last)} AND moment < {_micros(times.now)})",
        )
        return events

    @property
    def _columns(self) -> str:
        """Those of a version of a row."""
        return ", ".join(["moment", *_ARRIVAL, *self._keys, *self._values, "address", "deleted"])

    def _rows_at(self, versions: str, first: int, last: int) -> str:
        """A query: ``snapshot`` and the columns of a version, for each snapshot after ``first``, up to ``last``, and
        each of ``versions`` that is a row then: from its time on, up to that of the next one of its key.
        """
        every, key = self._plan.every // timedelta(microseconds=1), ", ".join(self._keys)
        arrival = ", ".join(f"{name} DESC" for name in _ARRIVAL)
        begin, end = (f"({time} - (({time} % {every}) + {every}) % {every})" for time in ("moment", "until"))
        snapshots = f"range(greatest({begin}, {first}) + {every}, least(coalesce({end}, {last}), {last}) + 1, {every})"
        newest = f"FROM ({versions}) QUALIFY row_number() OVER (PARTITION BY {key}, moment ORDER BY {arrival}) = 1"
        followed = f"SELECT *, lead(moment) OVER (PARTITION BY {key} ORDER BY moment) AS until FROM ({newest})"
        return f"SELECT unnest({snapshots}) AS snapshot, {self._columns} FROM ({followed}) WHERE NOT deleted"

    def _hold(self, archived: Archived) -> None:
        """Hold what is read of the keys of this part."""
        plan = self._plan
        address = [f"{identifier(name)} AS {of}" for name, of in zip((SEQUENCE, *ADDRESS), _ARRIVAL, strict=True)]
        no_address = ["NULL AS s", *(f"NULL AS {name}" for name in _ARRIVAL[1:])]
        row = f"concat_ws(':', {literal(plan.source)}, {', '.join(map(identifier, ADDRESS))})"
        event = f"""
            SELECT epoch_us({identifier(EVENT_TIME)}) AS moment, {", ".join([*address, *self._fields])},
                   {row} AS address, coalesce(({plan.deleted or "false"}), false) AS deleted,
                   {identifier(SEQUENCE)} > {self._after} AS is_new
            FROM archived WHERE NOT coalesce({identifier(DUPLICATE)}, false)"""
        empty = self._with_key(pa.schema([*plan.table.types.items()]).empty_table())
        for table in ("events", "without_key"):
            run_sql(self._connection, f"CREATE OR REPLACE TEMP TABLE {table} AS {event}", empty)
        for rows in map(self._with_key, archived.events):
            run_sql(self._connection, f"INSERT INTO events FROM ({event}) WHERE {self._is_of_part}", rows)
            if self._part.number == 0:
                run_sql(self._connection, f"INSERT INTO without_key FROM ({event}) WHERE NOT ({self._has_key})", rows)
        for rows in archived.tombstones:
            self._hold_tombstones(rows)
        snapshot = f"""
            SELECT epoch_us({identifier(HOUR)} + INTERVAL 1 HOUR) AS snapshot,
                   epoch_us({identifier(plan.event_time)}) AS moment, {", ".join([*no_address, *self._fields])},
                   {identifier(SNAPSHOT_ROW)} AS address, false AS deleted
            FROM archived"""
        none = pa.schema([*self._earlier.types.items()]).empty_table()
        run_sql(self._connection, f"CREATE OR REPLACE TEMP TABLE held AS {snapshot}", none)
        for rows in archived.snapshots:
            run_sql(self._connection, f"INSERT INTO held FROM ({snapshot}) WHERE {self._is_of_part}", rows)
        # A row that was taken back is there twice.
        standing = "FROM held QUALIFY count(*) OVER (PARTITION BY snapshot, address) = 1"
        run_sql(self._connection, f"CREATE OR REPLACE TEMP TABLE snapshots AS {standing}")

    def _hold_tombstones(self, rows: pa.Table) -> None:
        """Hold the tombstones among rejected records. They have no fields, and an address as events have."""
        assert self._plan.key_type, "the key of a record is that of the table"
        is_one = pc.and_(pc.equal(rows["decoding"], TOMBSTONE), pc.less_equal(rows["sequence"], self._up_to))
        rows = rows.filter(is_one)
        key = read_keys(rows["key"].combine_chunks(), self._plan.key_type)
        rows = rows.set_column(rows.column_names.index("key"), "key", key)
        tombstone = f"""
            SELECT epoch_us(counts) AS moment, sequence AS s, topic_id AS a0, partition AS a1, "offset" AS a2,
                   0 AS a3, key AS k0, true AS deleted, sequence > {self._after} AS is_new
            FROM archived"""
        run_sql(
            self._connection,
            f"INSERT INTO events BY NAME (SELECT * FROM ({tombstone}) WHERE {self._is_of_part})",
            rows.append_column("counts", times_of_tombstones(self._plan, rows)),
        )

    @property
    def _fields(self) -> list[str]:
        """The fields of a row, under the names that they have here."""
        names, here = [*self._plan.key, *self._plan.columns], [*self._keys, *self._values]
        return [f"{identifier(name)} AS {of}" for name, of in zip(names, here, strict=True)]

    @property
    def _has_key(self) -> str:
        return " AND ".join(f"{name} IS NOT NULL" for name in self._keys)

    @property
    def _is_of_part(self) -> str:
        """The condition under which a row has a key of this part."""
        part = self._part
        mine = [f"hash({', '.join(self._keys)}) % {part.of} = {part.number}"] if part.of > 1 else []
        return " AND ".join([self._has_key, *mine])

    def _with_key(self, rows: pa.Table) -> pa.Table:
        """The rows, with the key of their record as a field, if that is the key of the table."""
        if self._plan.key_type is None:
            return rows
        keys = pc.struct_field(rows[RECORD].combine_chunks(), "key")
        return rows.drop_columns(RECORD).append_column(SNAPSHOT_KEY, read_keys(keys, self._plan.key_type))


def _micros(time: datetime | None) -> int:
    """In microseconds since 1970. None comes before all."""
    return _BEFORE_ALL if time is None else (time - _EPOCH) // timedelta(microseconds=1)
