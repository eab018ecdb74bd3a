"""One job of a recompute: take a cut, aggregate, stage, publish; all metrics of a chunk of hours at once."""

from dataclasses import dataclass
from datetime import datetime

import duckdb
import pyarrow as pa
from pyspark.sql import SparkSession

from batch_layer.archived_events import ArchivedEvents, magnitudes, tiles_of
from batch_layer.drift import Drift, HourDrift, Replay, Replayed
from batch_layer.plan import Wanted
from batch_layer.publish import Publication, Staged
from hourline.database import open_database
from hourline.declarations import Project
from hourline.hours import Clock
from hourline.measures import quoted
from hourline.merged import counted_states_sql, stored_types
from hourline.sketches import install_sketch_functions
from hourline.snapshot import MetricTables, Snapshot
from hourline.tiling import Tiling, resolve


@dataclass(frozen=True)
class Recomputed:
    """What one job has published."""

    hours: list[datetime]
    metrics: list[str]
    events: int
    """Events that were counted, duplicates left out."""
    cuts: dict[str, int]
    """By source, the sequence up to which it counted."""


def run_job(spark: SparkSession, project: Project, job: list[Wanted], clock: Clock) -> Recomputed:
    """Recompute and publish the hours of ``job``, and keep by how much they changed. ``clock`` dates the publication (UTC).

    Raises ConflictError when another process has published meanwhile; nothing that readers see has changed then.
    """
    began = clock()
    metrics = sorted({item.metric for item in job})
    tilings = [resolve(spark, project.sources[project.metrics[name].source], project.metrics[name]) for name in metrics]
    publication = Publication(project, tilings)
    # Progress (in the snapshot) before events: all that the cut speaks of was archived before progress was committed.
    with open_database(project, clock) as (database, snapshot):
        install_sketch_functions(database)
        uncovered = hours_to_cover(database)
        staged: list[Staged] = []
        counted_events = 0
        for source in [project.sources[name] for name in sorted({item.source for item in job})]:
            cut = snapshot.progress[source.name].sequence
            events = ArchivedEvents(spark, project, source, sorted({item.hour for item in job if item.source == source.name}), cut)
            counted = events.first_of_each_id().persist()
            try:
                counted_events += counted.count()
                for tiling in [tiling for tiling in tilings if tiling.source is source]:
                    hours = sorted(item.hour for item in job if item.metric == tiling.metric.name)
                    tiles = tiles_of(tiling, counted, hours)
                    takes_over = tiling.name in uncovered and uncovered[tiling.name] <= set(hours)
                    drift = _drift(spark, project, database, snapshot, tiling, tiles, hours, takes_over)
                    staged.append(publication.stage(tiling, tiles, hours, cut, drift, takes_over))
            finally:
                counted.unpersist()
    moment = clock()
    publication.publish(staged, moment, {"events": sum(item.events for item in job), "seconds": (moment - began).total_seconds()})
    cuts = {item.tiling.source.name: item.cut for item in staged}
    return Recomputed(sorted({item.hour for item in job}), metrics, counted_events, cuts)


def hours_to_cover(database: duckdb.DuckDBPyConnection) -> dict[str, set[datetime]]:
    """Of each declaration that is not served yet, the hours that no recompute has covered: once there are none, it takes over."""
    rows = database.execute(
        "SELECT metric || '_' || declaration, list(hour) FILTER (state = 'missing') FROM hourline.metric_hours WHERE NOT served GROUP BY ALL"
    ).fetchall()
    return {name: set(hours or []) for name, hours in rows}


def _drift(
    spark: SparkSession,
    project: Project,
    database: duckdb.DuckDBPyConnection,
    snapshot: Snapshot,
    tiling: Tiling,
    tiles: pa.Table,
    hours: list[datetime],
    takes_over: bool,
) -> list[HourDrift]:
    """By how much readers will see numbers change: by a declaration that is not served yet none, until it takes over, and then all."""
    served = next(tables for tables in snapshot.served if tables.metric.name == tiling.metric.name)
    cut = snapshot.progress[tiling.source.name].sequence
    drift = Drift(database, served, cut, _replay(spark, project, served, snapshot, cut))
    if served.declaration == tiling.declaration:
        return drift.of(tiling, tiles, hours)
    if not takes_over:
        return []
    newer = next(tables for tables in snapshot.metrics if tables.declaration == tiling.declaration and tables.metric.name == tiling.metric.name)
    columns = ", ".join(quoted(name) for name in tiling.schema.names)
    states = counted_states_sql(newer, stored_types(database, newer), cut)
    found = []
    covered = sorted({row["hour"] for row in snapshot.coverage.to_pylist() if row["declaration"] == tiling.declaration and row["hour"]} - set(hours))
    for first in range(0, len(covered), project.settings.batch.hours_per_job):
        chunk = covered[first : first + project.settings.batch.hours_per_job]
        database.register("_chunk", pa.table({"hour": pa.array(chunk, tiling.schema.field("hour").type)}))
        rows = database.execute(f"SELECT {columns} FROM ({states}) SEMI JOIN _chunk USING (hour)").to_arrow_table()
        found += drift.of(tiling, rows, chunk)
    return found + drift.of(tiling, tiles, hours)


def _replay(spark: SparkSession, project: Project, served: MetricTables, snapshot: Snapshot, cut: int) -> Replay:
    """What the archived events say should have been served, with and without the duplicates that were not recognised."""

    def replay(hours: list[datetime]) -> Replayed:
        tiling = resolve(spark, served.source, served.metric)
        events = ArchivedEvents(spark, project, served.source, hours, cut)
        rows = snapshot.coverage.to_pylist()
        before = {row["hour"]: row["cut"] for row in rows if (row["metric"], row["declaration"]) == (served.metric.name, served.declaration)}
        cuts = {hour: before[hour] for hour in hours if hour in before}
        first = events.first_of_each_id()
        return Replayed(tiles_of(tiling, events.counted_before(cuts), hours), tiles_of(tiling, first, hours), magnitudes(tiling, first))

    return replay
