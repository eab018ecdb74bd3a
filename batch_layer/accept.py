"""Publishes the staged rows of a blocked hour as they are, when a person overrules its audit. The decision is
recorded.
"""

import json
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from functools import cache

import pyarrow as pa
from pyspark.sql import SparkSession

from batch_layer.plan import Job, open_job
from batch_layer.publication import Publication
from batch_layer.publish import commit, prepare
from batch_layer.stage import StagedMetric
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.errors import UsageError
from hourline_core.ledger.layout import QUALITY_SCHEMA, Layout
from hourline_core.model import Metric, Project
from hourline_core.model.hours import Clock, hour_text
from hourline_core.runtime.lease import turn
from hourline_core.runtime.spark import spark_session
from hourline_core.storage.opening import open_table


def accept(project: Project, metric: Metric, hour: datetime, person: str, reason: str, clock: Clock) -> None:
    """Publish the staged rows of a blocked ``hour`` (UTC) of ``metric``, with the cutoff of their recompute. Later
    events count on top. ``person`` and ``reason`` are kept in the quality table.

    ``clock`` dates the publication (UTC). Raises UsageError when the hour is not blocked, ConflictError when another
    process has published meanwhile, TableError.
    """
    with ExitStack() as held:

        @cache
        def spark() -> SparkSession:
            session = spark_session(project, "batch", brief=True)
            held.callback(session.stop)
            return session

        held.enter_context(turn(project.workspace, "batch", lambda process: None))
        publication = Publication(project)
        job = held.enter_context(open_job(project, [], clock, spark))
        accepted = prepare(job, _read_blocked(job, metric, hour), blocked={})
        moment = clock()
        commit(publication, job, [accepted], _record(accepted.staged, hour, f"{person}: {reason}", moment), moment)


def _read_blocked(job: Job, metric: Metric, hour: datetime) -> StagedMetric:
    """The staged rows of the hour, from the version of the staged table that its mark in coverage names."""
    blocked = job.snapshot.blocked
    mark = blocked.get((metric.name, hour))
    if mark is None:
        others = ", ".join(hour_text(one) for name, one in sorted(blocked) if name == metric.name) or "none"
        raise UsageError(
            f"{hour_text(hour)} of metric '{metric.name}' is not blocked, so there is nothing to accept; "
            f"blocked hours of it: {others}"
        )
    declared = next(tables for tables in job.snapshot.recomputed if tables.metric.name == metric.name)
    layout = Layout.of(job.project)
    table = open_table(layout.staged(declared.source, declared.metric), layout.storage_options, mark.staged)
    rows: pa.Table = table.to_pyarrow_table()
    # The columns are those of the table. Nothing is computed, so Spark is not needed to resolve them.
    aggregation = AggregationPlan(declared.source, declared.metric, {}, rows.schema)
    staged = StagedMetric(aggregation, [hour], mark.blocked_cutoff, rows, mark.staged)
    return replace(staged, rows=staged.rows_of([hour]))


def _record(staged: StagedMetric, hour: datetime, words: str, moment: datetime) -> pa.Table:
    row = {
        "audited": moment,
        "source": staged.aggregation.source.name,
        "metric": staged.aggregation.metric.name,
        "declaration": staged.aggregation.declaration,
        "hour": hour,
        "cutoff": staged.cutoff,
        "expectation": "accepted",
        "about": "",
        "parameters": json.dumps({}),
        "origin": "person",
        "severity": "warn",
        "success": True,
        "found": words,
        "rows": [],
    }
    return pa.Table.from_pylist([row], QUALITY_SCHEMA)
