"""Counts how far a recompute is, and tells it: to the caller, and in a note for `hourline status`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from batch_layer.plan import PlannedHour
from hourline_core.model import Project
from hourline_core.model.hours import Clock
from hourline_core.runtime.running_recomputes import DecodedChunk, RecomputeProgress, Work, noting_recompute

NO_WORK = Work(0, 0)


class ProgressCount:
    """How far the jobs of a recompute are."""

    def __init__(self, before: Work, clock: Clock, tell: Callable[[RecomputeProgress], None]) -> None:
        """``before`` was done by an earlier run. ``tell`` is called at the start, and after each job."""
        self._before, self._clock, self._tell = before, clock, tell
        self._all, self._done = NO_WORK, NO_WORK
        self._estimated: timedelta | None = None
        self._pace: tuple[datetime, Work] | None = None
        """When the first of the jobs began that took work, and what was done by then."""

    def start(self, jobs: Sequence[Sequence[PlannedHour]], estimated: timedelta | None = None) -> None:
        """Start to count these jobs. ``estimated`` is their time by the last recomputes."""
        self._estimated, self._pace = estimated, None
        self._all, self._done = sum_up(item for job in jobs for item in job), NO_WORK
        self._tell_now()

    def decode(self, source: str, on_decoded: Callable[[DecodedChunk], None]) -> Callable[[int, int, int], None]:
        """A function to call after each chunk of records of ``source`` that was decoded anew, as ``decode_anew``
        does. It tells how far that is, and calls ``on_decoded``.
        """
        began = self._clock()

        def on_chunk(events: int, number: int, chunks: int) -> None:
            left = (self._clock() - began) / number * (chunks - number)
            chunk = DecodedChunk(source, events, number, chunks, left)
            self._tell_now(chunk.words)
            on_decoded(chunk)

        return on_chunk

    def finish(self, job: Sequence[PlannedHour], began: datetime | None = None) -> None:
        """Count one of the jobs as done. ``began`` (UTC) is when it began, once Spark had started. None: there was
        nothing to do.
        """
        work = sum_up(job)
        if began and not self._pace:
            self._pace = (began, self._done)
        elif not began and self._pace:  # It took no time.
            self._pace = (self._pace[0], _add(self._pace[1], work))
        self._done = _add(self._done, work)
        self._tell_now()

    def _tell_now(self, decoding: str | None = None) -> None:
        now = self._clock()
        done, of = _add(self._before, self._done), _add(self._before, self._all)
        # By events, since they take the time. Each hour counts as one more, so that hours without events count, too.
        left = self._estimated
        if self._pace:
            began, before = self._pace
            left = (now - began) * ((sum(of) - sum(done)) / (sum(self._done) - sum(before)))
        elif self._done == self._all:
            left = timedelta(0)
        self._tell(RecomputeProgress(now, done, of, left, decoding))


@contextmanager
def counting(
    project: Project, command: str, before: Work, clock: Clock, on_progress: Callable[[RecomputeProgress], None]
) -> Iterator[ProgressCount]:
    """Count the jobs of a recompute within the block. Each count is noted in the workspace, and ``on_progress`` gets
    it.
    """
    with noting_recompute(project.workspace, command, clock()) as note:

        def tell(progress: RecomputeProgress) -> None:
            note(progress)
            on_progress(progress)

        yield ProgressCount(before, clock, tell)


def sum_up(items: Iterable[PlannedHour]) -> Work:
    """The hours and events of planned items, over all metrics."""
    events = {(item.source, item.hour): item.events for item in items}
    return Work(len({hour for _, hour in events}), sum(events.values()))


def _add(one: Work, other: Work) -> Work:
    return Work(one.hours + other.hours, one.events + other.events)
