"""Publishes the staged rows of blocked hours as they are, when a person overrules their audit. The decision is
recorded.
"""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
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
from hourline_core.sql.problems import read_problems
from hourline_core.storage.opening import open_table

Cell = tuple[str, datetime]
"""A metric and an hour (UTC)."""


@dataclass(frozen=True)
class Accepted:
    """What became of the hours of accepted problems."""

    published: list[Cell]
    left: dict[str, list[Cell]]
    """By the id of another problem, the hours that it still blocks."""


def accept(project: Project, metric: Metric, hour: datetime, person: str, reason: str, clock: Clock) -> None:
    """Publish the staged rows of a blocked ``hour`` (UTC) of ``metric``, with the cutoff of their recompute. Later
    events count on top. ``person`` and ``reason`` are kept in the quality table.

    ``clock`` dates the publication (UTC). Raises UsageError when the hour is not blocked, ConflictError when another
    process has published meanwhile, TableError.
    """

    def choose(job: Job) -> list[Cell]:
        blocked = job.snapshot.blocked
        if (metric.name, hour) not in blocked:
            others = ", ".join(hour_text(one) for name, one in sorted(blocked) if name == metric.name) or "none"
            raise UsageError(
                f"{hour_text(hour)} of metric '{metric.name}' is not blocked, so there is nothing to accept; "
                f"blocked hours of it: {others}"
            )
        return [(metric.name, hour)]

    _publish(project, choose, f"{person}: {reason}", clock)


def accept_problems(project: Project, ids: list[str], person: str, reason: str, clock: Clock) -> Accepted:
    """Publish the staged rows of all hours of the problems with these ids, as ``accept`` does. An hour that another
    problem blocks, too, stays blocked.

    Raises UsageError when one of them is closed, unknown, or blocks nothing, and when other problems block all of their
    hours. If the process ends in between, some hours are published, and the others are still blocked.
    """
    left: dict[str, list[Cell]] = {}

    def choose(job: Job) -> list[Cell]:
        problems = read_problems(job.database, {cell: mark.source for cell, mark in job.snapshot.blocked.items()})
        accepted = [problems.find(one) for one in ids]
        for problem in accepted:
            if not problem.blocks:
                raise UsageError(
                    f"problem '{problem.id}' only warned, and its hours are published; there is nothing to accept"
                )
        cells = {(one.metric, one.hour) for problem in accepted for one in problem.hours}
        for problem in problems.blocking:
            shared = sorted(cells & {(one.metric, one.hour) for one in problem.hours})
            if shared and problem.id not in ids:
                left[problem.id] = shared
        free = sorted(cells - {cell for shared in left.values() for cell in shared})
        if not free:
            together = " ".join(f"--accept {one}" for one in (*ids, *left))
            raise UsageError(
                f"other problems block all of these hours, too, so nothing was published; look at {', '.join(left)}, "
                f"and accept all of them: `hourline publish {together} --reason …`"
            )
        return free

    return Accepted(_publish(project, choose, f"{person}: {reason}", clock), left)


def _publish(project: Project, choose: Callable[[Job], list[Cell]], words: str, clock: Clock) -> list[Cell]:
    """Publish the blocked hours that ``choose`` gives, in one publication for all that one recompute has staged."""
    done: list[Cell] = []
    with ExitStack() as held:

        @cache
        def spark() -> SparkSession:
            session = spark_session(project, "batch", brief=True)
            held.callback(session.stop)
            return session

        held.enter_context(turn(project.workspace, "batch", lambda process: None))
        cells: list[Cell] | None = None
        while cells is None or len(done) < len(cells):
            publication = Publication(project)
            with open_job(project, [], clock, spark) as job:
                cells = choose(job) if cells is None else cells
                staged = _staged_together(job, [cell for cell in cells if cell not in done])
                metrics = [prepare(job, one, blocked={}) for one in staged]
                moment = clock()
                commit(publication, job, metrics, _records(staged, words, moment), moment)
            done += [(one.aggregation.metric.name, hour) for one in staged for hour in one.hours]
    return done


def _staged_together(job: Job, cells: list[Cell]) -> list[StagedMetric]:
    """The staged rows of some of ``cells``: of each metric, those that were recomputed together with its first hour."""
    marks = job.snapshot.blocked
    staged = []
    for name in sorted({metric for metric, _ in cells}):
        of_metric = [hour for metric, hour in cells if metric == name]
        first = marks[name, of_metric[0]]
        hours = [hour for hour in of_metric if marks[name, hour].staged == first.staged]
        declared = next(tables for tables in job.snapshot.recomputed if tables.metric.name == name)
        layout = Layout.of(job.project)
        table = open_table(layout.staged(declared.source, declared.metric), layout.storage_options, first.staged)
        rows: pa.Table = table.to_pyarrow_table()
        # The columns are those of the table. Nothing is computed, so Spark is not needed to resolve them.
        aggregation = AggregationPlan(declared.source, declared.metric, {}, rows.schema)
        together = StagedMetric(aggregation, hours, first.blocked_cutoff, rows, first.staged)
        staged.append(replace(together, rows=together.rows_of(hours)))
    return staged


def _records(staged: list[StagedMetric], words: str, moment: datetime) -> pa.Table:
    rows = [
        {
            "audited": moment,
            "source": one.aggregation.source.name,
            "metric": one.aggregation.metric.name,
            "declaration": one.aggregation.declaration,
            "hour": hour,
            "cutoff": one.cutoff,
            "expectation": "accepted",
            "about": "",
            "parameters": json.dumps({}),
            "origin": "person",
            "severity": "warn",
            "success": True,
            "found": words,
            "rows": [],
        }
        for one in staged
        for hour in one.hours
    ]
    return pa.Table.from_pylist(rows, QUALITY_SCHEMA)
