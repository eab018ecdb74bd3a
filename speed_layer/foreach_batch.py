"""The ``foreachBatch`` function of a source's stream: what Spark calls with each micro-batch."""

import threading
from collections.abc import Callable
from itertools import count

from pyspark.sql import DataFrame

from hourline_core.model import Project
from speed_layer.maintenance import maintain_after
from speed_layer.micro_batch import Finished, MicroBatch
from speed_layer.origin import Origin
from speed_layer.silence import Silence

_SECONDS_FOR_MICRO_BATCH = 5.0
"""The maximum time to wait for the end of a micro-batch."""


class ForeachBatch:
    """Processes the records of each micro-batch, reports what was done, and maintains the tables in
    between.
    """

    def __init__(
        self, project: Project, batch: MicroBatch, origin: Origin, on_finished: Callable[[Finished], None]
    ) -> None:
        self._project = project
        self._batch = batch
        self._origin = origin
        self._on_finished = on_finished
        self._sequences = count(batch.source_tables.first_sequence)
        self._running = threading.Lock()
        """Held while a micro-batch runs."""
        self._stopped = False
        self._finished = 0
        self.error: Exception | None = None
        """The error that ended the stream. Spark wraps it in a trace of its own; callers want the error itself."""

    def __call__(self, evaluated: DataFrame, number: int) -> None:
        with self._running:
            if self._stopped:
                return
            try:
                self._process(evaluated)
            except Exception as error:
                self.error = error
                raise

    def pass_silence(self, silence: Silence) -> None:
        """Let the source's clock go on without its idle partitions, between two micro-batches. Raises ConflictError
        when another process writes to progress.
        """
        if not silence.moves_clock():
            return
        ends = silence.ask_ends()  # which may take seconds, in which a micro-batch can begin
        if ends is not None and self._running.acquire(timeout=_SECONDS_FOR_MICRO_BATCH):
            try:
                if not self._stopped and silence.moves_clock(ends):
                    silence.commit(next(self._sequences), ends)
            finally:
                self._running.release()

    def stop(self) -> None:
        """Wait for the running micro-batch, and let no other begin."""
        with self._running:
            self._stopped = True

    def _process(self, evaluated: DataFrame) -> None:
        finished = self._batch.process(evaluated, self._origin, next(self._sequences))
        if finished:
            self._on_finished(finished)
            self._finished += 1
            maintain_after(self._project, self._batch.source_tables, self._finished)
