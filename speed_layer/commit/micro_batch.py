"""One micro-batch: archive, aggregate, and finish by committing progress."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.compute.archive import events_to_archive, rejected_to_archive
from hourline_core.ledger.last_records import LastRecord
from hourline_core.ledger.layout import QUARANTINE_SCHEMA, REJECTED_SCHEMA
from hourline_core.ledger.progress_rows import HourEvents, OffsetsRead, ProgressRow, RecordCounts
from hourline_core.ledger.source_clock import NO_TIMES, SourceClock
from hourline_core.model.hours import Clock
from hourline_core.model.scratch_columns import (
    ARRIVED,
    DECODING,
    DUPLICATE,
    EVENT_TIME,
    HOUR,
    NOT_TAKEN_OUTCOMES,
    OFFSET,
    OUTCOME,
    PARTITION,
    TOPIC_ID,
    VALUE,
)
from hourline_core.model.windows import HOURLY
from speed_layer.commit.accounting import count_records
from speed_layer.commit.offset_order import OffsetOrder, OffsetsReached
from speed_layer.commit.source_tables import SourceTables
from speed_layer.intake.deduplication import Deduplicator
from speed_layer.intake.fold_tiles import Fold, Folded, connect_for_folds
from speed_layer.intake.record_plan import RecordPlan
from speed_layer.intake.record_rows import (
    accepted_of,
    event_times_by_partition,
    is_full,
    keep,
    last_records_of,
    number_of_records,
    of_topic,
    outcomes_of,
    partitions_of,
    with_outcome,
    with_topic_ids,
)
from speed_layer.kafka.record_origin import Origin
from speed_layer.recovery.reprocessing import Reprocessing, drop_reprocessed


@dataclass(frozen=True)
class Finished:
    """What a finished micro-batch did, as shown to users."""

    source: str
    sequence: int
    records: int
    accepted: int
    rejected: int
    duplicates: int
    not_taken: int
    """The number of records that the source's branch does not take."""
    late: int
    already_counted: int
    """The number of events, and of records without one, that were read before."""
    seconds: float
    """From the beginning of its reading to its commit. The micro-batch before may be committed meanwhile."""
    quarantined: int = 0
    """The number of events that metrics do not count, because a class of theirs fails for them."""


@dataclass(frozen=True)
class Read:
    """What Spark has read and evaluated for a micro-batch."""

    number: int
    """1 for the first one, then 2, and so on."""
    rows: pa.Table
    """What ``RecordPlan.apply`` gives, with TOPIC_ID. It may have no rows."""
    offsets: Mapping[str, tuple[OffsetsRead, ...]]
    """By topic id, the offsets that were read, also those without a record."""
    origin: Origin
    started: datetime
    last_records: Mapping[tuple[str, int], LastRecord]
    """The last record of each partition, by topic id and number. None of a file."""

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """The partitions that were read, by topic id and number."""
        return [(topic_id, read.partition) for topic_id, offsets in self.offsets.items() for read in offsets]


