"""One job of a recompute: take a cutoff, aggregate, stage, audit, publish; all metrics of a chunk of hours at once."""

from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import SparkSession

from batch_layer.archived_events import ArchivedEvents, counting, tiles_of
from batch_layer.audit.auditing import Audit, Audited, StagedHours
from batch_layer.audit.record import quality_rows
from batch_layer.plan import PlannedHour
from batch_layer.publish import Publication, Staged
from batch_layer.reports.renewing import renew_overview
from batch_layer.reports.writing import write_pages
from batch_layer.seen_changes import hours_to_cover, seen_changes
from hourline_core.compute.aggregation import plan_aggregation
from hourline_core.ledger.snapshot import Snapshot
from hourline_core.model import Project
from hourline_core.model.hours import Clock
from hourline_core.sql.database import open_database
from hourline_core.sql.sketches import install_sketch_functions

_SORTED_AGAIN = 2
"""For so many metrics, events are sooner read again, and sorted to tell duplicates, than held in memory with all their
columns.
"""


@dataclass(frozen=True)
class Recomputed:
    """What has become of the hours of one job; (metric, hour) each, in UTC."""

    published: list[tuple[str, datetime]]
    blocked: list[tuple[str, datetime]]
    """Those that did not pass their audit: readers keep what they had."""
    events: int
    """Events that were counted, duplicates left out."""
    cutoffs: dict[str, int]
    """By source, the sequence up to which it counted."""

    @property
    def hours(self) -> list[datetime]:
        """All hours that were recomputed."""
        return sorted({hour for _, hour in (*self.published, *self.blocked)})


def run_job(spark: SparkSession, project: Project, job: list[PlannedHour], clock: Clock) -> Recomputed:
    """Recompute the hours of ``job``, audit them, and publish those that pass, with by how much they changed. ``clock``
    dates it (UTC).

    Raises ConflictError when another process has published meanwhile; nothing that readers see has changed then.
    """
    began = clock()
    metrics = [project.metrics[name] for name in sorted({item.metric for item in job})]
    aggregations = [plan_aggregation(spark, project.sources[metric.source], metric) for metric in metrics]
    publication = Publication(project, aggregations)
    # Progress (in the snapshot) before events: all that the cutoff speaks of was archived before progress was
    # committed.
    with open_database(project, clock) as (database, snapshot):
        install_sketch_functions(database)
        uncovered = hours_to_cover(database)
        audited: list[tuple[Audited, list[Staged]]] = []
        counted_events = 0
        for source in [project.sources[name] for name in sorted({item.source for item in job})]:
            cutoff = snapshot.progress[source.name].sequence
            events = ArchivedEvents(
                spark, project, source, sorted({item.hour for item in job if item.source == source.name}), cutoff
            )
            marked = events.marked()
            of_source = [aggregation for aggregation in aggregations if aggregation.source is source]
            if source.expectations or (source.id and len(of_source) > _SORTED_AGAIN):
                marked = marked.persist()
            try:
                counted = counting(marked)
                staged = []
                for aggregation in of_source:
                    hours = sorted(item.hour for item in job if item.metric == aggregation.metric.name)
                    staged.append(publication.stage(aggregation, tiles_of(aggregation, counted, hours), hours, cutoff))
                found = Audit(database, source).of(marked, [_to_audit(item, snapshot) for item in staged])
                counted_events += found.events
            finally:
                marked.unpersist()
            validated = []
            for item in staged:
                passing = replace(item, blocked=found.blocked(item.aggregation))
                promotes = item.aggregation.name in uncovered and uncovered[item.aggregation.name] <= set(
                    passing.passed
                )
                drift = seen_changes(lambda: spark, project, database, snapshot, passing, promotes)
                validated.append(replace(passing, drift=drift, promotes=promotes))
            audited.append((found, validated))
    moment = clock()
    write_pages(project, publication.number, [found for found, _ in audited], moment)
    cost = {"events": sum(item.events for item in job), "seconds": (moment - began).total_seconds()}
    items = [item for _, validated in audited for item in validated]
    publication.publish(items, quality_rows(audited, moment), moment, cost)
    renew_overview(project, clock)
    return Recomputed(
        published=[(item.aggregation.metric.name, hour) for item in items for hour in item.passed],
        blocked=[(item.aggregation.metric.name, hour) for item in items for hour in sorted(item.blocked)],
        events=counted_events,
        cutoffs={item.aggregation.source.name: item.cutoff for item in items},
    )


def _to_audit(staged: Staged, snapshot: Snapshot) -> StagedHours:
    published = next((tables for tables in snapshot.metrics if tables.name == staged.aggregation.name), None)
    return StagedHours(staged.aggregation, staged.rows, staged.hours, staged.columns, published)
