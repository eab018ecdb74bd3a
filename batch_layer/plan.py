"""Plans the hours to recompute, and says why: closed hours that were never covered, were revised since, belong to a
new or changed metric, whose events meet other rows of a lookup since, or of which events were taken back.

A blocked hour is planned again once it may pass: after new events, with other expectations, by another decoding of its
records, or if the audit itself had failed. If something is expected of windows, new events of any hour of its windows
will do.
"""

import json
import math
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import duckdb

from batch_layer.decoding.changed_hours import ChangedHours, read_changed_hours
from hourline_core.errors import UsageError
from hourline_core.ledger.coverage import Coverage, HourVersions
from hourline_core.ledger.coverage_rows import NO_CUTOFF
from hourline_core.ledger.pending_declarations import find_pending
from hourline_core.ledger.snapshot import Snapshot
from hourline_core.model import Metric, Project, declaration_hash, expectations_hash
from hourline_core.model.hours import Clock, HourRange, sql_timestamp, wall_clock
from hourline_core.model.session_window import SessionWindow
from hourline_core.model.windows import HOURLY
from hourline_core.sql.database import open_database
from hourline_core.sql.problems import read_problems

FORCED = "forced"
"""The reason of an hour that is recomputed only because a person asked: it is final, or what blocked it has not
changed.
"""

CHANGED_METRIC = "changed metric"

TAKEN_BACK = "events taken back"
"""The reason of an hour that still counts events which were taken back since."""

_METRIC_HOURS = "hourline.metric_hours"
"""Where the plan reads each hour of each metric."""

_REASONS = {
    "provisional": "never covered",
    "revised": "revised",
    "missing": "new metric",
    "final": FORCED,
    "blocked": FORCED,
}


@dataclass(frozen=True)
class PlannedHour:
    """One hour of one metric to recompute."""

    source: str
    metric: str
    hour: datetime
    reason: str
    """Why: never covered, revised, new metric, changed metric, lookup NAME changed, events taken back, blocked, or
    forced.
    """
    events: int
    """The number of the source's events in the hour, which may be 0."""
    closed: bool
    version: int | None
    """The version of final that last published the hour; None if none has."""
    staged: int | None
    """The version of the staged table that holds its rows, if it is blocked."""
    changed_lookups: tuple[str, ...] = ()
    """The lookups in which its events meet other rows since it was published, if it is stale."""


def plan(project: Project, metrics: list[str] | None = None, clock: Clock = wall_clock) -> list[PlannedHour]:
    """The hours to recompute (of ``metrics``, or all), by hour and metric. ``clock`` (UTC) closes the hours of
    sources that use wall time. Raises TableError.
    """
    with open_database(project, clock, {_METRIC_HOURS}) as (database, snapshot):
        hours = list_hours(project, database, snapshot, metrics)
        waiting = too_many_stale(project, snapshot.coverage)
    closed = [planned for planned in hours if planned.closed and waiting.isdisjoint(planned.changed_lookups)]
    return [planned for planned in _retry_windows(project, closed) if planned.reason != FORCED]


def too_many_stale(project: Project, coverage: Coverage) -> set[str]:
    """The lookups that make more hours stale than is allowed, so that these wait for a person."""
    stale = coverage.stale_hours()
    return {name for name, hours in stale.items() if len(hours) > _most_changed_hours(project, name)}


def _most_changed_hours(project: Project, name: str) -> float:
    """The bound of a lookup. If it is declared no more, its hours are those of a former declaration."""
    return project.lookups[name].most_changed_hours if name in project.lookups else math.inf


def plan_range(
    project: Project, hours: HourRange, metrics: list[str] | None = None, clock: Clock = wall_clock
) -> list[PlannedHour]:
    """All hours of the range that a source has, whether or not there is a reason to recompute them. Raises
    TableError.
    """
    with open_database(project, clock, {_METRIC_HOURS}) as (database, snapshot):
        return list_hours(project, database, snapshot, metrics, hours)


