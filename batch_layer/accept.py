"""Publishes the staged rows of blocked hours as they are, when a person overrules their audit. The decision is
recorded.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache

import pyarrow as pa
from pyspark.sql import SparkSession

from batch_layer.decoding.changed_hours import read_changed_hours
from batch_layer.job import Job, open_job
from batch_layer.publication import Publication
from batch_layer.publish import prepare
from batch_layer.reports.follow import follow
from batch_layer.stage import StagedMetric
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.errors import ConflictError, UsageError
from hourline_core.ledger.coverage_rows import BlockedHour
from hourline_core.ledger.layout import QUALITY_SCHEMA, Layout
from hourline_core.ledger.overlapping_problems import Cell
from hourline_core.ledger.problems import HELD, accept_command
from hourline_core.lookups.pinning import pin_recorded, versions_of
from hourline_core.model import DeclaredMetric, Metric, Project
from hourline_core.model.decoding import decoding_of
from hourline_core.model.hours import Clock, hour_text
from hourline_core.runtime.lease import turn
from hourline_core.runtime.spark import spark_session, stop_spark
from hourline_core.sql.problems import read_problems
from hourline_core.storage.opening import open_table


@dataclass(frozen=True)
class Accepted:
    """What became of the hours of accepted problems."""

    published: list[Cell]
    left: dict[str, list[Cell]]
    """By the id of another problem, the hours that it still blocks."""
    since: list[Cell]
    """The hours of the accepted problems that failed after what was shown of them."""


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
    """Publish the staged rows of the hours of the problems with these ids, as ``accept`` does. Each id is followed by
    ``@`` and the newest publication that was shown. An hour that failed in a later one stays blocked, and an hour that
    another problem blocks, too.

    Raises UsageError when one of them is closed, unknown, or blocks nothing, when it does not say what was shown, and
    when nothing is left to publish. Raises ConflictError when another process has published or blocked one of the
    hours meanwhile. In that case, or if the process ends in between, some hours are published, and the others are
    still blocked.
    """
    left: dict[str, list[Cell]] = {}
    since: list[Cell] = []

    def choose(job: Job) -> list[Cell]:
        problems = read_problems(job.database, job.snapshot.sources_of_blocked)
        accepted = [problems.find_shown(one) for one in ids]
        seen = {
            problem.id: {(one.metric, one.hour) for one in problem.hours if one.publication <= publication}
            for problem, publication in accepted
        }
        cells = {cell for of_problem in seen.values() for cell in of_problem}
        since.extend(sorted({(one.metric, one.hour) for problem, _ in accepted for one in problem.hours} - cells))
        if not cells:
            raise UsageError(
                f"all hours of {', '.join(seen)} failed again since that was shown, so nothing was published; look at "
                f"them (`hourline quality`), then `{accept_command(problem for problem, _ in accepted)}`"
            )
        for problem in problems.blocking:
            others = {(one.metric, one.hour) for one in problem.hours} - seen.get(problem.id, set())
            if shared := sorted(cells & others):
                left[problem.id] = shared
        free = sorted(cells - {cell for shared in left.values() for cell in shared})
        if not free:
            together = [problem for problem in problems.blocking if problem.id in {*seen, *left}]
            raise UsageError(
                f"other problems block all of these hours, too, so nothing was published; look at {', '.join(left)}, "
                f"and accept all of them: `{accept_command(together)}`"
            )
        return free

    return Accepted(_publish(project, choose, f"{person}: {reason}", clock), left, since)


def _publish(project: Project, choose: Callable[[Job], list[Cell]], words: str, clock: Clock) -> list[Cell]:
    """Publish the blocked hours that ``choose`` gives, in one publication for all that one recompute has staged."""
    done: list[Cell] = []
    left: dict[Cell, BlockedHour] | None = None
    with ExitStack() as held:

        @cache
        def spark() -> SparkSession:
            session = spark_session(project, "batch", brief=True)
            held.callback(stop_spark, session)
            return session

        held.enter_context(turn(project.workspace, "batch", lambda process: None))
        while left is None or left:
            publication = Publication(project)
            with open_job(project, [], clock, spark) as job:
                marks = job.snapshot.blocked
                chosen = choose(job) if left is None else list(left)
                decoded = _with_changed_hours(job, chosen)
                if left is None:
                    _refuse_other_decodings(job, chosen)
                    left = {cell: marks[cell] for cell in _join_moved(decoded, chosen)}
                _refuse_changed(left, marks, done)
                staged = _staged_together(job, list(left), marks)
                metrics = [
                    prepare(_as_blocked(decoded, one, marks[_first_cell(one)]), one, blocked={}) for one in staged
                ]
                moment = clock()
                findings = _records(staged, words, moment)
                publication.publish(metrics, findings, moment)
                published = {(one.aggregation.metric.name, hour) for one in staged for hour in one.hours}
                done += sorted(published)
                left = {cell: mark for cell, mark in left.items() if cell not in published}
        follow(project, clock)
    return done


def _refuse_other_decodings(job: Job, cells: list[Cell]) -> None:
    """Raise UsageError when the staged rows of one of ``cells`` are what another declaration made of the records."""
    for name, hour in cells:
        mark = job.snapshot.blocked[name, hour]
        if mark.blocked_decoding not in (None, decoding_of(job.project.sources[mark.source]).hash):
            raise UsageError(
                f"the declaration of source '{mark.source}' has changed since {hour_text(hour)} of metric '{name}' was "
                "audited, so its rows are out of date; run `hourline recompute`, then look at the hour "
                "(`hourline quality`)"
            )


def _with_changed_hours(job: Job, cells: list[Cell]) -> Job:
    """``job`` with what decoding anew has changed in ``cells``, up to the sequences that they were audited with."""
    cutoffs: dict[str, int] = {}
    for mark in (job.snapshot.blocked[cell] for cell in cells if cell in job.snapshot.blocked):
        cutoffs[mark.source] = max(mark.blocked_cutoff, cutoffs.get(mark.source, 0))
    found = {
        name: read_changed_hours(job.database, job.project, job.project.sources[name], cutoff)
        for name, cutoff in cutoffs.items()
    }
    return replace(job, changed={name: changed for name, changed in found.items() if changed})


def _join_moved(job: Job, cells: list[Cell]) -> list[Cell]:
    """``cells``, and the blocked hours that events have moved to or from: they are published at once, or not at all.

    Raises UsageError when one of these did not pass its own audit, which nobody has accepted.
    """
    marks, joined = job.snapshot.blocked, set(cells)
    problems = read_problems(job.database, job.snapshot.sources_of_blocked).blocking
    for name in sorted({metric for metric, _ in cells}):
        tables = next(one for one in job.snapshot.recomputed if one.metric.name == name)
        changed = job.changed.get(tables.source.name)
        declared = DeclaredMetric(tables.source, tables.metric)
        chosen = [hour for metric, hour in cells if metric == name]
        moved = changed.to_publish_at_once(declared, job.snapshot, chosen) if changed else set()
        together = {(name, hour) for hour in moved}
        if not together:
            continue
        between = f"{hour_text(min(moved))} and {hour_text(max(moved))} of metric '{name}'"
        failed = [
            one
            for one in problems
            if one.of.expectation != HELD and {(of.metric, of.hour) for of in one.hours} & (together - joined)
        ]
        if failed:
            raise UsageError(
                f"events move between {between}, so these hours are published at once, and other problems block some "
                f"of them; look at {', '.join(one.id for one in failed)}, and accept these first: "
                f"`{accept_command(failed)}`"
            )
        if {marks[cell].staged if cell in marks else None for cell in together} != {
            marks[cell].staged for cell in together & joined
        }:
            raise UsageError(
                f"events move between {between}, and these hours were not audited at once; run `hourline recompute`, "
                "then look at them (`hourline quality`)"
            )
        joined |= together
    return sorted(joined)


def _refuse_changed(chosen: Mapping[Cell, BlockedHour], marks: Mapping[Cell, BlockedHour], done: list[Cell]) -> None:
    """Raise ConflictError when an hour is not blocked any more, or blocked with other rows than those ``chosen``."""
    for (name, hour), mark in chosen.items():
        now = marks.get((name, hour))
        if now is None or (now.declaration, now.staged) != (mark.declaration, mark.staged):
            raise ConflictError(
                f"another process has published or audited {hour_text(hour)} of metric '{name}' meanwhile; "
                f"{len(done):,} accepted hour(s) are published, the others are not: look at them (`hourline quality`), "
                "and accept what is left"
            )


def _staged_together(job: Job, cells: list[Cell], marks: Mapping[Cell, BlockedHour]) -> list[StagedMetric]:
    """The staged rows of some of ``cells``: of each metric, those that were recomputed together with its first hour."""
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
        aggregation = AggregationPlan(declared.source, declared.metric, rows.schema)
        together = StagedMetric(aggregation, hours, first.blocked_cutoff, rows, first.staged)
        staged.append(replace(together, rows=together.rows_of(hours)))
    return staged


def _as_blocked(job: Job, staged: StagedMetric, mark: BlockedHour) -> Job:
    """The job with the lookups that the recompute used which staged the rows."""
    versions = versions_of(mark.blocked_lookups)
    return replace(job, pinned=pin_recorded(staged.aggregation.source, Layout.of(job.project), versions))


def _first_cell(staged: StagedMetric) -> Cell:
    return staged.aggregation.metric.name, staged.hours[0]


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
