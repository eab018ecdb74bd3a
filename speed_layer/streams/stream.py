"""The running streams of a speed layer, of whatever their sources read: why they end, and stopping them.

A stop never waits long for Kafka. Spark's reader asks a Kafka that is away for minutes, and records that were read but
not committed are read again by the next start. So only a commit that runs is waited for.
"""

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from hourline_core.errors import ConflictError, KafkaAwayError, KafkaForbidsError, RegistryError
from hourline_core.faults import explain_fault
from hourline_core.machine import Surroundings

_SECONDS_FOR_READING = 5.0
"""The maximum time that a stop waits for records that Spark is reading."""
_SECONDS_FOR_SPARK = 3.0
"""The maximum time that it then waits for Spark to end the queries."""

GOES_ON = "nothing is lost, and `hourline speed` goes on where it stopped"
"""For the sentence of an error that ends the speed layer."""


class Stream(Protocol):
    """The running stream of one source."""

    @property
    def source(self) -> str:
        """The name of the source."""

    @property
    def error(self) -> Exception | None:
        """The error that has ended its micro-batches. None: there is none."""

    def is_active(self) -> bool:
        """Whether it may finish further micro-batches."""

    def failure(self) -> Exception | None:
        """Why it has ended by itself. None: it runs, or has ended well."""

    def look(self) -> None:
        """Do what is to be done now and then, also while nothing comes. Raises ConflictError when another process
        writes to progress.
        """

    def stop(self) -> None:
        """Let no other micro-batch begin."""

    def join(self, seconds: float) -> bool:
        """Wait for the micro-batches that had begun before ``stop``: for at most ``seconds`` for one that is read, and
        for the commit that runs. Returns whether the reading has ended; if not, what it reads is not committed.
        """

    def end(self) -> None:
        """End the reading, after ``join``. That may take long."""


Failures = Sequence[tuple[Stream, Exception]]


def failures_of(streams: Sequence[Stream]) -> Failures:
    """The streams that have ended by themselves, and why. A stream that is stopped may end as if it had failed: so this
    is asked before.
    """
    return [(stream, failure) for stream in streams if (failure := stream.failure())]


def stop_streams(streams: Sequence[Stream]) -> list[str]:
    """Stop the streams within seconds, after commits that run. Returns the sources of which Spark did not end
    reading. Raises ConflictError if one of them has met another writer, whatever has ended the others.
    """
    for stream in streams:
        stream.stop()
    deadline = time.monotonic() + _SECONDS_FOR_READING
    joined = [(stream, stream.join(max(0.0, deadline - time.monotonic()))) for stream in streams]
    # Spark waits for the reader of each query. A daemon thread does not hold up the end of this process.
    stopping = [threading.Thread(target=_end, args=(stream,), daemon=True) for stream in streams]
    for thread in stopping:
        thread.start()
    deadline = time.monotonic() + _SECONDS_FOR_SPARK
    for thread in stopping:
        thread.join(max(0.0, deadline - time.monotonic()))
    for stream in streams:
        if isinstance(stream.error, ConflictError):
            raise stream.error
    return [stream.source for stream, in_time in joined if not in_time]


def _end(stream: Stream) -> None:
    with suppress(Exception):  # It has failed, does not end in time, or Java has ended.
        stream.end()


def raise_failure(streams: Sequence[Stream], failures: Failures, around: Surroundings) -> None:
    """Raise the first of the ``failures``, or that of a commit that ran while the streams were stopped. Does nothing if
    there is none. Raises HourlineError, with the sentence about its cause, and with ``GOES_ON`` unless a restart may
    mend it.
    """
    of_commits = [(stream, error) for stream in streams if (error := stream.error)]
    for stream, failure in [*failures, *of_commits]:
        what = f"the stream of source '{stream.source}' stopped"
        told = explain_fault(failure, around, what=what)
        if isinstance(told, RegistryError):
            said = explain_fault(failure, around)  # It may be an error of Hourline's, or Spark's text of one.
            raise type(told)(f"{what}: {said}", source=stream.source, reason=str(said)) from failure
        if not isinstance(told, KafkaAwayError | KafkaForbidsError):
            told = explain_fault(failure, around, what=what, then=GOES_ON)
        raise told from (failure.__cause__ if told is failure else failure)
