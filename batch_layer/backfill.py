"""Backfills: all hours of a range are recomputed, each once, however often it is interrupted.

A backfill keeps one small file. For each metric's declaration, it holds the versions of final and staged that counted
when the backfill began. An hour that was published in a higher version, or blocked, has been done since, by this
backfill or by another process. So nothing is noted after a job, and a crash between a publication and a note cannot
matter.
"""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from batch_layer.plan import FORCED, PlannedHour, plan_range
from batch_layer.publish import Recomputed
from batch_layer.recompute import recompute
from batch_layer.recompute_progress import sum_up
from batch_layer.split_jobs import HOURS_OF_BACKFILL, split_jobs
from hourline_core.errors import TableError
from hourline_core.ledger.coverage import HourVersions, read_coverage
from hourline_core.model import Project, declaration_hash
from hourline_core.model.hours import Clock, HourRange, wall_clock
from hourline_core.runtime.running_recomputes import DecodedChunk, RecomputeProgress, Work


@dataclass(frozen=True)
class Backfill:
    """What is left to do, and what was done before an interruption."""

    project: Project
    wanted: list[PlannedHour]
    """All hours of all metrics."""
    left: list[PlannedHour]
    """The hours that have not been done since it began."""
    begun: datetime
    resumed: bool = False
    file: Path | None = None
    """The file that remembers it until it is done. None: `plan` alone shows what is left."""
    plan_again: Callable[[], list[PlannedHour]] | None = None
    """Plan what is left once records were decoded anew: their events may be in hours that had none before."""
    pinned: dict[str, HourVersions] = field(default_factory=dict)
    """By declaration (metric_hash), the highest versions of final, and of staged for blocked hours, that counted
    when it began.
    """
    skipped: list[PlannedHour] = field(default_factory=list)
    """The open hours that are left out."""

    def run(
        self,
        clock: Clock = wall_clock,
        *,
        on_waiting: Callable[[int], None] = lambda process: None,
        on_left_out: Callable[[list[PlannedHour]], None] = lambda left_out: None,
        on_published: Callable[[Recomputed], None] = lambda done: None,
        on_decoded: Callable[[DecodedChunk], None] = lambda chunk: None,
        on_progress: Callable[[RecomputeProgress], None] = lambda progress: None,
        command: str = "backfill",
    ) -> list[Recomputed]:
        """Recompute what is left, as ``recompute`` does, and raise what it raises. Wherever it ends, the same
        backfill planned again goes on there.
        """
        if self.file:
            self._remember(self.file)
        every, left = sum_up(self.wanted), sum_up(self.left)
        done = recompute(
            self.project,
            self.left,
            clock,
            hours_per_job=HOURS_OF_BACKFILL,
            on_waiting=on_waiting,
            on_left_out=on_left_out,
            on_published=on_published,
            on_decoded=on_decoded,
            plan_again=self.plan_again,
            on_progress=on_progress,
            command=command,
            done_before=Work(every.hours - left.hours, every.events - left.events),
        )
        if self.file:
            self.file.unlink(missing_ok=True)  # Of two that run at once, both finish.
        return done

    def _remember(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(f".{os.getpid()}.partial")
        pinned = {name: (versions.final, versions.staged) for name, versions in self.pinned.items()}
        partial.write_text(json.dumps({"begun": self.begun.isoformat(), "pinned": pinned}, indent=2))
        partial.replace(file)


def plan_backfill(
    project: Project,
    hours: HourRange,
    metrics: list[str] | None = None,
    clock: Clock = wall_clock,
    *,
    skip_open: bool = False,
) -> Backfill:
    """Plan all hours of the range (of ``metrics``, or all) that a source has; with ``skip_open``, those that have
    closed. An interrupted backfill of the same range and metrics is resumed. Changes nothing. Raises TableError.
    """
    key = f"{hours} {sorted(metrics) if metrics else 'all'}"
    file = project.workspace / "backfills" / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    remembered = _read(file)
    coverage = read_coverage(project)  # before the plan, so that no publication between the two is overlooked
    chosen = [project.metrics[name] for name in metrics or project.metrics]
    declarations = {metric.name: declaration_hash(project.source_of(metric), metric) for metric in chosen}
    pinned = {}
    for metric in chosen:
        name = f"{metric.name}_{declarations[metric.name]}"
        covered = coverage.of(metric.name, declarations[metric.name])
        newest = HourVersions(covered.pinned(), max(covered.staged_versions(), default=None))
        # A declaration that was changed since the interruption is not remembered: all its hours are done again.
        pinned[name] = remembered.pinned.get(name, newest) if remembered else newest
    every = plan_range(project, hours, metrics, clock)
    skipped = [item for item in every if skip_open and not item.closed]
    wanted = [item for item in every if item.closed or not skip_open]

    def find_left(wanted: list[PlannedHour]) -> list[PlannedHour]:
        return [item for item in wanted if not _is_done(item, pinned[f"{item.metric}_{declarations[item.metric]}"])]

    def plan_again() -> list[PlannedHour]:
        now = plan_range(project, hours, metrics, clock)
        # Open hours are recomputed if the caller wanted some.
        return find_left(now if any(not item.closed for item in wanted) else [item for item in now if item.closed])

    return Backfill(
        project,
        wanted,
        find_left(wanted),
        remembered.begun if remembered else clock(),
        remembered is not None,
        file,
        plan_again,
        pinned,
        skipped,
    )


def plan_hours(
    project: Project, source: str, hours: set[datetime], clock: Clock = wall_clock
) -> tuple[Backfill, set[datetime]]:
    """The hours among ``hours`` of a source that need a recompute, and apart from them those that are still open."""
    wanting = [] if not hours else plan_range(project, HourRange.spanning(hours), clock=clock)
    wanting = [item for item in wanting if item.source == source and item.hour in hours and item.reason != FORCED]
    closed = [item for item in wanting if item.closed]
    return Backfill(project, closed, closed, clock()), {item.hour for item in wanting if not item.closed}


def jobs_of(project: Project, left: list[PlannedHour]) -> list[list[PlannedHour]]:
    """The jobs in which a backfill recomputes ``left``."""
    return list(split_jobs(project, left, HOURS_OF_BACKFILL))


def _is_done(item: PlannedHour, pinned: HourVersions) -> bool:
    """Whether the hour was published or blocked since the backfill began, when the versions of final and staged were
    ``pinned``.
    """
    return any(
        version is not None and (then is None or version > then)
        for version, then in zip((item.version, item.staged), (pinned.final, pinned.staged), strict=True)
    )


@dataclass(frozen=True)
class _Remembered:
    begun: datetime
    pinned: dict[str, HourVersions]


def _read(file: Path) -> _Remembered | None:
    try:
        state = json.loads(file.read_text(encoding="utf-8"))
        pinned = {str(name): HourVersions(_version(a), _version(b)) for name, (a, b) in state["pinned"].items()}
        return _Remembered(datetime.fromisoformat(state["begun"]), pinned)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TableError(
            f"{file}, which records an interrupted backfill, cannot be read ({error}); delete it to begin again"
        ) from None


def _version(value: Any) -> int | None:
    return None if value is None else int(value)