class MicroBatch:
    """Processes the micro-batches of one source, one after the other, with at most ``most_records`` each.

    ``plan`` is what Spark computes of their records. Reading depends on no other micro-batch, so the next one can be
    read while one is committed. ``clock`` (UTC) only dates them.
    """

    def __init__(
        self,
        source_tables: SourceTables,
        deduplicator: Deduplicator,
        reprocessing: Reprocessing,
        plan: RecordPlan,
        offsets: OffsetOrder,
        reached: OffsetsReached,
        most_records: int,
        clock: Clock,
    ) -> None:
        self.source_tables = source_tables
        self.source = source_tables.source
        self.plan = plan
        self.offsets = offsets
        self._reached = reached
        self._deduplicator = deduplicator
        self._reprocessing = reprocessing
        self._most_records = most_records
        self._clock = clock
        self._numbers = count(1)
        self._committed = 0
        """The number of the last one that was committed."""
        projected = plan.projection.metrics
        connection = connect_for_folds(metric.aggregation.metric for metric in projected.values())
        self._folds = {name: Fold(connection, metric) for name, metric in projected.items()}

    def read(self, evaluated: DataFrame, origin: Origin, ends: Mapping[tuple[str, int], int]) -> Read | None:
        """Run Spark on ``evaluated``, what ``plan.apply`` gives for records of ``origin``. It depends on no commit, and
        changes no table. ``ends`` are one past the last offset that Spark has looked at, by topic and partition; empty
        if the records are all there is. None: nothing was read.
        """
        started = self._clock()
        rows = evaluated.toArrow()  # the only Spark job
        rows = with_topic_ids(rows, origin.topic_ids)
        offsets = self._reached.advance(rows, {(origin.topic_ids[topic], of): end for (topic, of), end in ends.items()})
        last_records = {} if origin.history else last_records_of(rows)
        return Read(next(self._numbers), rows, offsets, origin, started, last_records) if offsets else None

    def commit(self, read: Read, sequence: int) -> Finished:
        """Archive and aggregate what was read, and commit progress under ``sequence``, which is above those of all
        micro-batches before. All that were read before must have been committed.

        Raises TableError, SourceError when the offsets do not follow those before, and ConflictError when another
        process writes to the tables.
        """
        assert read.number == self._committed + 1, "a micro-batch before this one was not committed"
        rows = read.rows
        self.offsets.refuse_repeated(rows)
        self._reprocessing.meet(pc.unique(rows[TOPIC_ID]).to_pylist())
        fresh = self._mark_duplicates(keep(rows, pa.array(~self._reprocessing.mark_counted(rows))))
        accepted = accepted_of(fresh)
        with ThreadPoolExecutor(max_workers=len(self.source_tables.aggregations) + 1) as pool:
            archive = pool.submit(self._archive, fresh, sequence)
            tiles = {
                aggregation.name: pool.submit(self._tiles, aggregation, accepted, sequence)
                for aggregation in self.source_tables.aggregations
                if accepted.num_rows
            }
            archive.result()
            folded = {name: future.result() for name, future in tiles.items()}
        quarantined = self._quarantine(folded.values(), sequence)
        finished = self._finish(read, fresh, accepted, sequence)
        for topic_id, offsets in read.offsets.items():
            self.offsets.note_committed(topic_id, offsets)
        self._committed = read.number
        return replace(finished, quarantined=quarantined)

    def _mark_duplicates(self, rows: pa.Table) -> pa.Table:
        """The rows with DUPLICATE (boolean)."""
        duplicate = self._deduplicator.duplicates(rows)
        return rows.append_column(DUPLICATE, pa.array(duplicate))

    def _tiles(self, aggregation: AggregationPlan, events: pa.Table, sequence: int) -> Folded:
        folded = self._folds[aggregation.name].fold(events)
        if folded.tiles.num_rows:
            self.source_tables.append(
                self.source_tables.provisional[aggregation.name],
                self.source_tables.provisional_schemas[aggregation.name],
                folded.tiles,
                sequence,
            )
        return folded

    def _quarantine(self, folded: Iterable[Folded], sequence: int) -> int:
        """Commit the events that classes fail for, of all metrics at once. Returns their number: one that several
        metrics do not count is several.
        """
        rows = [one.quarantined for one in folded if one.quarantined is not None]
        if not rows:
            return 0
        assert self.source_tables.quarantine is not None, "only a metric with a class has a quarantine"
        together = pa.concat_tables(rows)
        self.source_tables.append(self.source_tables.quarantine, QUARANTINE_SCHEMA, together, sequence)
        return int(together.num_rows)

    def _archive(self, rows: pa.Table, sequence: int) -> None:
        tables = self.source_tables
        decoding = pa.array([tables.decoding.hash] * rows.num_rows, pa.string())
        rows = rows.append_column(DECODING, decoding)
        # Of a record without an event, all there is to keep are its bytes, from which other declarations may make some.
        accepted, rejected = with_outcome(rows, "accepted"), with_outcome(rows, "rejected", "empty")
        rejected = keep(rejected, pc.is_valid(rejected[VALUE]))
        for chosen, table, schema in (
            (events_to_archive(accepted, tables.stored_names), tables.events, tables.events_schema),
            (rejected_to_archive(rejected), tables.rejected, REJECTED_SCHEMA),
        ):
            if chosen.num_rows:
                tables.append(table, schema, chosen, sequence)

    def _finish(self, read: Read, fresh: pa.Table, accepted: pa.Table, sequence: int) -> Finished:
        """Commit progress, which makes the micro-batch count. ``fresh`` are the rows of what it has read that did not
        count before, ``accepted`` the events of these that count.
        """
        rows, origin, started = read.rows, read.origin, read.started
        clock = self.source_tables.clock
        arrived = pc.max(rows[ARRIVED]).as_py()
        before = clock.time if self.source.clock == "event_time" else arrived
        if rows.num_rows:
            self.source_tables.clock = clock = self._advance_clock(rows, fresh, origin, arrived)
        finished = self._clock()
        shared = ProgressRow(
            sequence,
            topic_id=None,
            topic=None,
            offsets=(),
            counts=RecordCounts(),
            hours=(),
            metrics=self.source_tables.written_metrics(),
            clock=clock.time,
            started=started,
            finished=finished,
            partitions=clock.partitions,
            cluster=origin.cluster,
        )
        known_ids = list(origin.topic_ids.items())  # Spark's thread may add to them.
        names = {topic_id: topic for topic, topic_id in known_ids}
        of_topics = [
            self._of_topic(
                read,
                replace(shared, topic_id=topic_id, topic=names[topic_id], offsets=offsets),
                of_topic(fresh, topic_id),
                None if origin.history else before,
            )
            for topic_id, offsets in read.offsets.items()
        ]
        self.source_tables.finish(*of_topics)
        if self._reprocessing.find_counted(fresh).rejected:
            for row in of_topics:
                drop_reprocessed(self.source_tables.events, self.source_tables.rejected, row)
        self._reprocessing.release_passed(rows)
        self._deduplicator.remember(accepted, clock.time)
        outcomes = outcomes_of(fresh)
        return Finished(
            source=self.source.name,
            sequence=sequence,
            records=number_of_records(rows),
            accepted=accepted.num_rows,
            rejected=outcomes.get("rejected", 0),
            duplicates=pc.sum(fresh[DUPLICATE]).as_py() or 0,
            not_taken=sum(outcomes.get(name, 0) for name in NOT_TAKEN_OUTCOMES),
            late=sum(hour.late for row in of_topics for hour in row.hours),
            already_counted=rows.num_rows - fresh.num_rows,
            seconds=(finished - started).total_seconds(),
        )

    def _advance_clock(self, rows: pa.Table, fresh: pa.Table, origin: Origin, arrived: datetime) -> SourceClock:
        """The source's clock after ``rows``, of which ``fresh`` did not count before. A duplicate moves it, too: it
        shows how far its partition is. A record that another branch takes shows nothing.
        """
        clock = self.source_tables.clock
        events = with_outcome(fresh, "accepted").select([TOPIC_ID, PARTITION, OFFSET, EVENT_TIME])
        event_times = event_times_by_partition(events)
        if origin.history:
            (times,) = event_times.values() or (NO_TIMES,)  # a file has one partition
            return clock.after_import(times, arrived)
        taken = keep(rows, pc.invert(pc.is_in(rows[OUTCOME], pa.array(NOT_TAKEN_OUTCOMES))))
        read = {partition: event_times.get(partition, NO_TIMES) for partition in partitions_of(taken)}
        behind = list(partitions_of(rows)) if is_full(rows, self._most_records) else []
        return clock.after_records(read, arrived, skew=self.source.skew, behind=behind)

    def _of_topic(self, read: Read, row: ProgressRow, fresh: pa.Table, clock_before: datetime | None) -> ProgressRow:
        """The ``row`` of progress of one topic, with its last records, and what its ``fresh`` rows count."""
        return replace(
            row,
            last_records=tuple(record for (of, _), record in read.last_records.items() if of == row.topic_id),
            counts=count_records(fresh, self._reprocessing.find_counted(fresh)),
            hours=self._hours(accepted_of(fresh), clock_before),
        )

    def _hours(self, accepted: pa.Table, clock: datetime | None) -> tuple[HourEvents, ...]:
        """The accepted events per hour, and how many of them came after their hour had closed by ``clock``, the
        source's clock before this micro-batch. None: no event is late.
        """
        after = HOURLY.complete_after(self.source.grace)
        counts = accepted.group_by(HOUR).aggregate([(OFFSET, "count")]).sort_by(HOUR)
        return tuple(
            HourEvents(hour, events, late=events if clock and hour + after <= clock else 0)
            for hour, events in zip(counts[HOUR].to_pylist(), counts[f"{OFFSET}_count"].to_pylist(), strict=True)
        )
