"""Which hours want recomputing, and why: settled ones that were never covered, were revised since, or belong to a new or changed metric."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hourline.database import open_database
from hourline.declarations import Project, declaration_hash
from hourline.hours import Clock, HourRange, wall_clock

_REASONS = {"provisional": "never covered", "revised": "revised", "missing": "new metric", "final": "asked for"}


@dataclass(frozen=True)
class Wanted:
    """One hour of one metric that wants recomputing."""

    source: str
    metric: str
    hour: datetime
    reason: str
    """never covered, revised, new metric, changed metric; or asked for."""
    events: int
    settled: bool


def plan(project: Project, metrics: list[str] | None = None, clock: Clock = wall_clock) -> list[Wanted]:
    """The hours to recompute (of ``metrics``, or all), by hour and metric. ``clock`` settles the hours of sources that go by wall time."""
    return [wanted for wanted in _hours(project, metrics, clock) if wanted.settled and wanted.reason != _REASONS["final"]]


def plan_range(project: Project, hours: HourRange, metrics: list[str] | None = None, clock: Clock = wall_clock) -> list[Wanted]:
    """All hours of the range in which a source has events, whether they want recomputing or not."""
    return [wanted for wanted in _hours(project, metrics, clock) if wanted.hour in hours]


def _hours(project: Project, metrics: list[str] | None, clock: Clock) -> list[Wanted]:
    current = {metric.name: declaration_hash(project.sources[metric.source], metric) for metric in project.metrics.values()}
    with open_database(project, clock) as (database, _):
        rows = database.execute("FROM hourline.metric_hours ORDER BY hour, metric").to_arrow_table().to_pylist()
    return [
        Wanted(row["source"], row["metric"], row["hour"], _reason(row), row["events"], row["settled"])
        for row in rows
        if row["declaration"] == current[row["metric"]] and (metrics is None or row["metric"] in metrics)
    ]


def _reason(row: dict[str, Any]) -> str:
    return "changed metric" if row["state"] == "missing" and not row["served"] else _REASONS[row["state"]]
