"""Which hours want recomputing, and why: closed ones that were never covered, were revised since, or belong to a new or
changed metric.

A blocked hour wants it again once there is a reason to think that it passes: new events, other expectations, or that
the audit itself had failed.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hourline_core.ledger.coverage import HourVersions
from hourline_core.ledger.snapshot import take_snapshot
from hourline_core.model import Project, declaration_hash, expectations_hash
from hourline_core.model.hours import HOUR, Clock, HourRange, sql_timestamp, wall_clock
from hourline_core.sql.database import open_database

FORCED = "forced"
"""The reason of an hour that wants no recomputing: it is final, or blocked for reasons that are still there."""

_REASONS = {
    "provisional": "never covered",
    "revised": "revised",
    "missing": "new metric",
    "final": FORCED,
    "blocked": FORCED,
}


@dataclass(frozen=True)
class PlannedHour:
    """One hour of one metric that wants recomputing."""

    source: str
    metric: str
    hour: datetime
    reason: str
    """never covered, revised, new metric, changed metric, blocked; or asked for."""
    events: int
    closed: bool
    version: int | None
    """The version of final that last published the hour; None: none has."""
    staged: int | None
    """The version of the staged table that holds its rows, where it is blocked."""


def plan(project: Project, metrics: list[str] | None = None, clock: Clock = wall_clock) -> list[PlannedHour]:
    """The hours to recompute (of ``metrics``, or all), by hour and metric. ``clock`` closes the hours of sources that
    go by wall time.
    """
    return [wanted for wanted in _hours(project, metrics, clock, None) if wanted.closed and wanted.reason != FORCED]


def plan_range(
    project: Project, hours: HourRange, metrics: list[str] | None = None, clock: Clock = wall_clock
) -> list[PlannedHour]:
    """All hours of the range in which a source has events, whether they want recomputing or not."""
    return _hours(project, metrics, clock, hours)


def not_started(project: Project) -> list[str]:
    """The metrics that are new or have changed since the speed layer started: there is nothing to plan for them until
    it starts again.
    """
    snapshot = take_snapshot(project)
    there = {tables.name for tables in snapshot.metrics}
    metrics = [metric for metric in project.metrics.values() if metric.source in snapshot.progress]
    return [m.name for m in metrics if f"{m.name}_{declaration_hash(project.sources[m.source], m)}" not in there]


def clocks(project: Project, clock: Clock = wall_clock) -> dict[str, datetime | None]:
    """By source, what its clock says (UTC); None where that is the time of its events, and it has none."""
    with open_database(project, clock) as (database, snapshot):
        newest = {
            name: database.execute(f"SELECT max(clock) FROM hourline.source_hours_{name}").fetchone()
            for name in snapshot.progress
        }
    wall = {source.name: clock() for source in project.sources.values() if source.clock == "wall"}
    return {name: row[0] if row else None for name, row in newest.items()} | wall


def already_published(project: Project, planned: list[PlannedHour], clock: Clock = wall_clock) -> list[PlannedHour]:
    """Those of ``planned`` that somebody else has published, or blocked, since they were planned, and that no late
    event has revised again.
    """
    hours = HourRange(min(item.hour for item in planned), max(item.hour for item in planned) + HOUR)
    now = {(item.metric, item.hour): item for item in _hours(project, None, clock, hours)}
    pairs = [(item, now.get((item.metric, item.hour), item)) for item in planned]
    return [
        item
        for item, found in pairs
        if (found.version, found.staged) != (item.version, item.staged) and found.reason == FORCED
    ]


def _hours(project: Project, metrics: list[str] | None, clock: Clock, hours: HourRange | None) -> list[PlannedHour]:
    with open_database(project, clock) as (database, snapshot):
        coverage, within = snapshot.coverage, ""
        if hours is not None:  # a range may be one hour of many years
            within = f"WHERE hour >= '{sql_timestamp(hours.start)}' AND hour < '{sql_timestamp(hours.end)}'"
            coverage = coverage.within(hours)
        rows = (
            database.execute(f"FROM hourline.metric_hours {within} ORDER BY hour, metric").to_arrow_table().to_pylist()
        )
    versions = coverage.versions()
    declarations = {
        metric.name: declaration_hash(project.sources[metric.source], metric) for metric in project.metrics.values()
    }
    expectations = {
        m.name: expectations_hash(project.sources[m.source].expectations, m.expectations, m.history)
        for m in project.metrics.values()
    }
    return [
        PlannedHour(
            row["source"],
            row["metric"],
            row["hour"],
            _reason(row, expectations[row["metric"]]),
            row["events"],
            row["closed"],
            *versions.get((row["metric"], row["declaration"], row["hour"]), HourVersions(None, None)),
        )
        for row in rows
        if row["declaration"] == declarations[row["metric"]] and (metrics is None or row["metric"] in metrics)
    ]


def _reason(row: dict[str, Any], expectations: str) -> str:
    if row["blocked_cutoff"] is not None:
        return "blocked" if row["fresh"] or row["expectations"] != expectations else FORCED
    return "changed metric" if row["state"] == "missing" and not row["served"] else _REASONS[row["state"]]