def plan_problem(project: Project, id: str, clock: Clock = wall_clock) -> list[PlannedHour]:
    """The hours of the problem with that id, whether or not there is a reason to recompute them. Raises UsageError
    when it is closed or unknown, or when its metric was declared again since, TableError.
    """
    with open_database(project, clock, {_METRIC_HOURS, "hourline.quality"}) as (database, snapshot):
        problems = read_problems(database, snapshot.sources_of_blocked)
        problem = problems.find(id)
        cells = {(one.metric, one.hour) for one in problem.hours}
        spanning = HourRange.spanning([hour for _, hour in cells])
        hours = list_hours(project, database, snapshot, None, spanning)
        planned = [item for item in hours if (item.metric, item.hour) in cells]
        if not planned:
            pending = [one.in_words() for one in find_pending(project, snapshot) if one.metric in problem.metrics]
            raise UsageError(f"no hour of problem '{id}' can be recomputed now: {'; '.join(pending)}")
    return planned


def read_clocks(project: Project, clock: Clock = wall_clock) -> dict[str, datetime | None]:
    """By source, its clock (UTC). None: the source uses event time, and has no events."""
    needed = {f"hourline.source_hours_{name}" for name in project.sources}
    with open_database(project, clock, needed) as (database, snapshot):
        newest = {
            name: database.execute(f"SELECT max(clock) FROM hourline.source_hours_{name}").fetchone()
            for name in snapshot.progress
        }
    wall = {source.name: clock() for source in project.sources.values() if source.clock == "wall"}
    return {name: row[0] if row else None for name, row in newest.items()} | wall


def list_hours(
    project: Project,
    database: duckdb.DuckDBPyConnection,
    snapshot: Snapshot,
    metrics: list[str] | None,
    hours: HourRange | None = None,
) -> list[PlannedHour]:
    """All hours of the range ``hours``, by hour and metric. None: all hours that are not final, however many are."""
    changed = {
        name: of_source
        for name, known in snapshot.progress.items()
        # A source without metrics, such as the input of a join, has no hours to recompute.
        if project.metrics_of(name)
        and (of_source := read_changed_hours(database, project, project.sources[name], known.sequence))
    }
    # Hours that are final by another decoding are planned, too.
    coverage, within = snapshot.coverage, "" if changed else "WHERE counted <> 'final'"
    if hours is not None:  # a range may be one hour of many years
        within = f"WHERE hour >= '{sql_timestamp(hours.start)}' AND hour < '{sql_timestamp(hours.end)}'"
        coverage = coverage.within(hours)
    rows = database.execute(f"FROM {_METRIC_HOURS} {within} ORDER BY hour, metric").to_arrow_table().to_pylist()
    versions = coverage.versions()
    declarations = {
        metric.name: declaration_hash(project.source_of(metric), metric) for metric in project.metrics.values()
    }
    expectations = {
        metric.name: expectations_hash(project.source_of(metric), metric) for metric in project.metrics.values()
    }
    planned: list[PlannedHour] = []
    for row in rows:
        if row["declaration"] != declarations[row["metric"]] or (metrics is not None and row["metric"] not in metrics):
            continue
        of_hour = versions.get((row["metric"], row["declaration"], row["hour"]), HourVersions(None, None))
        of_source, metric = changed.get(row["source"]), project.metrics[row["metric"]]
        reason = _reason(row, expectations[row["metric"]])
        if (
            of_source
            and row["counted"] == "missing"
            and of_source.lack_bytes(project.source_of(metric), metric, row["hour"])
        ):
            continue
        if of_source and reason in (CHANGED_METRIC, FORCED):
            reason = _reason_by_decoding(row, of_hour, of_source) or reason
        planned.append(
            PlannedHour(
                row["source"],
                row["metric"],
                row["hour"],
                reason,
                row["events"],
                row["closed"],
                of_hour.final,
                of_hour.staged,
                tuple(json.loads(row["changed_lookups"] or "[]")) if row["counted"] == "stale" else (),
            )
        )
    # A declaration that the speed layer has not started with yet has no tables.
    begun = {
        tables.metric.name for tables in snapshot.metrics if tables.declaration == declarations.get(tables.metric.name)
    }
    chosen = begun if metrics is None else begun.intersection(metrics)
    return planned + list(_entered_hours(project, database, changed, planned, chosen, hours))


