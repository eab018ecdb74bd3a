"""Recomputes hours from the archive, in jobs of a bounded number of hours. Other processes can run between two jobs.

A job is a pipeline, in which each step hands one object on:

    plan       plan.py, job.py  PlannedHour    which hours, and why; ``Job``: those still to recompute, in one snapshot
    decode     decoding/        ChangedHours   records that another declaration has decoded, decoded anew
    read       read_archive.py  SourceEvents   the archived events of these hours, up to the cutoff
    aggregate  aggregate.py     SourceTiles    the tiles of each metric, and totals by hour (folding/)
    stage      stage.py         StagedSource   the tiles, as read back from the staged tables
    audit      audit/           AuditedSource  what Great Expectations found, and which hours are blocked
    publish    publish.py       Recomputed     final and coverage, with the drift (drift/) and the findings

The reports follow what is published (reports/follow.py), between jobs and at the end.
"""

from collections.abc import Callable, Collection
from contextlib import ExitStack
from functools import cache, partial
from importlib import import_module
from threading import Thread
from time import monotonic

from pyspark.sql import SparkSession

from batch_layer.aggregate import aggregate
from batch_layer.decoding.decode_anew import decode_anew
from batch_layer.decoding.to_decode import sources_to_decode
from batch_layer.estimate import estimate
from batch_layer.job import Job, join_moved_hours, open_job
from batch_layer.plan import PlannedHour
from batch_layer.publication import Publication
from batch_layer.publish import Recomputed, publish
from batch_layer.read_archive import plan_source, read_events
from batch_layer.recompute_progress import NO_WORK, ProgressCount, counting
from batch_layer.reports.follow import follow
from batch_layer.split_jobs import HOURS, split_jobs
from batch_layer.stage import stage
from hourline_core.compute.check import refuse_unresolved
from hourline_core.errors import HourlineError, ReadAgainError, RegistryError, SourceError
from hourline_core.ledger.decodings import refuse_other_derivation
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.open_progress import find_progress
from hourline_core.lookups.as_of import LookupsAsOf
from hourline_core.model import Project
from hourline_core.model.hours import Clock, wall_clock
from hourline_core.runtime.freed_memory import give_back_memory
from hourline_core.runtime.lease import turn
from hourline_core.runtime.running_recomputes import DecodedChunk, RecomputeProgress, Work
from hourline_core.runtime.spark import spark_session, stop_spark
from hourline_core.storage.opening import open_table

_BRIEF = 1_000_000
"""Below this number of events, over all metrics, code that Java compiles quickly is faster."""

_SECONDS_BETWEEN_REPORTS = 30.0
"""Between two jobs, the reports are written again after that time. Each time costs as much as a small job."""


