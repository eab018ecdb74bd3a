"""A stream that a thread of this process reads, one micro-batch after the other. Its subclasses say what it reads."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

from pyspark.sql import SparkSession

from hourline_core.errors import FaultError
from speed_layer.commit.source_tables import SourceTables

_SECONDS_BETWEEN_LOOKS = 0.2
"""The time between two looks while nothing comes."""
_SECONDS_AFTER_COMMIT = 0.5
"""The time in which the thread ends after a commit that ran when it was told to stop."""


class ThreadStream(ABC):
    """A ``Stream``. Its methods are described there. ``what`` names the Spark jobs, and the thread."""

    def __init__(self, spark: SparkSession, tables: SourceTables, what: str) -> None:
        self._spark, self._tables, self._what = spark, tables, f"{what} {tables.source.name}"
        self._sequence = tables.first_sequence
        """That of the next micro-batch."""
        self._stopped = threading.Event()
        self._committing = threading.Lock()
        self._given_up = False
        """Whether a stop has waited. Nothing is committed after that."""
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=self._what, daemon=True)

    @abstractmethod
    def _may_go_on(self) -> bool:
        """Whether there may be more than the next look sees."""

    @abstractmethod
    def _read_next(self) -> bool:
        """Read and commit what there is next. False: there is nothing."""

    @abstractmethod
    def _advance_idle_clock(self) -> None:
        """Let the clock go on while nothing comes, if the source declares `idle`."""

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

    def look(self) -> None:  # noqa: B027 (no subclass needs it)
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
        self._spark.sparkContext.cancelJobGroup(self._what)
        self._thread.join()

    def _commit(self, commit: Callable[[], None]) -> bool:
        """Do ``commit`` as the next sequence. Returns False if a stop has not waited for it."""
        with self._committing:
            if self._given_up:
                return False
            commit()
        self._sequence += 1
        return True

    def _run(self) -> None:
        try:
            # A stop cancels the jobs of this group.
            self._spark.sparkContext.setJobGroup(self._what, f"{self._what}: its events")
            while not self._stopped.is_set():
                may_go_on = self._may_go_on()  # before the look: what it sees then is all
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
            self._error = FaultError(f"a micro-batch of '{self.source}' failed: {type(panic).__name__}: {panic}")
