"""A job: the hours that are recomputed together, and the one snapshot that all of its steps read."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import duckdb

from batch_layer.decoding.changed_hours import ChangedHours, read_changed_hours
from batch_layer.plan import FORCED, PlannedHour, list_hours
from hourline_core.ledger.snapshot import Snapshot
from hourline_core.lookups.as_of import LookupsAsOf
from hourline_core.lookups.join import PinnedLookup
from hourline_core.lookups.pinning import names_of, pin_newest, pin_used
from hourline_core.model import DeclaredMetric, Metric, Project, Source
from hourline_core.model.hours import Clock, HourRange
from hourline_core.sql.database import FUNCTIONS, open_database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_OF_A_SOURCE = ("progress", "source_hours", "late", "gaps", "events", "decoded")
_OF_A_METRIC = ("provisional", "final", "hours", "staged")


@dataclass(frozen=True)
class Job:
    """The hours that one job recomputes, and the one snapshot that all its steps read."""

    project: Project
    hours: list[PlannedHour]
    """With the numbers of events by the snapshot."""
    left_out: list[PlannedHour]
    """Hours that another process has published since they were planned."""
    database: duckdb.DuckDBPyConnection
    """DuckDB with the snapshot attached, and the sketch functions."""
    snapshot: Snapshot
    clock: Clock
    spark: Callable[[], "SparkSession"]
    """Start Spark on the first call."""
    changed: Mapping[str, ChangedHours] = field(default_factory=dict)
    """By source, what became of its records that other declarations have decoded."""
    pinned: dict[str, PinnedLookup] = field(default_factory=dict)
    """By name, the lookups that were asked for. All steps of the job use one version of each."""
    lookups_as_of: datetime | None = None
    """The moment (UTC) whose newest versions they are. None: they are the newest ones of all."""
    at_once: Mapping[str, Collection[datetime]] = field(default_factory=dict)
    """By metric, the hours (UTC) between which events move. Either all of them are published, or none."""
    _pinned_of: dict[str, Mapping[str, PinnedLookup]] = field(default_factory=dict, init=False)
    """By source, its lookups as the job uses them."""

    @property
    def sources(self) -> list[Source]:
        """The sources of the hours, in order."""
        return [self.project.sources[name] for name in sorted({item.source for item in self.hours})]

    def has_events(self, source: Source) -> bool:
        """Whether ``source`` may have an event in one of the hours, by the snapshot."""
        changed = self.changed.get(source.name)
        entered = changed.entered if changed else {}
        return any(item.events or item.hour in entered for item in self.hours if item.source == source.name)

    def count_events(self, source: Source, hours: Collection[datetime]) -> int:
        """About the number of events of ``source`` in ``hours`` (UTC), of those of the job, by the snapshot."""
        wanted = {*hours}
        here = [item for item in self.hours if item.source == source.name and item.hour in wanted]
        return sum({item.hour: item.events for item in here}.values())

    def pin_lookups(self, source: Source) -> Mapping[str, PinnedLookup]:
        """By name, the lookups of ``source`` as the job uses them: their newest versions, when it is asked first, or
        those of its micro-batches. Raises TableError if one was never read, and cannot be.
        """
        if source.name not in self._pinned_of:
            names = names_of(source)
            # What was decoded anew may have come from any hour.
            hours = None if source.name in self.changed else self.hours_of_source(source)
            if names - self.pinned.keys():
                self.pinned.update({**pin_newest(self.project, names, self.clock), **self.pinned})
            self._pinned_of[source.name] = {
                name: pin_used(one, source, hours) if self.project.lookups[name].on_change == "keep" else one
                for name, one in sorted(self.pinned.items())
                if name in names
            }
        return self._pinned_of[source.name]

    def metrics_of(self, source: Source) -> list[Metric]:
        """The metrics of the hours over ``source``, in order."""
        return [self.project.metrics[n] for n in sorted({i.metric for i in self.hours if i.source == source.name})]

    def hours_of_source(self, source: Source) -> list[datetime]:
        """The hours (UTC) of all metrics over ``source``, in order."""
        return sorted({item.hour for item in self.hours if item.source == source.name})

    def hours_of_metric(self, metric: Metric) -> list[datetime]:
        """The hours (UTC) of ``metric``, in order."""
        return sorted(item.hour for item in self.hours if item.metric == metric.name)


@contextmanager
def open_job(
    project: Project,
    planned: list[PlannedHour],
    clock: Clock,
    spark: Callable[[], "SparkSession"],
    lookups: LookupsAsOf | None = None,
) -> Iterator[Job]:
    """A job over those hours of ``planned`` that no other process has published meanwhile. Its tables are attached
    within the block. ``lookups`` are those that it uses. None: at their newest versions. Raises TableError.
    """
    with open_database(project, clock, partial(_tables_to_read, planned)) as (database, snapshot):
        current = _current(project, database, snapshot, planned)
        pairs = [(item, current.get((item.metric, item.hour), item)) for item in planned]
        left_out = [item for item, now in pairs if _is_done_since(item, now)]
        # An event may have come since, so that Spark is needed after all.
        hours = [replace(item, events=now.events) for item, now in pairs if not _is_done_since(item, now)]
        pinned, as_of = ({**lookups.pinned}, lookups.moment) if lookups else ({}, None)
        yield Job(project, hours, left_out, database, snapshot, clock, spark, pinned=pinned, lookups_as_of=as_of)


def _tables_to_read(planned: list[PlannedHour], snapshot: Snapshot) -> set[str]:
    """The tables and views of ``snapshot`` that a job of the hours ``planned`` reads, as far as there are such; of no
    hours: all that any job reads.
    """
    chosen = {item.source for item in planned} or snapshot.progress.keys()
    of_sources = {f"hourline.{kind}_{source}" for kind in _OF_A_SOURCE for source in chosen}
    of_metrics = {
        f"hourline.{kind}_{tables.name}"
        for kind in _OF_A_METRIC
        for tables in snapshot.metrics
        if tables.source.name in chosen
    }
    return {FUNCTIONS, "hourline.metric_hours", "hourline.quality", *of_sources, *of_metrics}


def join_moved_hours(job: Job) -> Job:
    """``job`` with what decoding anew changes, once that is done up to the sequences of its snapshot. Hours between
    which events move join its own, so that they are published at once.
    """
    changed: dict[str, ChangedHours] = {}
    at_once: dict[str, set[datetime]] = {}
    hours = list(job.hours)
    for source in job.sources:
        up_to = job.snapshot.progress[source.name].sequence
        of_source = read_changed_hours(job.database, job.project, source, up_to)
        if of_source is None:
            continue
        changed[source.name] = of_source
        for metric in job.metrics_of(source):
            declared, planned = DeclaredMetric(source, metric), job.hours_of_metric(metric)
            if moved := of_source.to_publish_at_once(declared, job.snapshot, planned):
                at_once[metric.name] = moved
                spanning = list_hours(
                    job.project, job.database, job.snapshot, [metric.name], HourRange.spanning(sorted(moved))
                )
                known = {(item.metric, item.hour) for item in hours}
                hours += [item for item in spanning if item.hour in moved and (item.metric, item.hour) not in known]
    hours.sort(key=lambda item: (item.hour, item.metric))
    return replace(job, hours=hours, changed=changed, at_once=at_once)


def _current(
    project: Project, database: duckdb.DuckDBPyConnection, snapshot: Snapshot, planned: list[PlannedHour]
) -> dict[tuple[str, datetime], PlannedHour]:
    """By metric and hour, the hours around those of ``planned`` as the snapshot has them."""
    if not planned:
        return {}
    hours = HourRange.spanning([item.hour for item in planned])
    return {(item.metric, item.hour): item for item in list_hours(project, database, snapshot, None, hours)}


def _is_done_since(planned: PlannedHour, now: PlannedHour) -> bool:
    """Whether the hour was published or blocked since it was planned, and no late event has revised it again."""
    return (now.version, now.staged) != (planned.version, planned.staged) and now.reason == FORCED