def recompute(
    project: Project,
    planned: list[PlannedHour],
    clock: Clock = wall_clock,
    *,
    hours_per_job: int = HOURS,
    on_waiting: Callable[[int], None] = lambda process: None,
    on_left_out: Callable[[list[PlannedHour]], None] = lambda left_out: None,
    on_published: Callable[[Recomputed], None] = lambda recomputed: None,
    on_decoded: Callable[[DecodedChunk], None] = lambda chunk: None,
    plan_again: Callable[[], list[PlannedHour]] | None = None,
    on_progress: Callable[[RecomputeProgress], None] = lambda progress: None,
    command: str = "recompute",
    done_before: Work = NO_WORK,
    lookups: LookupsAsOf | None = None,
) -> list[Recomputed]:
    """Recompute and publish the ``planned`` hours in jobs, as ``split_jobs`` cuts them.

    The lease is released between two jobs, to the process that has waited longest. ``on_waiting`` is called with the
    process that this one waits for. Hours that another process has published meanwhile are left out, and passed to
    ``on_left_out``. Recomputing again changes no answer. ``clock`` dates the publication (UTC).

    First, the records that other declarations have decoded are decoded anew. Then their events may lie in other hours,
    so ``plan_again`` gives the hours. ``on_decoded`` is called after each chunk of records. Hours between which
    events move are published at once, also if ``planned`` has only some of them.

    ``on_progress`` is called at the start and after each job. A note in the workspace says the same to others, with the
    ``command`` that recomputes. ``done_before`` is what an interrupted run has done, and counts as done. ``lookups``
    are those that are used. None: at their newest versions.

    Raises DeclarationError, TableError, what Spark raises, and ConflictError when a process on another workspace has
    published to the same tables meanwhile. Hours that were published before stay published. Raises ReadAgainError or
    RegistryError at the end if records of a source cannot be decoded anew yet, and SourceError if a source is derived
    in another way than its events were: its hours are left out.
    """
    # Great Expectations takes seconds to import. Tables are opened, and Spark starts, meanwhile.
    Thread(target=import_module, args=("batch_layer.audit.run_audit",), daemon=True).start()
    done: list[Recomputed] = []
    with ExitStack() as held:

        @cache
        def spark() -> SparkSession:
            session = spark_session(project, "batch", brief=sum(item.events for item in planned) < _BRIEF)
            held.callback(stop_spark, session)
            refuse_unresolved(session, project)
            return session

        count = held.enter_context(counting(project, command, done_before, clock, on_progress))
        count.start([planned])  # Decoding anew may take long.
        decoded, waiting = _decode_anew(project, spark, count, on_waiting, on_decoded)
        if decoded and plan_again:
            planned = plan_again()
        waiting |= _find_other_derivations(project, {item.source for item in planned})
        planned = [item for item in planned if item.source not in waiting]
        written, has_news = monotonic(), False
        jobs = list(split_jobs(project, planned, hours_per_job))
        count.start(jobs, estimate(project, jobs))
        for hours in jobs:
            with turn(project.workspace, "batch", on_waiting):
                publication = Publication(project)
                with open_job(project, hours, clock, spark, lookups) as job:
                    if job.left_out:
                        on_left_out(job.left_out)
                    if not job.hours:
                        count.finish(hours)
                        continue
                    done.append(run_job(publication, job))
                has_news = True
                if monotonic() - written > _SECONDS_BETWEEN_REPORTS:
                    follow(project, clock)
                    written, has_news = monotonic(), False
            on_published(done[-1])
            count.finish(hours, done[-1].began)
        if has_news:
            with turn(project.workspace, "batch", on_waiting):
                follow(project, clock)
    for error in waiting.values():
        raise error
    return done


def run_job(publication: Publication, job: Job) -> Recomputed:
    """Recompute the hours of ``job``, and publish those that pass their audit. ``publication`` was begun before the job
    took its snapshot.

    Raises as ``recompute`` does. Then nothing that readers see has changed.
    """
    for source in job.sources:
        decode_anew(job.spark, job.project, source, job.snapshot.progress[source.name].sequence)
    job = join_moved_hours(job)
    folds = {source.name: plan_source(job, source) for source in job.sources}
    from batch_layer.audit.run_audit import audit

    began = job.clock()  # The starts of Spark and of Great Expectations are not part of the job's time.
    with ExitStack() as persisted:
        staged = []
        for source in job.sources:
            events = persisted.enter_context(read_events(job, source, folds[source.name]))
            staged.append(stage(aggregate(events)))
        give_back_memory()  # of what was staged, and is read back
        audited = audit(staged)
    return publish(publication, job, audited, began)


def _decode_anew(
    project: Project,
    spark: Callable[[], SparkSession],
    count: ProgressCount,
    on_waiting: Callable[[int], None],
    on_decoded: Callable[[DecodedChunk], None],
) -> tuple[bool, dict[str, HourlineError]]:
    """Decode anew what other declarations have decoded, a chunk in each turn. Returns whether there was something, and
    by source why it must wait.
    """
    sources = sources_to_decode(project)
    waiting: dict[str, HourlineError] = {}
    in_turn = partial(turn, project.workspace, "batch", on_waiting)
    for source in sources:
        progress = find_progress(project, source)
        assert progress, "a source with records has progress"
        on_chunk = count.decode(source.name, on_decoded)
        try:
            decode_anew(spark, project, source, progress.sequence, on_chunk, in_turn)
        except (ReadAgainError, RegistryError) as error:
            waiting[source.name] = error
    return bool(sources), waiting


def _find_other_derivations(project: Project, sources: Collection[str]) -> dict[str, HourlineError]:
    """Those of ``sources`` whose events were derived in another way than declared, and why they are not recomputed."""
    layout, found = Layout.of(project), dict[str, HourlineError]()
    for source in (project.sources[name] for name in sorted(sources)):
        if source.is_derived:
            try:
                refuse_other_derivation(open_table(layout.events(source), layout.storage_options), source)
            except SourceError as error:
                found[source.name] = error
    return found
