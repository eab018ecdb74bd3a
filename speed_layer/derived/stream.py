"""The running stream of a derived source: a thread that reads what its inputs have finished, one micro-batch after the
other.

The progress of the derived source says up to which sequence each input was read: an input is like a topic with one
partition, whose offsets are sequences. So a start goes on behind the last micro-batch that was finished.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

import pyarrow as pa
from pyspark.sql import SparkSession

from hourline_core.errors import FaultError
from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.ledger.source_clock import SourceClock
from hourline_core.model import Project
from hourline_core.model.hours import Clock
from speed_layer.commit.committer import Committer, Finished
from speed_layer.commit.idle_partitions import IdlePartitions, Offsets
from speed_layer.commit.maintenance import maintain_after
from speed_layer.derived.gaps import gap_row, rows_before_gap
from speed_layer.derived.inputs import Input, new_rows, sequences_read, split_rows
from speed_layer.derived.passed import Passed
from speed_layer.intake.micro_batch_size import TaskBounds
from speed_layer.intake.read_micro_batch import MicroBatchReader
from speed_layer.intake.record_plan import RecordPlan
from speed_layer.intake.tasks import Evaluated
from speed_layer.kafka.record_origin import Origin

_SECONDS_BETWEEN_LOOKS = 0.2
"""The time between two looks at the progress of the inputs while nothing comes."""
_SECONDS_AFTER_COMMIT = 0.5
"""The time in which the thread ends after a commit that ran when it was told to stop."""


class Step(Protocol):
    """What one micro-batch of a derived source reads."""

    @property
    def up_to(self) -> Sequence[int]:
        """By input, the sequence up to which it is read now."""

    @property
    def parts(self) -> int:
        """The number of tasks that it is divided among."""

    def derive(self, records: RecordPlan, arrived: datetime) -> Evaluated | None:
        """Its events, evaluated by ``records``. They ``arrived`` (UTC) when it was planned. None: there are none."""


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


class DerivedStream:
    """A ``Stream`` of other sources. Its methods are described there. ``feeds`` says whether the streams of the inputs
    may go on; None: it never ends by itself.
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
        self._spark, self._project, self._derivation = spark, project, derivation
        self._inputs = inputs = derivation.inputs
        self._reader, self._committer, self._on_finished, self._clock = reader, committer, on_finished, clock
        self._feeds = feeds
        self._tables = reader.source_tables
        self._origin = Origin({one.source.name: one.topic_id for one in inputs})
        self._after = sequences_read(self._tables.progress, inputs)
        """By input, the sequence up to which it is read and committed."""
        self._sequence = self._tables.first_sequence
        """That of the next micro-batch."""
        self._idle = IdlePartitions(self._tables, self._ends, dict[tuple[str, int], int], clock)
        self._finished = 0
        self._stopped = threading.Event()
        self._committing = threading.Lock()
        self._given_up = False
        """Whether a stop has waited. Nothing is committed after that."""
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"derive {self.source}", daemon=True)
        self._thread.start()

    @property
    def source(self) -> str:
        return self._tables.source.name

    @property
    def error(self) -> Exception | None:
        return self._error

    def is_active(self) -> bool:
        return self._thread.is_alive()

    def failure(self) -> Exception | None:
        return self._error

    def look(self) -> None:
        """The thread does that itself."""

    def stop(self) -> None:
        self._stopped.set()

    def join(self, seconds: float) -> bool:
        self._thread.join(seconds)
        with self._committing:
            self._given_up = True
        self._thread.join(_SECONDS_AFTER_COMMIT)
        return not self._thread.is_alive()

    def end(self) -> None:
        self._spark.sparkContext.cancelJobGroup(self._job_group)
        self._thread.join()

    @property
    def _job_group(self) -> str:
        return f"derive {self.source}"

    def _run(self) -> None:
        try:
            # A stop cancels the jobs of this group.
            self._spark.sparkContext.setJobGroup(self._job_group, f"derives the events of source {self.source}")
            while not self._stopped.is_set():
                may_go_on = self._feeds is None or self._feeds()  # before the look: what it sees then is all
                if self._read_next():
                    continue
                if not may_go_on:
                    return
                self._advance_idle_clock()
                self._stopped.wait(_SECONDS_BETWEEN_LOOKS)
        except Exception as error:
            if not self._given_up:
                self._error = error
        except BaseException as panic:  # of delta-rs, which is no Exception
            self._error = FaultError(f"a micro-batch of a derived source failed: {type(panic).__name__}: {panic}")

    def _read_next(self) -> bool:
        """Read and commit the next sequences of the inputs. False: there are none."""
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
        events = step.derive(self._reader.tasks.records, self._clock())
        micro_batch = self._reader.read(
            pa.table({}) if events is None else events,
            self._origin,
            {(one.source.name, 0): sequence + 1 for one, sequence in zip(self._inputs, step.up_to, strict=True)},
            self._sequence,
            clock=clock,
            bounds=TaskBounds(step.parts, small_rows=False),
        )
        with self._committing:
            if self._given_up:
                return
            assert micro_batch, "a sequence of an input is read"
            self._on_finished(self._committer.commit(micro_batch))
            self._finished += 1
            maintain_after(self._project, self._tables, self._finished)
        self._after = [*step.up_to]
        self._sequence += 1

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
        last = tables.progress.last_row()
        with self._committing:
            if not self._given_up:
                tables.reset(gap_row(last, self._sequence, topic, rows, reach, self._clock()))
        self._after = [
            rows[0].sequence if of is one else after for of, after in zip(self._inputs, self._after, strict=True)
        ]
        self._sequence += 1

    def _ends(self) -> Offsets:
        return {(one.topic_id, 0): one.progress.sequence + 1 for one in self._inputs}

    def _advance_idle_clock(self) -> None:
        """Let the clock go on without an input from which nothing comes, if the source declares `idle`."""
        if self._idle.moves_clock() and (ends := self._idle.ask_ends()) and self._idle.moves_clock(ends):
            with self._committing:
                if not self._given_up:
                    self._idle.commit(self._sequence, ends)
            self._sequence += 1


def _moved_back(clock: datetime | None, wait: timedelta) -> datetime | None:
    """The ``clock`` before that time. A clock that would be before Python's times has shown nothing yet."""
    try:
        return clock and clock - wait
    except OverflowError:
        return None
