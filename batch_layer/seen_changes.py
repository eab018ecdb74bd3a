"""By how much readers will see numbers change when staged hours are published: the drift of a publication."""

from collections.abc import Callable
from datetime import datetime

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from batch_layer.archived_events import ArchivedEvents, counting, magnitudes, tiles_of
from batch_layer.drift import Drift, HourDrift, Replay, Replayed
from batch_layer.publish import Staged
from hourline_core.compute.aggregation import plan_aggregation
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.ledger.snapshot import Snapshot
from hourline_core.model import Project
from hourline_core.sql.literals import identifier
from hourline_core.sql.merge import counted_states_sql, stored_types


def hours_to_cover(database: duckdb.DuckDBPyConnection) -> dict[str, set[datetime]]:
    """Of each declaration that is not served yet, the hours that no recompute has covered: once there are none, it
    takes over.
    """
    rows = database.execute(
        "SELECT metric || '_' || declaration, list(hour) FILTER (state = 'missing') FROM hourline.metric_hours WHERE NOT served GROUP BY ALL"
    ).fetchall()
    return {name: set(hours or []) for name, hours in rows}


def seen_changes(
    spark: Callable[[], SparkSession],
    project: Project,
    database: duckdb.DuckDBPyConnection,
    snapshot: Snapshot,
    staged: Staged,
    promotes: bool,
) -> list[HourDrift]:
    """The drift of the hours that passed: of a declaration that is not served yet none, until it takes over, and then
    of all its hours.

    ``spark`` is asked for only where a difference has to be explained.
    """
    aggregation = staged.aggregation
    served = next(tables for tables in snapshot.served if tables.metric.name == aggregation.metric.name)
    drift = Drift(database, served, staged.cutoff, _replay(spark, project, served, snapshot, staged.cutoff))
    tiles = staged.rows.filter(
        pc.is_in(staged.rows["hour"], pa.array(staged.passed, staged.rows.schema.field("hour").type))
    )
    if served.declaration == aggregation.declaration:
        return drift.of(aggregation, tiles, staged.passed) if staged.passed else []
    if not promotes:
        return []
    newer = next(
        tables
        for tables in snapshot.metrics
        if tables.declaration == aggregation.declaration and tables.metric.name == aggregation.metric.name
    )
    columns = ", ".join(identifier(name) for name in aggregation.schema.names)
    states = counted_states_sql(newer, stored_types(database, newer), staged.cutoff)
    found = []
    cutoffs = snapshot.coverage.of(aggregation.metric.name, aggregation.declaration).cutoffs()
    covered = sorted(cutoffs.keys() - set(staged.passed))
    for first in range(0, len(covered), project.settings.batch.hours_per_job):
        chunk = covered[first : first + project.settings.batch.hours_per_job]
        database.register("_chunk", pa.table({"hour": pa.array(chunk, aggregation.schema.field("hour").type)}))
        fresh = database.execute(f"SELECT {columns} FROM ({states}) SEMI JOIN _chunk USING (hour)").to_arrow_table()
        found += drift.of(aggregation, fresh, chunk)
    return found + (drift.of(aggregation, tiles, staged.passed) if staged.passed else [])


def _replay(
    spark: Callable[[], SparkSession], project: Project, served: MetricTables, snapshot: Snapshot, cutoff: int
) -> Replay:
    """What the archived events say should have been served, with and without the duplicates that were not recognised."""

    def replay(hours: list[datetime]) -> Replayed:
        session = spark()
        aggregation = plan_aggregation(session, served.source, served.metric)
        events = ArchivedEvents(session, project, served.source, hours, cutoff)
        cutoffs = snapshot.coverage.of(served.metric.name, served.declaration).cutoffs(hours)
        first = counting(events.marked())
        return Replayed(
            tiles_of(aggregation, events.counted_before(cutoffs), hours),
            tiles_of(aggregation, first, hours),
            magnitudes(aggregation, first),
        )

    return replay
