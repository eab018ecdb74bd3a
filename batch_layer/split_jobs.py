"""Cuts hours into jobs. Each job has its cost, so that hours with few events share one; other processes have their turn
between two jobs, so that hours with many events do not share one with too many others.
"""

from collections.abc import Iterator
from datetime import datetime
from itertools import groupby

from batch_layer.plan import PlannedHour
from hourline_core.model import Project

HOURS = 168
"""The number of hours in a job of a recompute, unless they have many events."""
HOURS_OF_BACKFILL = 24
"""The same in a backfill. The hourly recompute waits for its jobs, so they must not take long."""

_EVENTS = 5_000_000
_CELLS = 4_000
"""A job takes more hours as long as it has fewer events, over all metrics, and fewer hours × metrics."""
_MAX_EVENTS = 25_000_000
"""A job of several hours has this number of events at most, over all metrics. Its tiles are in memory several times."""


def split_jobs(project: Project, planned: list[PlannedHour], hours: int = HOURS) -> Iterator[list[PlannedHour]]:
    """The jobs of ``planned``, by hour, each with all metrics of its hours. One has ``hours`` hours, fewer if they have
    many events, and more if they have few. If ``batch.hours_per_job`` is declared, it has that number at most.
    """
    declared = project.settings.batch.hours_per_job
    fewest = min(hours, declared) if declared else hours
    job: list[PlannedHour] = []
    count = events = 0
    for _, items in groupby(sorted(planned, key=lambda item: item.hour), key=lambda item: item.hour):
        of_hour = list(items)
        events += (of_hour_events := sum(item.events for item in of_hour))
        is_small = events <= _EVENTS and len(job) + len(of_hour) <= _CELLS
        is_full = events > _MAX_EVENTS or (count >= fewest and (declared is not None or not is_small))
        if job and is_full:
            yield job
            job, count, events = [], 0, of_hour_events
        job += of_hour
        count += 1
    if job:
        yield job


def split_hours(hours: list[datetime]) -> Iterator[list[datetime]]:
    """``hours``, at most as many at a time as a job has."""
    for first in range(0, len(hours), HOURS):
        yield hours[first : first + HOURS]
