"""The ``foreachBatch`` function of a source's stream: what Spark calls with each micro-batch.

It reads ahead: it returns when the tasks of a micro-batch have archived and folded its records. One thread commits
their files and tiles. Meanwhile, the tasks of the next micro-batch run, which waits for that commit. So commits are in
order. After a failed commit there is no other: it would leave a gap of lost records. The next start reads again
what was not committed.
"""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait

from pyspark.sql import DataFrame

from hourline_core.errors import BrokerError, FaultError
from hourline_core.model import Project
from speed_layer.commit.committer import Committer, Finished
from speed_layer.commit.idle_partitions import IdlePartitions
from speed_layer.commit.maintenance import maintain_after
from speed_layer.intake.read_micro_batch import MicroBatchReader, Read
from speed_layer.kafka.continuity import Continuity
from speed_layer.kafka.planned_reads import PlannedReads
from speed_layer.kafka.record_origin import Origin

_SECONDS_FOR_MICRO_BATCH = 5.0
"""The maximum time to wait for the end of a micro-batch."""

_SECONDS_FOR_KAFKA = 300.0
"""The maximum time that a micro-batch which was read waits for Kafka to confirm its topics."""

_SECONDS_BETWEEN_LOOKS = 15.0
"""The minimum time between two questions to Kafka while no records come."""


class ForeachBatch:
    """Processes the records of each micro-batch, reports what was done, and maintains the tables in between."""

    def __init__(
        self,
        project: Project,
        reader: MicroBatchReader,
        committer: Committer,
        continuity: Continuity,
        planned: PlannedReads,
        on_finished: Callable[[Finished], None],
        show: Callable[[Mapping[str, Mapping[int, int]]], None],
    ) -> None:
        """``show`` is called after each commit with the next offsets by topic and partition."""
        self.source = committer.source.name
        self._project = project
        self._reader = reader
        self._committer = committer
        self._continuity = continuity
        self._origin = Origin(continuity.topic_ids, continuity.cluster)
        self._planned = planned
        self._on_finished = on_finished
        self._show = show
        self._following = reader.source_tables.first_sequence
        """The sequence of the next micro-batch."""
        self._running = threading.Lock()
        """Held while Spark reads a micro-batch."""
        self._thread = ThreadPoolExecutor(1, f"commit {self.source}")
        self._last: Future[None] | None = None
        """The last commit, done or not."""
        self._stopped = threading.Event()
        self._given_up = False
        """Whether a stop did not wait for the micro-batch that Spark reads."""
        self._dropped = False
        """Whether a micro-batch was not committed, since Kafka was away when a stop came."""
        self._looked = time.monotonic()
        self._finished = 0
        self.error: Exception | None = None
        """The error that ended the stream. Spark wraps it in a trace of its own; callers want the error itself."""

    def __call__(self, evaluated: DataFrame, number: int) -> None:
        with self._running:
            if self._stopped.is_set():
                return
            try:
                self._raise_failure()
                ends = self._planned.ends(number)
                if not self._reader.is_met({self._origin.topic_ids[topic] for topic, _ in ends}):
                    self._wait_for_commit()  # Progress is asked what was read of a topic that is new here.
                read = self._reader.read(evaluated, self._origin, ends, self._following)
                self._planned.limit(self._reader.size.records)
                if read is not None:
                    self._following += 1
                    self._wait_for_commit()
                    self._raise_failure()
                    self._last = self._thread.submit(self._commit, read)
            except Exception as error:
                if not self._given_up:
                    self.error = self.error or error
                raise

    def advance_idle_clock(self, idle: IdlePartitions) -> None:
        """Let the source's clock go on without its idle partitions, between two micro-batches. Raises ConflictError
        when another process writes to progress.
        """
        if not idle.moves_clock():
            return
        ends = idle.ask_ends()  # which may take seconds, in which a micro-batch can begin
        if ends is not None and self._running.acquire(timeout=_SECONDS_FOR_MICRO_BATCH):
            try:
                # What Spark has read must be committed first, or its partitions would seem to be idle.
                self._wait_for_commit(_SECONDS_FOR_MICRO_BATCH)
                if self._all_committed() and not self._stopped.is_set() and idle.moves_clock(ends):
                    idle.commit(self._following, ends)
                    self._following += 1
            finally:
                self._running.release()

    def look(self) -> None:
        """Let a topic that was recreated be noticed while no records come: now and then, between two micro-batches."""
        if time.monotonic() - self._looked > _SECONDS_BETWEEN_LOOKS and self._running.acquire(blocking=False):
            try:
                if not self._stopped.is_set() and self._all_committed():
                    self._looked = time.monotonic()
                    self._last = self._thread.submit(self._look)
            finally:
                self._running.release()

    def stop(self) -> None:
        """Let no other micro-batch begin."""
        self._stopped.set()

    def join(self, seconds: float) -> bool:
        """Wait for the micro-batches that had begun before ``stop``: for at most ``seconds`` for one that Spark reads,
        and for the commit that runs. Returns whether the reading has ended; if not, what it reads is not committed.
        """
        ended = False
        try:
            if ended := self._running.acquire(timeout=seconds):
                self._running.release()
        finally:  # also after a Ctrl-C
            self._given_up = self._given_up or not ended
            self._thread.shutdown()
        return ended

    def _wait_for_commit(self, seconds: float | None = None) -> None:
        """Wait until the last micro-batch that was read is committed, or has failed, for at most ``seconds``."""
        if self._last is not None:
            wait([self._last], seconds)

    def is_committing(self) -> bool:
        """Whether a micro-batch that was read is being committed."""
        return self._last is not None and not self._last.done()

    def _all_committed(self) -> bool:
        """Whether all micro-batches that were read are committed."""
        return self.error is None and not self.is_committing()

    def _raise_failure(self) -> None:
        if self.error:
            raise self.error

    def _look(self) -> None:
        try:
            self._continuity.look()
        except BrokerError:
            return  # Kafka is away. Nothing is lost by that.
        except Exception as error:
            self.error = error

    def _is_confirmed(self, read: Read) -> bool:
        """Wait until Kafka confirms what was read. False: a stop came while Kafka was away. Raises SourceError,
        and BrokerError when Kafka is away for too long.
        """
        deadline = time.monotonic() + _SECONDS_FOR_KAFKA
        while not self._dropped:
            try:
                self._continuity.confirm(read.part.last_records, read.partitions)
            except BrokerError:
                if time.monotonic() > deadline:
                    raise
                self._dropped = self._stopped.wait(0.5)
            else:
                self._looked = time.monotonic()
                return True
        return False

    def _commit(self, read: Read) -> None:
        try:
            if not self._is_confirmed(read):
                return
            self._on_finished(self._committer.commit(read))
            self._finished += 1
            topic_ids = list(self._origin.topic_ids.items())  # Spark's thread may add to them.
            self._show({topic: self._committer.offsets.next_offsets(topic_id) for topic, topic_id in topic_ids})
            maintain_after(self._project, self._committer.source_tables, self._finished)
        except Exception as error:
            self.error = error
        except BaseException as panic:  # of delta-rs, which is no Exception
            self.error = FaultError(f"the commit of a micro-batch failed: {type(panic).__name__}: {panic}")
