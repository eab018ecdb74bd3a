"""Recounts published hours, one after the other, each in a snapshot of its own."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import groupby
from typing import Any

import duckdb
from pyspark.sql import SparkSession

from batch_layer.job import Job
from batch_layer.read_archive import ArchivedEvents
from batch_layer.recount.compare import Difference, count_cells, find_differences
from batch_layer.recount.counted import keep_counted
from batch_layer.recount.groups import group_rows
from batch_layer.recount.published_hours import PublishedHour
from batch_layer.recount.read_rows import Row, read_rows
from hourline_core.aggregates.python_values import UnreadableValueError, read_events
from hourline_core.compute.aggregation import plan_aggregation
from hourline_core.compute.check import refuse_unresolved
from hourline_core.compute.lookup_columns import with_lookups
from hourline_core.errors import TableError, UsageError
from hourline_core.ledger.coverage_rows import CoveredHour
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.lookups.pinning import pin_recorded, versions_of
from hourline_core.model import Project
from hourline_core.model.hours import Clock, hour_text, wall_clock
from hourline_core.runtime.spark import spark_session, stop_spark
from hourline_core.sql.database import FUNCTIONS, open_database
from hourline_core.sql.literals import identifier, literal
from hourline_core.sql.merge import finished_sql
from hourline_core.sql.types import column_types


@dataclass(frozen=True)
class RecountedHour:
    """What a recount of one hour of one metric has found."""

    hour: datetime
    metric: str
    cells: int
    """The number of values that were compared."""
    differences: list[Difference]


def recount(
    project: Project,
    chosen: list[PublishedHour],
    on_hour: Callable[[int], None] = lambda done: None,
    clock: Clock = wall_clock,
) -> list[RecountedHour]:
    """Recount the ``chosen`` hours, and compare them with what is published. Nothing is written. ``on_hour`` is called
    with the number of hours that are done, over all metrics. Hours of a declaration that is not served any more are
    left out.

    Raises TableError when the archive has lost the events of an hour, UsageError when Python cannot hold their values,
    DeclarationError, and what Spark raises.
    """
    found: list[RecountedHour] = []
    with ExitStack() as held:

        @cache
        def spark() -> SparkSession:
            session = spark_session(project, "recount", brief=True)
            held.callback(stop_spark, session)
            refuse_unresolved(session, project)
            return session

        done = 0
        for _, of_hour in groupby(chosen, key=lambda one: one.hour):
            together = list(of_hour)
            needed = {FUNCTIONS, *(f"hourline.final_{one.tables}" for one in together)}
            with open_database(project, clock, needed) as (database, snapshot):
                job = Job(project, [], [], database, snapshot, clock, spark)
                served = {tables.name: tables for tables in snapshot.served}
                for one in together:
                    if one.tables in served:
                        found += _recount_hour(job, served[one.tables], one.hour)
                    done += 1
                    on_hour(done)
    return found


def _recount_hour(job: Job, tables: MetricTables, hour: datetime) -> Iterator[RecountedHour]:
    metric = tables.metric
    covered = job.snapshot.coverage.of(metric.name, tables.declaration).covered([hour])
    if hour not in covered:
        return
    published = _read_published(job.database, tables, hour)
    seen = _Seen(_read_archived(job, tables, covered))
    try:
        groups = group_rows(metric, keep_counted(seen, hour, covered[hour].cutoff, takes_back=tables.source.takes_back))
    except UnreadableValueError:
        raise UsageError(
            f"{hour_text(hour)} of '{metric.name}' cannot be recounted: an event has a date or time beyond the years 1 "
            "to 9999, which Python does not have; choose other metrics by --metric"
        ) from None
    if published and not seen.rows:
        raise TableError(
            f"the archive of source '{tables.source.name}' has no event of {hour_text(hour)}, for which "
            f"'{metric.name}' has {len(published):,} row(s): its events were deleted; "
            "restore the tables from a backup, and do not recompute this hour before"
        )
    differences = find_differences(metric, published, groups)
    yield RecountedHour(hour, metric.name, count_cells(metric, published, groups), differences)


def _read_published(database: duckdb.DuckDBPyConnection, tables: MetricTables, hour: datetime) -> list[dict[str, Any]]:
    """The finished values of the hour in the final table, one row for each group. Its functions are installed."""
    final = f"hourline.final_{tables.name}"
    stored = column_types(database, final)
    states = f"(SELECT *, 'final' AS state FROM {final} WHERE hour = {literal(hour)})"
    columns = [*tables.metric.dimensions, *tables.metric.measures]
    query = f"SELECT {', '.join(map(identifier, columns))} FROM ({finished_sql(tables.metric, stored, states)})"
    rows = database.execute(query).to_arrow_table()
    values = read_events([column.combine_chunks() for column in rows.columns])
    return [dict(zip(columns, row, strict=True)) for row in values]


def _read_archived(job: Job, tables: MetricTables, covered: dict[datetime, CoveredHour]) -> Iterator[Row]:
    """The archived events of the covered hour, as they were served."""
    aggregation = plan_aggregation(job.spark(), tables.source, tables.metric)
    last = job.snapshot.progress[tables.source.name].sequence
    (of_hour,) = covered.values()
    versions = versions_of(of_hour.lookups)
    pinned = pin_recorded(tables.source, Layout.of(job.project), versions, list(covered))
    events = ArchivedEvents(
        job,
        tables.source,
        list(covered),
        last,
        served=covered,
        look_up=lambda events: with_lookups(events, tables.source, pinned),
    )
    yield from read_rows(aggregation, events.with_fields())


class _Seen:
    """Counts the rows that are taken."""

    def __init__(self, rows: Iterator[Row]) -> None:
        self._rows = rows
        self.rows = 0

    def __iter__(self) -> Iterator[Row]:
        for row in self._rows:
            self.rows += 1
            yield row
