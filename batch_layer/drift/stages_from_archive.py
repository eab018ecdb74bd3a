"""Computes hours again from the archived events, by the declaration that was served: what should have been served."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from batch_layer.drift.served_lookups import read_served_lookups
from batch_layer.folding.run import FrameFold
from batch_layer.job import Job
from batch_layer.read_archive import ArchivedEvents
from hourline_core.compute.aggregation import plan_aggregation
from hourline_core.compute.projection import Projection
from hourline_core.ledger.metric_tables import MetricTables


@dataclass(frozen=True)
class Replayed:
    """Some hours computed again."""

    counted: pa.Table
    """The tiles of the events that had counted."""
    first: pa.Table
    """The tiles of the first event of each id."""
    magnitudes: dict[tuple[datetime, str], float]
    """By hour and measure that adds doubles, the magnitude of what is added up. It bounds the error of the sum, which
    depends on the order of addition.
    """
    looked_up_anew: Collection[datetime] = frozenset()
    """The hours with events that were served with other versions of lookups than the recompute uses."""
    forgotten: Collection[datetime] = frozenset()
    """Those of them whose versions are no longer kept. They were computed again with the newest ones."""


Replay = Callable[[list[datetime]], Replayed]


def replay(job: Job, served: MetricTables, cutoff: int, hours: list[datetime]) -> Replayed:
    """Compute ``hours`` (UTC) of ``served`` again, up to the sequence ``cutoff``. Starts Spark unless it runs."""
    job.spark()  # Conditions on its columns cannot be made before it runs.
    source = served.source
    covered = job.snapshot.coverage.of(served.metric.name, served.declaration).covered(hours)
    lookups = read_served_lookups(job, source, hours, cutoff, covered)
    events = ArchivedEvents(job, source, hours, cutoff, served=covered, look_up=lookups.add_to)
    cutoffs = {hour: one.cutoff for hour, one in covered.items()}
    projection = Projection([plan_aggregation(job.spark(), source, served.metric)])
    rows = job.count_events(source, hours)
    # Which events had counted is known, so their ids do not matter.
    known = source.model_copy(update={"id": None})
    before = FrameFold.of(known, projection, events.keep_counted_before(cutoffs), rows, small=events.are_small)
    first = FrameFold.of(source, projection, events.with_fields(), rows, small=events.are_small)
    counted, _ = before.run()[served.metric.name]
    of_first, totals = first.run()[served.metric.name]
    return Replayed(counted, of_first, dict(totals.sizes), lookups.other_hours, lookups.forgotten_hours)