def _entered_hours(
    project: Project,
    database: duckdb.DuckDBPyConnection,
    changed: Mapping[str, ChangedHours],
    planned: list[PlannedHour],
    metrics: Collection[str],
    hours: HourRange | None,
) -> Iterator[PlannedHour]:
    """The hours of ``metrics`` that have events only by today's declaration, and are not listed yet."""
    known = {(item.metric, item.hour) for item in planned}
    for name, of_source in changed.items():
        source = project.sources[name]
        ((clock,),) = database.execute(f"SELECT max(clock) FROM hourline.source_hours_{name}").fetchall()
        reason = "; ".join(of_source.decodings.describe_changes())
        for hour, events in sorted(of_source.entered.items()):
            closed = clock is not None and hour + HOURLY.complete_after(source.grace) <= clock
            for metric in project.metrics_of(name):
                if (
                    (metric.name, hour) not in known
                    and metric.name in metrics
                    and (hours is None or hours.start <= hour < hours.end)
                ):
                    yield PlannedHour(name, metric.name, hour, reason, events, closed, None, None)


def _retry_windows(project: Project, hours: list[PlannedHour]) -> list[PlannedHour]:
    """``hours``, with a reason to recompute each blocked one that shares a window with one that has a reason, if its
    metric expects something of windows: the window may pass now.
    """
    again: set[tuple[str, datetime]] = set()
    for metric in project.metrics.values():
        if all(one.about == "hour" for one in metric.expectations):
            continue
        of_metric = [planned for planned in hours if planned.metric == metric.name]
        blocked = [planned.hour for planned in of_metric if planned.staged is not None]
        changed = [planned for planned in of_metric if planned.reason != FORCED]
        if metric.session:
            # A session that was judged has no event in an hour that nobody has recomputed.
            known = [
                planned.hour
                for planned in changed
                if planned.reason in ("revised", "blocked", TAKEN_BACK) or planned.changed_lookups
            ]
            shared = _share_sessions(metric.session, blocked, known)
        else:
            shared = _share_windows(metric, blocked, [planned.hour for planned in changed])
        again |= {(metric.name, hour) for hour in shared}
    return [
        replace(planned, reason="blocked") if (planned.metric, planned.hour) in again else planned for planned in hours
    ]


def _share_windows(metric: Metric, blocked: list[datetime], changed: list[datetime]) -> list[datetime]:
    """Those of ``blocked`` that share a window with one of ``changed``."""
    windows = {window for hour in changed for window in metric.windows_of(hour)}
    return [hour for hour in blocked if not windows.isdisjoint(metric.windows_of(hour))]


def _share_sessions(session: SessionWindow, blocked: list[datetime], changed: list[datetime]) -> list[datetime]:
    """Those of ``blocked`` that may share a session with one of ``changed``, which are sorted, whatever the events
    are.
    """

    def is_near(hour: datetime) -> bool:
        place = bisect_right(changed, hour - session.reach)
        return place < len(changed) and changed[place] < hour + session.reach

    return [hour for hour in blocked if is_near(hour)]


def _reason_by_decoding(row: dict[str, Any], known: HourVersions, now: ChangedHours) -> str | None:
    """Why the declaration of now asks for an hour that its tiles alone do not ask for. None: it does not."""
    is_blocked = known.staged is not None
    if row["counted"] != "missing" or is_blocked:
        last = known.blocked_decoding if is_blocked else known.decoding
        cutoff = row["blocked_cutoff"] if is_blocked else row["cutoff"]
        if last == now.decodings.now.hash:
            # The speed layer has archived records by an older declaration since.
            return ("blocked" if is_blocked else "revised") if now.changed_after(row["hour"], cutoff) else None
        if last is None and not now.changed_after(row["hour"], NO_CUTOFF):
            return None  # An older version of Hourline published it. Its events stand as they were archived.
    return "blocked" if is_blocked else "; ".join(now.decodings.describe_changes())


def _reason(row: dict[str, Any], expectations: str) -> str:
    if row["blocked_cutoff"] is not None:
        return "blocked" if row["fresh"] or row["expectations"] != expectations else FORCED
    if row["counted"] == "stale":
        changed = " and ".join(json.loads(row["changed_lookups"] or "[]"))
        return f"lookup {changed} changed" if changed else TAKEN_BACK
    return CHANGED_METRIC if row["counted"] == "missing" and not row["served"] else _REASONS[row["counted"]]
