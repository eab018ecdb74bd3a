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

from hourline_core.model.scratch_columns import HOUR, TAKEN_BACK
from hourline_core.model.snapshot import SNAPSHOT_ROW, SNAPSHOT_TIME
from hourline_core.sql.literals import identifier
from speed_layer.derived.rows import AT, WHOLE, Part
from speed_layer.derived.run_sql import read_sql, run_sql
from speed_layer.snapshots.plan import SnapshotPlan
from speed_layer.snapshots.step import Times
from speed_layer.tables.plan import ArchiveColumns
from speed_layer.tables.versions import ARRIVAL, Versions

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BEFORE_ALL = -(1 << 62)


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
        self._connection, self._plan, self._earlier = connection, plan, earlier
        self._versions = Versions(connection, plan, sequences, part, further={})

    def take(self, archived: Archived, times: Times) -> Iterator[pa.Table]:
        """AT, TAKEN_BACK and the fields of rows that come, and of those that are taken back, in the order of AT. The
        same each time.
        """
        self._hold(archived)
        key, columns = ", ".join(self._versions.keys), self._columns
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
            **dict(zip(self._plan.key, self._versions.keys, strict=True)),
            **dict(zip(self._plan.columns, self._versions.values, strict=True)),
            SNAPSHOT_ROW: "address",
        }
        named = ", ".join(f"{of} AS {identifier(name)}" for name, of in fields.items())
        # A field may be called as one of the columns that it is ordered by.
        yield from read_sql(
            self._connection,
            f"""
            SELECT taken.snapshot - 1 AS {AT}, back AS {TAKEN_BACK}, {named}
            FROM ({" UNION ALL ".join(parts)}) taken
            ORDER BY taken.snapshot, taken.address, taken.back""",
        )

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
        return ", ".join(["moment", *ARRIVAL, *self._versions.keys, *self._versions.values, "address", "deleted"])

    def _rows_at(self, versions: str, first: int, last: int) -> str:
        """A query: ``snapshot`` and the columns of a version, for each snapshot after ``first``, up to ``last``, and
        each of ``versions`` that is a row then: from its time on, up to that of the next one of its key.
        """
        every, key = self._plan.every // timedelta(microseconds=1), ", ".join(self._versions.keys)
        arrival = ", ".join(f"{name} DESC" for name in ARRIVAL)
        begin, end = (f"({time} - (({time} % {every}) + {every}) % {every})" for time in ("moment", "until"))
        snapshots = f"range(greatest({begin}, {first}) + {every}, least(coalesce({end}, {last}), {last}) + 1, {every})"
        newest = f"FROM ({versions}) QUALIFY row_number() OVER (PARTITION BY {key}, moment ORDER BY {arrival}) = 1"
        followed = f"SELECT *, lead(moment) OVER (PARTITION BY {key} ORDER BY moment) AS until FROM ({newest})"
        return f"SELECT unnest({snapshots}) AS snapshot, {self._columns} FROM ({followed}) WHERE NOT deleted"

    def _hold(self, archived: Archived) -> None:
        """Hold what is read of the keys of this part."""
        versions, connection = self._versions, self._connection
        versions.hold_events(archived.events)
        versions.hold_tombstones(archived.tombstones)
        columns = ", ".join([*(f"NULL AS {name}" for name in ARRIVAL), *versions.fields])
        snapshot = f"""
            SELECT epoch_us({identifier(HOUR)} + INTERVAL 1 HOUR) AS snapshot,
                   epoch_us({identifier(self._plan.event_time)}) AS moment, {columns},
                   {identifier(SNAPSHOT_ROW)} AS address, false AS deleted
            FROM archived"""
        none = pa.schema([*self._earlier.types.items()]).empty_table()
        run_sql(connection, f"CREATE OR REPLACE TEMP TABLE held AS {snapshot}", none)
        for rows in archived.snapshots:
            run_sql(connection, f"INSERT INTO held FROM ({snapshot}) WHERE {versions.is_of_part}", rows)
        # A row that was taken back is there twice.
        standing = "FROM held QUALIFY count(*) OVER (PARTITION BY snapshot, address) = 1"
        run_sql(connection, f"CREATE OR REPLACE TEMP TABLE snapshots AS {standing}")


def _micros(time: datetime | None) -> int:
    """In microseconds since 1970. None comes before all."""
    return _BEFORE_ALL if time is None else (time - _EPOCH) // timedelta(microseconds=1)
