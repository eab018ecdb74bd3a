"""Which hours are recounted: those of a range that are published, or some at random."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from random import Random

from hourline_core.errors import UsageError
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.ledger.snapshot import Snapshot
from hourline_core.model.hours import HourRange

AT_RANDOM = 3
"""The number of hours of each metric that are recounted without a range."""


@dataclass(frozen=True, order=True)
class PublishedHour:
    """An hour of a metric whose recomputed rows are served."""

    hour: datetime
    metric: str
    tables: str
    """The name of the tables of the metric's declaration."""


def choose_hours(
    snapshot: Snapshot, metrics: Collection[str] | None, hours: HourRange | None, rand: Random
) -> list[PublishedHour]:
    """The published hours of ``metrics`` (None: of all), in order. ``hours`` is a range; None: a few of each metric, as
    ``rand`` chooses them. Raises UsageError if there are none.
    """
    chosen = [
        PublishedHour(hour, tables.metric.name, tables.name)
        for tables in snapshot.served
        if metrics is None or tables.metric.name in metrics
        for hour in _choose(snapshot, tables, hours, rand)
    ]
    if not chosen:
        raise UsageError(
            f"there is nothing to recount: no hour {'of that range ' if hours else ''}is published; "
            "`hourline status` shows which hours are, `hourline recompute` publishes closed ones"
        )
    return sorted(chosen)


def _choose(snapshot: Snapshot, tables: MetricTables, hours: HourRange | None, rand: Random) -> list[datetime]:
    published = sorted(snapshot.coverage.of(tables.metric.name, tables.declaration).cutoffs())
    if hours is not None:
        return [hour for hour in published if hour in hours]
    return rand.sample(published, min(AT_RANDOM, len(published)))
