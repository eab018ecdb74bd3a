"""The running stream of a derived source: a thread that reads what its inputs have finished, one micro-batch after the
other.

The progress of the derived source says up to which sequence each input was read: an input is like a topic with one
partition, whose offsets are sequences. So a start goes on behind the last micro-batch that was finished.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol

import pyarrow as pa
from pyspark.sql import SparkSession

from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.ledger.source_clock import SourceClock
from hourline_core.machine import limit_of_worker
from hourline_core.model import Project
from hourline_core.model.hours import Clock
from speed_layer.commit.committer import Committer, Finished
from speed_layer.commit.idle_partitions import IdlePartitions, Offsets
from speed_layer.commit.maintenance import maintain_after
from speed_layer.derived.division import Division
from speed_layer.derived.gaps import gap_row, rows_before_gap
from speed_layer.derived.inputs import Input, new_rows, sequences_read, split_rows
from speed_layer.derived.passed import Passed
from speed_layer.intake.micro_batch_size import TaskBounds
from speed_layer.intake.read_micro_batch import MicroBatchReader, Read
from speed_layer.intake.record_plan import RecordPlan
from speed_layer.intake.tasks import Evaluated
from speed_layer.kafka.record_origin import Origin
from speed_layer.streams.thread_stream import ThreadStream


class Step(Protocol):
    """What one micro-batch of a derived source reads."""

    @property
    def up_to(self) -> Sequence[int]:
        """By input, the sequence up to which it is read now."""

    @property
    def rows(self) -> int:
        """The number of archived rows that it reads."""

    def derive(self, records: RecordPlan, arrived: datetime, parts: int) -> Evaluated | None:
        """Its events, evaluated by ``records`` in so many ``parts``. They ``arrived`` (UTC) when it was planned. None:
        there are none.
        """


class Derivation(Protocol):
    """How the events of a source are made of those of its inputs."""

    @property
    def inputs(self) -> Sequence[Input]: ...

    @property
    def wait(self) -> timedelta:
        """How far the clock is behind those of the inputs: the time for which an event waits for others."""

    def plan(self, read: Sequence[Sequence[ProgressRow]], after: Sequence[int], passed: Passed) -> Step:
        """The step over the rows of progress ``read`` of each input, which was read up to the sequence ``after``
        before. ``passed`` is what it makes of the clock.
        """

    def reach_of_gap(self, place: int) -> tuple[timedelta, timedelta]:
        """How much earlier, and later, than a lost event of the input at ``place`` events may be missing."""


class DerivedStream(ThreadStream):
    """A stream of other sources. ``feeds`` says whether the streams of the inputs may go on; None: it never ends by
    itself.
    """

    def __init__(
        self,
        spark: SparkSession,
        project: Project,
        derivation: Derivation,
        reader: MicroBatchReader,
        committer: Committer,
        on_finished: Callable[[Finished], None],
        clock: Clock,
        feeds: Callable[[], bool] | None,
    ) -> None:
        super().__init__(spark, reader.source_tables, "derive")
        self._project, self._derivation = project, derivation
        self._inputs = inputs = derivation.inputs
        self._tables.inputs = list({one.topic_id: one.progress.table for one in inputs}.values())
        self._reader, self._committer, self._on_finished, self._clock = reader, committer, on_finished, clock
        self._feeds = feeds
        self._origin = Origin({one.source.name: one.topic_id for one in inputs})
        self._after = sequences_read(self._tables.progress, inputs)
        """By input, the sequence up to which it is read and committed."""
        self._idle = IdlePartitions(self._tables, self._ends, dict[tuple[str, int], int], clock)
        self._division = Division(spark.sparkContext.defaultParallelism)
        self._finished = 0
        self._thread.start()

    def _may_go_on(self) -> bool:
        return self._feeds is None or self._feeds()

    def _read_next(self) -> bool:
        most = self._project.settings.speed.max_records_per_batch
        there = new_rows(self._inputs, self._after)
        read = [split_rows(rows_before_gap(rows), most) for rows in there]
        for place, rows in enumerate(there):
            if rows and not read[place]:  # Its next sequence has a gap. It must not wait until the other input is read.
                self._pass_gap(place, rows)
                return True
        if not any(read):
            return False
        for one in self._inputs:  # after progress: its events are there then
            one.events.update_incremental()
        self._derive(read)
        return True

    def _derive(self, read: Sequence[Sequence[ProgressRow]]) -> None:
        clock = self._clock_after(read)
        passed = Passed(self._tables.clock.time, clock.time)
        step = self._derivation.plan(read, self._after, passed)
        while (micro_batch := self._read_if_it_fits(step, clock)) is None:
            pass
        self._division.relax()
        if self._commit(partial(self._finish, micro_batch)):
            self._after = [*step.up_to]

    def _read_if_it_fits(self, step: Step, clock: SourceClock) -> Read | None:
        """Have tasks derive and read the events. None: one of them had too little memory, and their parts are smaller
        now. Nothing of it is committed.
        """
        parts = self._division.parts_of(step.rows)
        events = step.derive(self._reader.tasks.records, self._clock(), parts)
        try:
            micro_batch = self._reader.read(
                pa.table({}) if events is None else events,
                self._origin,
                {(one.source.name, 0): sequence + 1 for one, sequence in zip(self._inputs, step.up_to, strict=True)},
                self._sequence,
                clock=clock,
                bounds=TaskBounds(parts, small_rows=False),
            )
        except Exception as error:
            if limit_of_worker(error) is None or not self._division.refine(step.rows):
                raise
            return None
        assert micro_batch, "a sequence of an input is read"
        return micro_batch

    def _finish(self, micro_batch: Read) -> None:
        self._on_finished(self._committer.commit(micro_batch))
        self._finished += 1
        maintain_after(self._project, self._tables, self._finished)

    def _clock_after(self, read: Sequence[Sequence[ProgressRow]]) -> SourceClock:
        """The lesser of the clocks of the inputs, as far as they are read, less the time for which an event waits for
        others: what it has passed is decided. An input without events holds it.
        """
        wait = self._derivation.wait
        clock, now = self._tables.clock, self._clock()
        known = []
        for one, rows in zip(self._inputs, read, strict=True):
            before = clock.of_partition((one.topic_id, 0), now)
            has_records = any(row.counts.records for row in rows)
            shown = _moved_back(rows[-1].clock, wait) if rows else before.clock
            known.append(replace(before, clock=shown, arrived=now if has_records else before.arrived))
        return clock.after_records(known, behind=[of.address for of in known])

    def _pass_gap(self, place: int, rows: Sequence[ProgressRow]) -> None:
        """Pass a sequence of an input in which records were lost, and keep on record which events may be missing."""
        one, tables = self._inputs[place], self._tables
        reach = self._derivation.reach_of_gap(place)
        topic = (one.topic_id, one.source.name)
        row = gap_row(tables.progress.last_row(), self._sequence, topic, rows, reach, self._clock())
        if self._commit(lambda: tables.reset(row)):
            self._after = [
                rows[0].sequence if of is one else after for of, after in zip(self._inputs, self._after, strict=True)
            ]

    def _ends(self) -> Offsets:
        return {(one.topic_id, 0): one.progress.sequence + 1 for one in self._inputs}

    def _advance_idle_clock(self) -> None:
        if self._idle.moves_clock() and (ends := self._idle.ask_ends()) and self._idle.moves_clock(ends):
            self._commit(partial(self._idle.commit, self._sequence, ends))


def _moved_back(clock: datetime | None, wait: timedelta) -> datetime | None:
    """The ``clock`` before that time. A clock that would be before Python's times has shown nothing yet."""
    try:
        return clock and clock - wait
    except OverflowError:
        return None
