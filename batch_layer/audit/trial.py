"""Tries the expectations of a metric or a source on past hours, as an audit would evaluate them. It changes no table.

Results are evaluated in pandas. Only the expectations on events need Spark.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import cache

import duckdb
from pyspark.sql import SparkSession

from batch_layer.audit import facts
from batch_layer.audit.built_in_expectations import compare_with_history
from batch_layer.audit.declared_expectations import build_checks
from batch_layer.audit.event_expectations import validate_events
from batch_layer.audit.findings import Finding
from batch_layer.audit.history_bounds import read_past_values
from batch_layer.audit.past_hours import choose, read_closed_hours, read_published_hours
from batch_layer.audit.validator import Validator
from batch_layer.audit.volume import compare_volume, read_arrivals
from batch_layer.audit.window_results import validate_windows
from batch_layer.job import Job
from batch_layer.read_archive import ArchivedEvents
from batch_layer.split_jobs import HOURS, split_hours
from hourline_core.compute.check import refuse_unresolved
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.model import Metric, Project, Source
from hourline_core.model.hours import HOUR, Clock, HourRange, hour_text
from hourline_core.runtime.spark import spark_session, stop_spark
from hourline_core.sql.database import open_database


@dataclass(frozen=True)
class Trial:
    """What the expectations have found in past hours."""

    hours: list[datetime]
    """The hours (UTC) that they were tried on, in order."""
    findings: list[Finding]

    def hours_that_would_be(self, outcome: str) -> set[str]:
        """The hours (as text) that would be ``blocked``, or that would be published as ``warned``."""
        blocked = {finding.hour for finding in self.findings if finding.blocks}
        if outcome == "blocked":
            return blocked
        return {finding.hour for finding in self.findings if not finding.success} - blocked


OnHours = Callable[[int], Callable[[int], None]]
"""Called with the number of hours to try. Returns what to call with the number of those that are done."""


def try_on_results(project: Project, metric: Metric, within: HourRange, clock: Clock, on_hours: OnHours) -> Trial:
    """Try the expectations and the history of ``metric`` on its published results. Raises UsageError if there are none
    in the range, TableError.
    """
    with open_database(project, clock) as (connection, snapshot):
        tables, published = read_published_hours(connection, snapshot, project, metric)
        hours = choose(published, within, "published")
        sequence = snapshot.progress[metric.source].sequence
        done, validator, findings = on_hours(len(hours)), Validator(), list[Finding]()
        for number, some in enumerate(split_hours(hours)):
            findings += _try_results(connection, tables, metric, some, sequence, validator)
            done(min(len(hours), (number + 1) * HOURS))
    return Trial(hours, findings)


def _try_results(
    connection: duckdb.DuckDBPyConnection,
    tables: MetricTables,
    metric: Metric,
    hours: list[datetime],
    sequence: int,
    validator: Validator,
) -> list[Finding]:
    final = f"SELECT * FROM hourline.final_{tables.name} WHERE hour >= $first AND hour <= $last"
    rows = connection.execute(final, {"first": hours[0], "last": hours[-1]}).to_arrow_table()
    frame, types = facts.read_result_frame(connection, metric, rows)
    known = read_past_values(connection, tables, metric.history, hours[0], hours[-1] + HOUR)
    arrivals = read_arrivals(connection, tables.source, sequence, hours[0], hours[-1], metric.history.days)
    of_hours = {hour: known[hour] for hour in hours if hour in known}
    validations = [
        validator.evaluate_facts(compare_with_history(metric, of_hours, hours, known, arrivals.events)),
        validator.evaluate_results(
            frame,
            build_checks((one for one in metric.expectations if one.about == "hour"), types),
            [hour_text(hour) for hour in hours],
            ["hour", *metric.dimensions],
        ),
        validate_windows(validator, connection, tables, metric, hours),
    ]
    return [finding for validation in validations for finding in validation.findings]


def try_on_events(project: Project, source: Source, within: HourRange, clock: Clock, on_hours: OnHours) -> Trial:
    """Try the expectations and the volume of ``source`` on its archived events, in closed hours. Raises UsageError if
    there are none in the range, DeclarationError, TableError, and what Spark raises.
    """
    with ExitStack() as held:
        connection, snapshot = held.enter_context(open_database(project, clock))

        @cache
        def spark() -> SparkSession:
            session = spark_session(project, "audit", brief=True)
            held.callback(stop_spark, session)
            refuse_unresolved(session, project)
            return session

        events = read_closed_hours(connection, snapshot, source)
        hours = choose(list(events), within, "closed")
        job = Job(project, [], [], connection, snapshot, clock, spark)
        done, validator, findings = on_hours(len(hours)), Validator(), list[Finding]()
        for number, some in enumerate(split_hours(hours)):
            findings += _try_volume(job, source, some, validator)
            if source.expectations:
                findings += _try_events(job, source, some, any(events[hour] for hour in some), validator)
            done(min(len(hours), (number + 1) * HOURS))
    return Trial(hours, findings)


def _try_volume(job: Job, source: Source, hours: list[datetime], validator: Validator) -> list[Finding]:
    cutoff = job.snapshot.progress[source.name].sequence
    archived = facts.count_archived(job.database, source, hours, cutoff)
    arrivals = read_arrivals(job.database, source, cutoff, hours[0], hours[-1])
    return validator.evaluate_facts(compare_volume(source, arrivals, archived.duplicates, hours)).findings


def _try_events(
    job: Job, source: Source, hours: list[datetime], has_events: bool, validator: Validator
) -> list[Finding]:
    if not has_events:
        return validate_events(validator, source, None, hours).findings
    cutoff = job.snapshot.progress[source.name].sequence
    marked = ArchivedEvents(job, source, hours, cutoff).mark_counted().persist()
    try:
        return validate_events(validator, source, marked, hours).findings
    finally:
        marked.unpersist()
