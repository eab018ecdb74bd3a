"""Finds the versions that come to count, and those that count no more, in a task, by DuckDB. What does not fit into
memory goes to files.

A version counts unless a newer one of its key, or a tombstone that came after it, is within the distance. Whatever was
replaced once stays replaced, so the order of arrival changes nothing in the end. A reset may read a version again that
came before a tombstone, so within a partition, offsets tell which came first.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

import duckdb
import pyarrow as pa

from hourline_core.model.scratch_columns import TAKEN_BACK
from hourline_core.model.upsert import UPSERT_ROW
from hourline_core.sql.literals import identifier
from speed_layer.derived.rows import AT, WHOLE, Part
from speed_layer.derived.run_sql import read_sql, run_sql
from speed_layer.tables.versions import ARRIVAL, Versions
from speed_layer.upserts.plan import UpsertPlan


@dataclass(frozen=True)
class Archived:
    """What a micro-batch reads of the table, in tables of a bounded size."""

    new: Iterable[pa.Table]
    """New events, by the columns of the plan."""
    new_tombstones: Iterable[pa.Table]
    """Rejected records, with all new tombstones."""
    earlier: Iterable[pa.Table]
    """Earlier events, with all within twice the distance of new versions."""
    earlier_tombstones: Iterable[pa.Table]
    """Rejected records, with all tombstones of that time."""


class VersionFinder:
    """Finds the newest versions of one micro-batch, of the keys of a part, on a connection of its own."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        plan: UpsertPlan,
        sequences: tuple[int, int],
        part: Part = WHOLE,
    ) -> None:
        """The events above the first of two ``sequences``, up to the second, are new."""
        self._connection, self._plan = connection, plan
        self._versions = Versions(connection, plan, sequences, part, further={"v": identifier(plan.version)})

    def find(self, archived: Archived) -> Iterator[pa.Table]:
        """AT, TAKEN_BACK and the fields of versions that come to count, and of those that count no more, in the order
        of AT. The same each time.
        """
        versions, plan = self._versions, self._plan
        keys = ", ".join(versions.keys)
        versions.hold_events(archived.new)
        versions.hold_tombstones(archived.new_tombstones, "is_new")
        run_sql(self._connection, f"CREATE OR REPLACE TEMP TABLE touched AS SELECT DISTINCT {keys} FROM events")
        is_touched = f"NOT is_new AND ({keys}) IN (SELECT ({keys}) FROM touched)"
        versions.hold_events(archived.earlier, is_touched)
        versions.hold_tombstones(archived.earlier_tombstones, is_touched)
        fields = {
            plan.event_time: "make_timestamptz(moment)",
            **dict(zip(plan.key, versions.keys, strict=True)),
            **dict(zip(plan.columns, versions.values, strict=True)),
            UPSERT_ROW: "address",
        }
        named = ", ".join(f"{of} AS {identifier(name)}" for name, of in fields.items())
        # A field may be called as one of the columns that it is ordered by.
        yield from read_sql(
            self._connection,
            f"""
            SELECT one.moment AS {AT}, counted AS {TAKEN_BACK}, {named}
            FROM ({self._counting(keys)}) one WHERE counts <> counted ORDER BY one.moment, one.address""",
        )

    def count_null_keys(self) -> int:
        """The number of new events that are no versions, since their key is null. Of the first part alone. To be asked
        after ``find``.
        """
        ((events,),) = run_sql(self._connection, "SELECT count(*) FROM without_key")
        return events

    def _counting(self, keys: str) -> str:
        """A query: each version with ``counts``, whether it counts now, and ``counted``, whether it did before.

        The rank of a version is its place among those of its key, the newest first. The first rank within the distance
        is its own if it counts.
        """
        arrival, micros = ", ".join(ARRIVAL), self._plan.within // timedelta(microseconds=1)
        _, topic, partition, offset, _ = ARRIVAL
        near = f"ORDER BY moment RANGE BETWEEN {micros} PRECEDING AND {micros} FOLLOWING"
        is_event = "address IS NOT NULL"
        ranked = f"""
            SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY {arrival}) AS place,
                   row_number() OVER (PARTITION BY {keys}, {is_event} ORDER BY v DESC NULLS LAST, {arrival}) AS rank
            FROM events"""
        known = {"now": "true", "before": "NOT is_new"}
        decisive = [
            column
            for when, condition in known.items()
            for column in (
                f"min(rank) FILTER ({is_event} AND {condition}) OVER near AS first_{when}",
                f"max(place) FILTER (NOT ({is_event}) AND {condition}) OVER near AS gone_{when}",
                f"max({offset}) FILTER (NOT ({is_event}) AND {condition}) OVER near_here AS gone_here_{when}",
            )
        ]
        decided = f"""
            SELECT *, {", ".join(decisive)} FROM ({ranked})
            WINDOW near AS (PARTITION BY {keys} {near}),
                   near_here AS (PARTITION BY {keys}, {topic}, {partition} {near})"""
        counts, counted = (
            f"{condition} AND first_{when} = rank AND coalesce(gone_{when} < place, true) "
            f"AND coalesce(gone_here_{when} < {offset}, true)"
            for when, condition in known.items()
        )
        return f"SELECT *, {counts} AS counts, {counted} AS counted FROM ({decided}) WHERE {is_event} AND NOT deleted"
