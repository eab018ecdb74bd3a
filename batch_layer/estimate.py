"""Estimates how long a recompute takes, by the last publications."""

from collections.abc import Sequence
from datetime import timedelta

from batch_layer.plan import PlannedHour
from hourline_core.ledger.layout import Layout
from hourline_core.model import Project
from hourline_core.storage.opening import exists, open_table

_RECENT_PUBLICATIONS = 20


def estimate(project: Project, jobs: Sequence[Sequence[PlannedHour]]) -> timedelta | None:
    """The estimated time to recompute ``jobs``, by the last publications. None if none of them was timed.

    Hours without events need no Spark, and hardly any time.
    """
    layout = Layout.of(project)
    if not exists(layout.coverage, layout.storage_options):
        return None
    commits = open_table(layout.coverage, layout.storage_options).history(_RECENT_PUBLICATIONS)
    timed = [
        (float(one["hourline.events"]), float(one["hourline.seconds"]))
        for one in commits
        if "hourline.seconds" in one and float(one["hourline.events"])
    ]
    if not timed:
        return None
    per_job, per_event = _fit(timed)
    events = [sum(item.events for item in job) for job in jobs]
    return timedelta(seconds=sum(map(bool, events)) * per_job + sum(events) * per_event)


def _fit(timed: list[tuple[float, float]]) -> tuple[float, float]:
    """Seconds per job and seconds per event, neither below zero, fitted to the timed publications (events, seconds)
    by least squares.
    """
    events, seconds = (sum(column) / len(timed) for column in zip(*timed, strict=True))
    spread = sum((e - events) ** 2 for e, _ in timed)
    slope = sum((e - events) * (s - seconds) for e, s in timed) / spread if spread else 0.0
    per_event = min(max(slope, 0.0), seconds / events if events else 0.0)
    return seconds - per_event * events, per_event
