"""The past hours that expectations can be tried on: the published hours of a metric, the closed hours of a source."""

from datetime import datetime

import duckdb

from hourline_core.errors import UsageError
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.ledger.snapshot import Snapshot
from hourline_core.model import DeclaredMetric, Metric, Project, Source
from hourline_core.model.hours import HourRange, hour_text
from hourline_core.sql.coverage import covered_hours_sql


def read_published_hours(
    connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, project: Project, metric: Metric
) -> tuple[MetricTables, list[datetime]]:
    """The tables of ``metric`` as it is declared now, and its published hours (UTC), in order. Raises UsageError if
    there are none.
    """
    name = DeclaredMetric(project.source_of(metric), metric).name
    tables = next((tables for tables in snapshot.metrics if tables.name == name), None)
    if tables is None or tables.final is None:
        raise UsageError(
            f"metric '{metric.name}' has no published hours, as it is declared now: `hourline recompute` publishes them"
        )
    query = f"SELECT hour FROM ({covered_hours_sql([tables])}) ORDER BY hour"
    return tables, [hour for (hour,) in connection.execute(query).fetchall()]


def read_closed_hours(connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, source: Source) -> dict[datetime, int]:
    """The closed hours (UTC) of ``source``, in order, with the number of their events. Raises UsageError if there are
    none.
    """
    hours = (
        connection.execute(
            f"SELECT hour, events FROM hourline.source_hours_{source.name} WHERE closed ORDER BY hour"
        ).fetchall()
        if source.name in snapshot.progress
        else []
    )
    if not hours:
        raise UsageError(
            f"source '{source.name}' has no closed hours: `hourline status` shows what has arrived, and its clock"
        )
    return dict(hours)


def choose(hours: list[datetime], within: HourRange, whose: str) -> list[datetime]:
    """Those of ``hours``, which are not empty, that are ``within`` a range. Raises UsageError if none is."""
    some = [hour for hour in hours if hour in within]
    if not some:
        first, last = hour_text(hours[0]), hour_text(hours[-1])
        raise UsageError(f"there is no {whose} hour in {within}: the first one is {first}, and the last one is {last}")
    return some
