"""Publishes what was audited: the hours that passed, the findings and the drift."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

import duckdb

from batch_layer.drift.measure import measure_drift
from batch_layer.job import Job
from batch_layer.publication import MetricPublication, Publication
from batch_layer.stage import StagedMetric
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.lookups.pinning import versions_text

if TYPE_CHECKING:
    from batch_layer.audit.run_audit import AuditedSource


@dataclass(frozen=True)
class Recomputed:
    """The outcome of one job. Hours are (metric, hour in UTC)."""

    published: list[tuple[str, datetime]]
    blocked: list[tuple[str, datetime]]
    """Hours that did not pass their audit. Readers keep what they had."""
    events: int
    """The number of events that were counted, without duplicates."""
    cutoffs: dict[str, int]
    """By source, the sequence up to which events were counted."""
    began: datetime
    """When the job began (UTC), once Spark and Great Expectations had started."""

    @property
    def hours(self) -> list[datetime]:
        """All hours that were recomputed."""
        return sorted({hour for _, hour in (*self.published, *self.blocked)})


def publish(publication: Publication, job: Job, audited: list["AuditedSource"], began: datetime) -> Recomputed:
    """Publish the hours of a job that passed their audit. ``began`` (UTC) is the start of the job.

    Raises ConflictError when another process has published meanwhile. Then nothing that readers see has changed.
    """
    # Great Expectations, which it needs, is imported while Spark starts.
    from batch_layer.audit.quality_rows import make_quality_rows

    metrics = [
        prepare(job, metric, source.blocked(metric.aggregation))
        for source in audited
        for metric in source.staged.metrics
    ]
    moment = job.clock()
    findings = make_quality_rows(audited, moment)
    cost = {"events": sum(item.events for item in job.hours), "seconds": (moment - began).total_seconds()}
    publication.publish(metrics, findings, moment, cost)
    return Recomputed(
        published=[(item.aggregation.metric.name, hour) for item in metrics for hour in item.passed],
        blocked=[(item.aggregation.metric.name, hour) for item in metrics for hour in sorted(item.blocked)],
        events=sum(source.events for source in audited),
        cutoffs={source.staged.events.source.name: source.staged.events.cutoff for source in audited},
        began=began,
    )


def prepare(job: Job, staged: StagedMetric, blocked: Mapping[datetime, str]) -> MetricPublication:
    """What to publish of one metric, with the drift of the hours that are not ``blocked``."""
    together = job.at_once.get(staged.aggregation.metric.name, ())
    if held := [hour for hour in together if hour in blocked]:
        # Events move between these hours. Those that passed would count what the blocked ones still count, or lack it.
        blocked = {**dict.fromkeys(together, blocked[held[0]]), **blocked}
    lookups = versions_text(job.pin_lookups(staged.aggregation.source))
    metric = MetricPublication(staged, blocked, lookups=lookups, lookups_as_of=job.lookups_as_of)
    aggregation, changed = metric.aggregation, job.changed.get(metric.aggregation.source.name)
    is_served = any(tables.name == aggregation.name for tables in job.snapshot.served)

    def stays_missing(hour: datetime) -> bool:
        return changed is not None and changed.lack_bytes(aggregation.source, aggregation.metric, hour)

    # Hours that get events by decoding anew alone are not listed as missing.
    entered = changed.entered if changed else {}
    covered = job.snapshot.coverage.of(aggregation.metric.name, aggregation.declaration).covered(entered)
    is_whole = not entered.keys() - covered.keys() - {*metric.passed}
    promoted = is_whole and promotes(job.database, aggregation, metric.passed, is_served, stays_missing)
    passed = replace(staged, hours=metric.passed, rows=staged.rows_of(metric.passed))
    return replace(metric, drift=measure_drift(job, passed, promoted), promotes=promoted)


def promotes(
    database: duckdb.DuckDBPyConnection,
    aggregation: AggregationPlan,
    passed: list[datetime],
    is_served: bool,
    stays_missing: Callable[[datetime], bool] = lambda hour: False,
) -> bool:
    """Whether publishing ``passed`` (hours in UTC) promotes the declaration: it is not served yet, and no other hour
    is missing, but for those that no recompute can compute (``stays_missing``).
    """
    if is_served:
        return False
    ((hours, missing),) = database.execute(
        "SELECT count(*), list(hour) FILTER (state = 'missing') FROM hourline.metric_hours "
        "WHERE NOT served AND metric = ? AND declaration = ?",
        [aggregation.metric.name, aggregation.declaration],
    ).fetchall()
    # There may be no hours but those that get events by decoding anew.
    return (hours > 0 or bool(passed)) and all(hour in passed or stays_missing(hour) for hour in missing or [])
