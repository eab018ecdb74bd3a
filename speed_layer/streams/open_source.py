"""Prepares a source for its micro-batches: plans its metrics, opens its tables, and loads its recent ids."""

from collections.abc import Collection
from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from hourline_core.compute.aggregation import AggregationPlan, plan_aggregation
from hourline_core.compute.projection import Projection
from hourline_core.compute.resolve import empty_events
from hourline_core.ledger.decoded_tables import fence_decoded
from hourline_core.ledger.decodings import read_decodings
from hourline_core.ledger.layout import Layout, stored_names
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.ledger.snapshot import take_snapshot
from hourline_core.lookups.pinning import RefreshedLookups
from hourline_core.model import Project, Source, declaration_hash
from hourline_core.model.branches import branches_of
from hourline_core.model.hours import Clock
from hourline_core.model.settings import bytes_of
from hourline_core.storage.nullable_schema import nullable_schema
from speed_layer.commit.committer import Committer
from speed_layer.commit.offset_order import OffsetOrder, OffsetsReached
from speed_layer.commit.source_tables import SourceTables, open_source_tables
from speed_layer.derived.spans import FIRST_HOUR
from speed_layer.intake.deduplication import Deduplicator, archived_id_hashes
from speed_layer.intake.micro_batch_size import MicroBatchSize
from speed_layer.intake.part import IntakePlan
from speed_layer.intake.read_micro_batch import MicroBatchReader
from speed_layer.intake.record_plan import RecordPlan
from speed_layer.intake.tasks import Tasks
from speed_layer.recovery.reprocessing import Reprocessing


def open_source(
    spark: SparkSession,
    project: Project,
    source: Source,
    topic_ids: Collection[str],
    clock: Clock,
    *,
    reads_alone: bool = False,
) -> tuple[MicroBatchReader, Committer]:
    """Open or create the tables of ``source`` for what reads and what commits its micro-batches. They go on where
    ``topic_ids`` were read up to. ``reads_alone``: no other source reads these records.

    A writer that had the tables before is fenced out, and what it left unfinished is deleted. Raises TableError,
    ConflictError. The caller holds the lease "speed".
    """
    aggregations = _aggregations(spark, project, source)
    fields = empty_events(spark, source).select(*source.event_fields).withColumnsRenamed(stored_names(source))
    fields_schema = nullable_schema(to_arrow_schema(fields.schema, timezone="UTC"))
    source_tables = open_source_tables(Layout.of(project), source, fields_schema, aggregations, clock)
    settings = project.settings.speed
    sharing = sum(one.remembers_ids for one in project.sources.values())
    deduplicator = Deduplicator(
        source.id_horizon, bytes_of(settings.ids_in_memory) // max(sharing, 1), project.workspace
    )
    if source.remembers_ids:
        # There are events, and no clock yet, in the middle of the first file that is read as it arrives.
        time = source_tables.clock.time
        address, since = Layout.of(project).events(source), FIRST_HOUR if time is None else time - source.id_horizon
        for archived in archived_id_hashes(spark, source, address, source_tables.events, since):
            deduplicator.remember(archived, time)
    decoded = partial(fence_decoded, Layout.of(project), source)
    lost = [one.hash for one in read_decodings(source_tables.events) if source.raw and not one.raw]
    reprocessing = Reprocessing(
        source_tables.progress, source_tables.events, source_tables.rejected, topic_ids, decoded, lost
    )
    size = MicroBatchSize(settings.max_records_per_batch, bytes_of(settings.max_bytes_per_batch))
    branches = branches_of(project.sources.values(), source, reads_alone=reads_alone)
    projection = Projection(aggregations)
    records = RecordPlan(source, branches, projection)
    following = {
        (topic_id, partition): offset
        for topic_id, reading in source_tables.progress.readings(topic_ids).items()
        for partition, offset in reading.next_offsets.items()
    }
    offsets, reached = OffsetOrder(following), OffsetsReached(following)
    tasks = Tasks(_intake_plan(Layout.of(project), source_tables, records), records)
    lookups = RefreshedLookups(project, source, clock)
    reader = MicroBatchReader(
        source_tables, deduplicator, reprocessing, tasks, reached, size, clock, pin_lookups=lookups.pinned
    )
    return reader, Committer(source_tables, tasks.plan.metrics, offsets, clock)


def _intake_plan(layout: Layout, tables: SourceTables, records: RecordPlan) -> IntakePlan:
    source = tables.source
    return IntakePlan(
        source,
        records.projection.metrics,
        layout.events(source),
        layout.rejected(source),
        layout.quarantine(source),
        layout.storage_options,
        tables.events_schema,
        tables.stored_names,
        tables.decoding.hash,
        records.native,
        records.native_lookups,
    )


def _aggregations(spark: SparkSession, project: Project, source: Source) -> list[AggregationPlan]:
    """The aggregations of ``source``: its metrics, and before one that has changed the declaration that is served until
    the new one is promoted.
    """
    served = {tables.metric.name: tables for tables in take_snapshot(project).served}
    aggregations: list[AggregationPlan] = []
    for metric in project.metrics_of(source.name):
        current = plan_aggregation(spark, source, metric)
        older = served.get(metric.name)
        if older and older.declaration != current.declaration and (followed := _plan_as_before(spark, source, older)):
            aggregations.append(followed)
        aggregations.append(current)
    return aggregations


def _plan_as_before(spark: SparkSession, source: Source, older: MetricTables) -> AggregationPlan | None:
    """The older declaration, planned for events as they come in now. None where they lack what it counts, or have other
    ids.
    """
    fields = {name.casefold() for name in source.event_fields}
    # A field may have the name of a derived field that is no more. If the metric uses it, the hash is another.
    derived = {name: text for name, text in older.source.derived.items() if name.casefold() not in fields}
    over = source.model_copy(update={"derived": derived, "where": older.source.where})
    if declaration_hash(over, older.metric) != older.declaration:
        return None
    return plan_aggregation(spark, over, older.metric)
