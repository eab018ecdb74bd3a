"""Sums up the hours of each source and metric: the weakest state, and the oldest open hour.

An open hour without a recompute says nothing: it is provisional as it should be.
"""

from dataclasses import dataclass
from datetime import datetime

from hourline_core.model.hour_state import WEAKEST_FIRST, HourStateName
from hourline_core.sql.literals import literal
from serving_layer.connection import Connection
from serving_layer.described import Described


class MetricStatus(Described):
    """The state of one metric."""

    metric: str
    """The name of the metric."""
    source: str
    """The name of its source."""
    state: HourStateName | None
    """The weakest state of its hours, without open ones that are provisional. Null: there is none."""
    hours: int
    """The number of hours in that state."""


class LongSilence(Described):
    """The closed hours without an event that are too many to be listed one by one."""

    start: datetime
    """The first of them (UTC)."""
    end: datetime
    """The end of the last one (UTC, exclusive)."""
    hours: int
    """The number of them."""
    state: HourStateName
    """`final`, or `incomplete` while records of them may be lost."""


@dataclass(frozen=True)
class SourceHours:
    """The hours of one source. By default it has none."""

    state: HourStateName | None = None
    """The weakest state of its hours, without open ones that are provisional, or `stale` and never recomputed."""
    hours: int = 0
    """The number of hours in that state."""
    oldest_open: datetime | None = None
    """The oldest hour that has not closed (UTC)."""
    long_silences: tuple[LongSilence, ...] = ()
    """Its long silences, in their order."""


def sum_up_hours(connection: Connection) -> tuple[dict[str, SourceHours], list[MetricStatus]]:
    """By source, its hours, and each metric. A metric over another one is left out: it has the hours of that one."""
    # An open hour that was never recomputed is as it should be, also if events were taken back.
    counted = (
        "FROM hourline.metric_hours WHERE served AND "
        "(closed OR (state <> 'provisional' AND (state <> 'stale' OR cutoff IS NOT NULL)))"
    )
    rows = connection.sql(
        f"SELECT source, metric, state, count(*) {counted} GROUP BY ALL "
        # Hours of several metrics count once. Of a source whose hours are all final, each metric has all of them.
        f"UNION ALL SELECT source, NULL, state, count(DISTINCT hour) {counted} AND state <> 'final' GROUP BY ALL"
    ).fetchall()
    weakest: dict[tuple[str, str | None], tuple[HourStateName, int]] = {}
    for source, metric, name, count in sorted(rows, key=lambda row: WEAKEST_FIRST.index(row[2]), reverse=True):
        weakest[source, metric] = name, count
        if name == "final":
            weakest[source, None] = name, count
    open_hours = _of_each_source(connection, "min(hour) FILTER (NOT closed)")
    silences = connection.sql("FROM long_silences ORDER BY ALL").fetchall()
    sources = {}
    for name in connection.snapshot.progress:
        state, hours = weakest.get((name, None), (None, 0))
        silent = [
            LongSilence(start=start, end=end, hours=length, state=of)
            for source, start, end, length, of in silences
            if source == name
        ]
        sources[name] = SourceHours(state, hours, open_hours.get(name), tuple(silent))
    metrics = []
    for tables in connection.snapshot.served:
        name, of = tables.metric.name, tables.source.name
        state, hours = weakest.get((of, name), (None, 0))
        metrics.append(MetricStatus(metric=name, source=of, state=state, hours=hours))
    return sources, metrics


def read_clocks(connection: Connection) -> dict[str, datetime]:
    """By source, its clock (UTC). Those without an event are left out."""
    found = _of_each_source(connection, "max(clock)")
    return {source: clock for source, clock in found.items() if clock}


def _of_each_source(connection: Connection, value: str) -> dict[str, datetime | None]:
    """By source, an aggregate of its hours."""
    parts = [
        f"SELECT {literal(source)}, {value} FROM hourline.source_hours_{source}"
        for source in connection.snapshot.progress
    ]
    return dict(connection.sql(" UNION ALL ".join(parts)).fetchall()) if parts else {}
