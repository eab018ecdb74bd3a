"""One micro-batch: its tasks archive and fold the records; then it is finished by committing progress."""

from collections import Counter
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count

import pyarrow as pa
from pyspark.sql import DataFrame

from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.ledger.progress_rows import HourEvents, OffsetsRead, ProgressRow, RecordCounts
from hourline_core.ledger.source_clock import SourceClock
from hourline_core.model.hours import Clock, wall_clock
from hourline_core.model.scratch_columns import OFFSET, PARTITION, PLACE, TOPIC_ID
from hourline_core.model.windows import HOURLY
from speed_layer.commit.offset_order import OffsetOrder, OffsetsReached
from speed_layer.commit.source_tables import SourceTables
from speed_layer.intake.deduplication import Deduplicator
from speed_layer.intake.fold_tiles import Fold, connect_for_folds
from speed_layer.intake.part import IDS, Assignment, Part, TopicPart, sum_of
from speed_layer.intake.record_rows import is_full
from speed_layer.intake.tasks import Tasks
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
    """What the tasks of a micro-batch have read, archived and folded. No commit names it yet."""

    number: int
    """1 for the first one, then 2, and so on."""
    sequence: int
    """The number under which it is committed. That of a micro-batch which is not committed is never used."""
    part: Part
    """All that the tasks have told. It may have no records."""
    offsets: Mapping[str, tuple[OffsetsRead, ...]]
    """By topic id, the offsets that were read, also those without a record."""
    origin: Origin
    started: datetime
    clock: SourceClock
    """The source's clock after it."""

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """The partitions that were read, by topic id and number."""
        return [(topic_id, read.partition) for topic_id, offsets in self.offsets.items() for read in offsets]


class MicroBatch:
    """Processes the micro-batches of one source, one after the other, with at most ``most_records`` each.

    ``tasks`` runs the tasks of each. Reading depends on no commit, so the next one can be read while one is committed.
    ``clock`` (UTC) only dates them.
    """

    def __init__(
        self,
        source_tables: SourceTables,
        deduplicator: Deduplicator,
        reprocessing: Reprocessing,
        tasks: Tasks,
        offsets: OffsetOrder,
        reached: OffsetsReached,
        most_records: int,
        clock: Clock,
    ) -> None:
        self.source_tables = source_tables
        self.source = source_tables.source
        self.tasks = tasks
        self.offsets = offsets
        self._reached = reached
        self._deduplicator = deduplicator
        self._reprocessing = reprocessing
        self._most_records = most_records
        self._clock = clock
        self._numbers = count(1)
        self._read_up_to = source_tables.clock
        """The clock after what was read, which may not be committed yet."""
        self._committed = 0
        """The number of the last one that was committed."""
        metrics = tasks.plan.metrics
        connection = connect_for_folds(metric.aggregation.metric for metric in metrics.values())
        self._folds = {name: Fold(connection, metric) for name, metric in metrics.items()}

    def forget_other_topics(self, topic_ids: Collection[str]) -> None:
        """Let the clock go by the partitions of these topics alone. A topic that is read no more holds nothing."""
        self.source_tables.clock = self._read_up_to = self._read_up_to.of_topics(topic_ids)

    def is_met(self, topic_ids: Collection[str]) -> bool:
        """Whether all of these topics were there at the start, or were read since."""
        return self._reprocessing.is_met(topic_ids)

    def read(
        self, evaluated: DataFrame, origin: Origin, ends: Mapping[tuple[str, int], int], sequence: int
    ) -> Read | None:
        """Run the tasks on ``evaluated``, what ``RecordPlan.apply`` gives for records of ``origin``, to be committed as
        ``sequence``. It depends on no commit, unless a topic is new, and changes no table. ``ends`` are one past the
        last offset that Spark looks at, by topic and partition. None: nothing was read.
        """
        started = self._clock()
        ends_by_id = {(origin.topic_ids[topic], of): end for (topic, of), end in ends.items()}
        self._reprocessing.meet(origin.topic_ids.values())
        spans = self._reached.span_to(ends_by_id)
        assignment = Assignment(
            sequence,
            dict(origin.topic_ids),
            self._read_up_to,
            wall_clock(),
            self._reprocessing.counted_within(spans),
            origin.history,
        )
        part = self._run(evaluated, assignment, sum(end - first for first, end in spans.values()))
        offsets = self._reached.advance(part.offsets, ends_by_id)
        if not offsets:
            return None
        self._reprocessing.release_passed({of: last for of, (_, last) in part.offsets.items()})
        clock = self._clock_after(part, origin)
        self._deduplicator.remember(_ids(part), clock.time)
        self._read_up_to = clock
        return Read(next(self._numbers), sequence, part, offsets, origin, started, clock)

    def _run(self, evaluated: DataFrame, assignment: Assignment, records: int) -> Part:
        """What the tasks tell. Whether an id was seen before is known when all have told theirs: then they run again,
        and leave those events out. The files of the first run are in no commit.
        """
        part = sum_of(self.tasks.run(evaluated, assignment, records))
        ids = _ids(part)
        duplicates = ids.filter(pa.array(self._deduplicator.duplicates(ids)))
        if duplicates.num_rows:
            columns = (duplicates[name].to_pylist() for name in (TOPIC_ID, PARTITION, OFFSET, PLACE))
            addresses = frozenset(zip(*columns, strict=True))
            part = sum_of(self.tasks.run(evaluated, replace(assignment, duplicates=addresses), records))
        return part

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
            archiving = [
                pool.submit(tables.append_files, table, files, sequence)
                for table, files in ((tables.events, part.events), (tables.rejected, part.rejected))
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

    def _clock_after(self, part: Part, origin: Origin) -> SourceClock:
        """The source's clock after what the tasks have read."""
        # Idle partitions may have let the clock go on since.
        times = (self._read_up_to.time, self.source_tables.clock.time)
        clock = replace(self._read_up_to, time=max(filter(None, times), default=None))
        if part.arrived is None:  # There are no records.
            return clock
        if origin.history:
            return clock.after_import(part.latest, part.arrived)
        behind = list(part.offsets) if is_full(part.offsets, self._most_records) else []
        return clock.after_records(part.clocks.values(), behind=behind)

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
        )


def _ids(part: Part) -> pa.Table:
    return pa.concat_tables([IDS.empty_table(), *part.ids])
