"""The function that Spark calls with each micro-batch of a source."""

import threading
from collections.abc import Callable

from pyspark.sql import DataFrame

from hourline_core.model import Project
from speed_layer.maintenance import maintain_after
from speed_layer.micro_batch import Finished, MicroBatch, Origin


class StreamSink:
    """The ``foreachBatch`` function of one stream. It processes the validated records, reports what was done, and
    maintains the tables in between.
    """

    def __init__(
        self, project: Project, batch: MicroBatch, origin: Origin, on_finished: Callable[[Finished], None]
    ) -> None:
        self._project = project
        self._batch = batch
        self._origin = origin
        self._on_finished = on_finished
        self._running = threading.Lock()
        """Held while a micro-batch runs."""
        self._stopped = False
        self._finished = 0
        self.error: Exception | None = None
        """The error that ended the stream. Spark wraps it in a trace of its own; callers want the error itself."""

    def __call__(self, validated: DataFrame, number: int) -> None:
        with self._running:
            if self._stopped:
                return
            try:
                self._process(validated, number)
            except Exception as error:
                self.error = error
                raise

    def stop(self) -> None:
        """Wait for the running micro-batch, and let no other begin."""
        with self._running:
            self._stopped = True

    def _process(self, validated: DataFrame, number: int) -> None:
        source_tables = self._batch.source_tables
        finished = self._batch.process(validated, self._origin, source_tables.first_sequence + number)
        if finished:
            self._on_finished(finished)
            self._finished += 1
            maintain_after(self._project, source_tables, self._finished)
