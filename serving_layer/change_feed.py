"""The feed of what changes: how each new snapshot differs from the one before it, and the findings in between."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from operator import attrgetter

from hourline_core.feed.changed_findings import ChangedFinding
from hourline_core.feed.confirmed_gaps import ConfirmedGaps
from serving_layer.changed_hours import keep_changed_hours
from serving_layer.confirmed_hours import confirmed_hours
from serving_layer.connection import Connection
from serving_layer.final_windows import final_windows
from serving_layer.query_scope import HourState
from serving_layer.silent_windows import closed_hours, silent_windows

_STEPS_KEPT = 512
"""The maximum number of steps that a reader who was away can catch up on."""
_HOURS_TOLD = 2_000
"""The maximum number of hours in one step. A step that changes more hours, such as a backfill of a year, lists none."""
_NO_GAPS = ConfirmedGaps()


@dataclass(frozen=True)
class FinalWindow:
    """A window that is final, and has an hour that changed, or is final since by the clock alone."""

    metric: str
    start: datetime
    """When it begins (UTC)."""
    end: datetime
    """When it ends (UTC, exclusive)."""
    token: str
    """The token of the answer in which it is final."""


@dataclass(frozen=True)
class Step:
    """A new snapshot, or new findings."""

    position: str
    """The position in the feed after it."""
    hours: list[HourState] | None
    """The hours whose state or numbers may have changed. None: there are too many to list, or hours are gone."""
    windows: Sequence[FinalWindow] = ()
    findings: Sequence[ChangedFinding] = ()


@dataclass(frozen=True)
class Update:
    """What has changed since an earlier position."""

    position: str
    """The newest position."""
    hours: list[HourState]
    """Each hour that changed, once, in its newest state."""
    complete: bool
    """Whether this is all that changed; if not, the reader should read everything again."""
    windows: list[FinalWindow] = field(default_factory=list)
    """Each window that was final after one of the steps, once, with the token of the last such step."""
    findings: list[ChangedFinding] = field(default_factory=list)
    """In their order."""


def changed_hours(before: Connection, after: Connection, gaps: ConfirmedGaps = _NO_GAPS) -> list[HourState] | None:
    """The hours whose state or numbers differ, by hour and metric: those that got events, or were recomputed, blocked
    or reset, and those of ``gaps``, which were confirmed in between. None: there are too many to list, or some are
    gone.
    """
    with before.twin() as old, after.twin() as new:
        database = new.attached()
        keep_changed_hours(database, old, new, new.project.metrics)
        confirmed = [(metric, hour) for metric, hours in confirmed_hours(new, gaps).items() for hour in hours]
        if len(confirmed) > _HOURS_TOLD:
            return None
        if confirmed:
            database.executemany("INSERT INTO _changed VALUES (?, ?)", confirmed)
        if database.execute("FROM _changed ANTI JOIN _hours_now USING (metric, hour) LIMIT 1").fetchall():
            return None  # Hours are gone: a derived source is made anew.
        rows = database.execute(
            "SELECT metric, hour, state FROM _hours_now SEMI JOIN _changed USING (metric, hour) "
            f"ORDER BY hour, metric LIMIT {_HOURS_TOLD + 1}"
        ).fetchall()
    return [HourState(*row) for row in rows] if len(rows) <= _HOURS_TOLD else None


def final_windows_of(
    before: Connection, after: Connection, hours: list[HourState], gaps: ConfirmedGaps = _NO_GAPS
) -> list[FinalWindow]:
    """The final windows that have one of ``hours``, as ``changed_hours`` gives them, and those that are final since
    ``before`` by the clock, or by ``gaps``, alone. Sessions are no windows of all groups, so they are left out.
    """
    with before.twin() as old, after.twin() as new:
        silent = silent_windows(new, closed_hours(old), gaps)
    found = {(name, *window): None for name, windows in silent.items() for window in windows}
    found |= dict.fromkeys((one.metric, one.start, one.end) for one in _windows_with(after, hours))
    return [FinalWindow(*window, after.token) for window in found]


def _windows_with(connection: Connection, hours: list[HourState]) -> list[FinalWindow]:
    final = sorted((one for one in hours if one.state == "final"), key=attrgetter("metric", "hour"))
    by_metric = {metric: [one.hour for one in of] for metric, of in groupby(final, key=attrgetter("metric"))}
    if not by_metric:
        return []
    found: list[FinalWindow] = []
    with connection.twin() as twin:
        for name, metric in twin.project.all_metrics.items():
            own = by_metric.get(twin.project.base_of(name))
            if own and not (metric.window.is_hour or metric.session):
                found += [FinalWindow(name, *window, connection.token) for window in final_windows(twin, name, own)]
    return found


class ChangeFeed:
    """The last steps, each with its number. For one thread."""

    def __init__(self, position: str) -> None:
        """``position`` is that of the snapshot that the feed begins with."""
        self._steps = deque([Step(position, [])], maxlen=_STEPS_KEPT)
        self.newest = 0
        """The number of the newest step."""

    def add(self, step: Step) -> bool:
        """Append a step. Returns False, and leaves it out, if the tables have not changed."""
        if step.position == self._steps[-1].position and step.hours == [] and not step.windows:
            return False
        self._steps.append(step)
        self.newest += 1
        return True

    def find(self, position: str | None) -> int | None:
        """The number of the oldest step with ``position``. None: no step that is kept has it, or an earlier one with it
        may no longer be kept.

        Further ones with that position differ from it without a micro-batch or publication. A client with it may lack
        the later steps.
        """
        first = self.newest - len(self._steps) + 1
        found = next((number for number, step in enumerate(self._steps, first) if step.position == position), None)
        return None if found == first > 0 else found

    def since(self, number: int | None) -> Update:
        """The changes since the step ``number``. They are incomplete if it is None, or no longer kept."""
        newest = self._steps[-1].position
        if number is None or self.newest - number >= len(self._steps):
            return Update(newest, [], complete=False)
        missed = list(self._steps)[len(self._steps) - (self.newest - number) :]
        latest = {(one.metric, one.hour): one for step in missed for one in step.hours or []}
        windows = {(one.metric, one.start): one for step in missed for one in step.windows}
        findings = [one for step in missed for one in step.findings]
        complete = all(step.hours is not None for step in missed)
        return Update(newest, list(latest.values()), complete, list(windows.values()), findings)
