"""Commits what the tasks of a micro-batch have written: their files and tiles, and progress last."""

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime

from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.compute.fold_tiles import Fold, connect_for_folds
from hourline_core.compute.projection import ProjectedMetric
from hourline_core.ledger.progress import BYTES_WRITER
from hourline_core.ledger.progress_rows import HourEvents, ProgressRow, RecordCounts, TakenBack
from hourline_core.model.hours import Clock
from hourline_core.model.windows import HOURLY
from speed_layer.commit.offset_order import OffsetOrder
from speed_layer.commit.source_tables import SourceTables
from speed_layer.intake.part import Part, TopicPart
from speed_layer.intake.read_micro_batch import Read
from speed_layer.recovery.reprocessing import drop_reprocessed


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


class Committer:
    """Commits the micro-batches of one source, in the order in which they were read. ``metrics`` are those whose tiles
    they have, by aggregation. ``clock`` (UTC) only dates them.
    """

    def __init__(
        self,
        source_tables: SourceTables,
        metrics: Mapping[str, ProjectedMetric],
        offsets: OffsetOrder,
        clock: Clock,
    ) -> None:
        self.source_tables = source_tables
        self.source = source_tables.source
        self.offsets = offsets
        self._clock = clock
        self._committed = 0
        """The number of the last one that was committed."""
        connection = connect_for_folds(metric.aggregation.metric for metric in metrics.values())
        self._folds = {name: Fold(connection, metric) for name, metric in metrics.items()}

    def commit(self, read: Read) -> Finished:
        """Commit what was read, and then progress. All that were read before must have been committed.

        Raises TableError, SourceError when the offsets do not follow those before, and ConflictError when another
        process writes to the tables.
        """
        assert read.number == self._committed + 1, "a micro-batch before this one was not committed"
        tables, part, sequence = self.source_tables, read.part, read.sequence
        names = {topic_id: name for name, topic_id in list(read.origin.topic_ids.items())}
        self.offsets.refuse_repeated(part.offsets, names)
        with ThreadPoolExecutor(max_workers=len(tables.aggregations) + 2) as pool:
            bytes_writer = [BYTES_WRITER] if part.brought_bytes else []
            archiving = [
                pool.submit(tables.append_files, table, files, sequence, *writers)
                for table, files, writers in (
                    (tables.events, part.events, []),
                    (tables.rejected, part.rejected, bytes_writer),
                )
                if files
            ]
            archiving += [pool.submit(self._append_tiles, of, part, sequence) for of in tables.aggregations]
            for future in archiving:
                future.result()
        if part.quarantine:
            assert tables.quarantine is not None, "only a metric with a class has a quarantine"
            tables.append_files(tables.quarantine, part.quarantine, sequence)
        finished = self._finish(read)
        for topic_id, offsets in read.offsets.items():
            self.offsets.note_committed(topic_id, offsets)
        self._committed = read.number
        return finished

    def _append_tiles(self, aggregation: AggregationPlan, part: Part, sequence: int) -> None:
        if tiles := part.tiles.get(aggregation.name):
            self.source_tables.append(
                self.source_tables.provisional[aggregation.name],
                self.source_tables.provisional_schemas[aggregation.name],
                self._folds[aggregation.name].merge(tiles),
                sequence,
            )

    def _finish(self, read: Read) -> Finished:
        """Commit progress, which makes the micro-batch count."""
        part, origin, started = read.part, read.origin, read.started
        before = self.source_tables.clock.time if self.source.clock == "event_time" else part.arrived
        self.source_tables.clock = clock = read.clock
        finished = self._clock()
        shared = ProgressRow(
            read.sequence,
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
            lookups=read.lookups,
        )
        known_ids = list(origin.topic_ids.items())  # Spark's thread may add to them.
        names = {topic_id: topic for topic, topic_id in known_ids}
        of_topics = [
            self._of_topic(
                part,
                replace(shared, topic_id=topic_id, topic=names[topic_id], offsets=offsets),
                None if origin.history else before,
            )
            for topic_id, offsets in read.offsets.items()
        ]
        self.source_tables.finish(*of_topics)
        if part.validated_again:
            for row in of_topics:
                drop_reprocessed(self.source_tables.events, self.source_tables.rejected, row)
        counts = part.counts()
        return Finished(
            source=self.source.name,
            sequence=read.sequence,
            records=part.records,
            accepted=counts.accepted,
            rejected=counts.rejected + part.validated_again,
            duplicates=counts.duplicates,
            not_taken=part.not_taken,
            late=sum(hour.late for row in of_topics for hour in row.hours),
            already_counted=part.already_counted,
            seconds=(finished - started).total_seconds(),
            quarantined=part.quarantined,
        )

    def _of_topic(self, part: Part, row: ProgressRow, clock_before: datetime | None) -> ProgressRow:
        """The ``row`` of progress of one topic, with its last records, and what the tasks have counted of it. An event
        is late if its hour had closed by ``clock_before``, the source's clock before this micro-batch. None: none is.
        """
        of_topic = part.topics.get(row.topic_id or "", TopicPart(RecordCounts(), Counter()))
        after = HOURLY.complete_after(self.source.grace)
        return replace(
            row,
            last_records=tuple(record for (of, _), record in part.last_records.items() if of == row.topic_id),
            counts=of_topic.counts,
            hours=tuple(
                HourEvents(hour, events, late=events if clock_before and hour + after <= clock_before else 0)
                for hour, events in sorted(of_topic.hours.items())
            ),
            taken_back=tuple(TakenBack(hour, events) for hour, events in sorted(of_topic.taken_back.items())),
        )
