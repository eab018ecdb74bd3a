"""What a micro-batch reads: its tasks archive and fold the records. The driver decides duplicates and the clock."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count

import pyarrow as pa

from hourline_core.compute.lookup_columns import NO_LOOKUPS, Pinned
from hourline_core.ledger.progress_rows import OffsetsRead
from hourline_core.ledger.read_offsets import ARRIVALS
from hourline_core.ledger.source_clock import PartitionClock, SourceClock
from hourline_core.model.hours import Clock
from hourline_core.model.scratch_columns import OFFSET, PARTITION, PLACE, TOPIC_ID
from speed_layer.commit.offset_order import OffsetsReached
from speed_layer.commit.source_tables import SourceTables
from speed_layer.intake.deduplication import Deduplicator
from speed_layer.intake.micro_batch_size import MicroBatchSize, TaskBounds
from speed_layer.intake.part import IDS, Assignment, Part, sum_of
from speed_layer.intake.record_rows import is_full
from speed_layer.intake.tasks import Evaluated, Tasks
from speed_layer.kafka.record_origin import Origin
from speed_layer.recovery.reprocessing import Reprocessing


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
    lookups: Mapping[str, int] = field(default_factory=dict)
    """By name, the versions of the source's lookups that were used."""

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """The partitions that were read, by topic id and number."""
        return [(topic_id, read.partition) for topic_id, offsets in self.offsets.items() for read in offsets]


class MicroBatchReader:
    """Reads the micro-batches of one source, one after the other. ``size`` bounds the next one.

    ``tasks`` runs the tasks of each. Reading depends on no commit, so the next one can be read while one is committed.
    ``clock`` (UTC) dates them, and says when the records arrive.
    """

    def __init__(
        self,
        source_tables: SourceTables,
        deduplicator: Deduplicator,
        reprocessing: Reprocessing,
        tasks: Tasks,
        reached: OffsetsReached,
        size: MicroBatchSize,
        clock: Clock,
        pin_lookups: Callable[[], Pinned] = lambda: NO_LOOKUPS,
    ) -> None:
        self.pin_lookups = pin_lookups
        """Gives the versions of the source's lookups for a micro-batch that begins now."""
        self.source_tables = source_tables
        self.tasks = tasks
        self.size = size
        self._reached = reached
        self._deduplicator = deduplicator
        self._reprocessing = reprocessing
        self._clock = clock
        self._numbers = count(1)
        self._read_up_to = source_tables.clock
        """The clock after what was read, which may not be committed yet."""
        self._file_clock: PartitionClock | None = None
        """That of the files that arrive, after the rows of one that goes on. None: none does."""

    def forget_other_topics(self, topic_ids: Collection[str]) -> None:
        """Let the clock go by the partitions of these topics alone. A topic that is read no more holds nothing."""
        self.source_tables.clock = self._read_up_to = self._read_up_to.of_topics(topic_ids)

    def is_met(self, topic_ids: Collection[str]) -> bool:
        """Whether all of these topics were there at the start, or were read since."""
        return self._reprocessing.is_met(topic_ids)

    def meet_new(self, topic_id: str) -> None:
        """Take up a file of which nothing was read before, so that progress need not be asked."""
        self._reprocessing.meet_new(topic_id)

    def end_file(self) -> SourceClock | None:
        """The source's clock after the rows of a file that does not go on. None: none was begun."""
        if self._file_clock is None:
            return None
        known, self._file_clock = self._file_clock, None
        self._read_up_to = self._read_up_to.after_records([known])
        return self._read_up_to

    def read(
        self,
        evaluated: Evaluated,
        origin: Origin,
        ends: Mapping[tuple[str, int], int],
        sequence: int,
        *,
        clock: SourceClock | None = None,
        bounds: TaskBounds | None = None,
    ) -> Read | None:
        """Run the tasks on ``evaluated``, what ``RecordPlan.apply`` gives for records of ``origin``, to be committed as
        ``sequence``. It depends on no commit, unless a topic is new, and changes no table. ``ends`` are one past the
        last offset that Spark looks at, by topic and partition. The ``clock`` after it and the ``bounds`` of its tasks
        are what its records tell, unless they are given. None: nothing was read.
        """
        started = self._clock()
        ends_by_id = {(origin.topic_ids[topic], of): end for (topic, of), end in ends.items()}
        self._reprocessing.meet(origin.topic_ids.values())
        spans = self._reached.span_to(ends_by_id)
        assignment = Assignment(
            sequence,
            dict(origin.topic_ids),
            self._read_up_to if self._file_clock is None else self._read_up_to.with_partition(self._file_clock),
            started,
            self._reprocessing.counted_within(spans),
            origin.history,
            lookups=self.pin_lookups(),
        )
        of_size = self.size.bounds(sum(end - first for first, end in spans.values()))
        part = self._run(evaluated, assignment, bounds or of_size)
        offsets = self._reached.advance(part.offsets, ends_by_id)
        if not offsets:
            return None
        self._reprocessing.release_passed({of: last for of, (_, last) in part.offsets.items()})
        clock = clock or self._clock_after(part, origin)
        self.size.learn(part.records, part.rows, part.size)
        self._deduplicator.remember(_ids(part), clock.time)
        self._read_up_to = clock
        versions = {name: pinned.version for name, pinned in assignment.lookups.items()}
        return Read(next(self._numbers), sequence, part, offsets, origin, started, clock, versions)

    def _run(self, evaluated: Evaluated, assignment: Assignment, bounds: TaskBounds) -> Part:
        """What the tasks tell. If an id was seen before, all of them run again, and mark its event as a duplicate. The
        files of the run before are deleted.

        In between, Kafka may have compacted away the first event of an id. Then another one is the first, and the tasks
        run once more.
        """
        while True:
            part = sum_of(self.tasks.run(evaluated, assignment, bounds))
            duplicates = self._find_duplicates(part)
            if duplicates == assignment.duplicates:
                return part
            self.source_tables.discard(part)
            assignment = replace(assignment, duplicates=duplicates)

    def _find_duplicates(self, part: Part) -> frozenset[tuple[str, int, int, int]]:
        """The addresses of events whose ids were seen before, in these records or earlier."""
        ids = _ids(part)
        duplicates = ids.filter(pa.array(self._deduplicator.duplicates(ids)))
        columns = (duplicates[name].to_pylist() for name in (TOPIC_ID, PARTITION, OFFSET, PLACE))
        return frozenset(zip(*columns, strict=True))

    def _clock_after(self, part: Part, origin: Origin) -> SourceClock:
        """The source's clock after what the tasks have read."""
        # Idle partitions may have let the clock go on since.
        times = (self._read_up_to.time, self.source_tables.clock.time)
        clock = replace(self._read_up_to, time=max(filter(None, times), default=None))
        if part.arrived is None:  # There are no records.
            return clock
        if origin.history:
            return clock.after_import(part.latest, part.arrived)
        clocks = part.clocks
        if file_clock := clocks.get((ARRIVALS, 0), self._file_clock):
            self._file_clock = file_clock if origin.goes_on else None
            if origin.goes_on:
                return clock
            clocks = {file_clock.address: file_clock}
        is_behind = not file_clock and is_full(part.offsets, self.size.records)
        behind = list(part.offsets) if is_behind else []
        return clock.after_records(clocks.values(), behind=behind)


def _ids(part: Part) -> pa.Table:
    return pa.concat_tables([IDS.empty_table(), *part.ids])
