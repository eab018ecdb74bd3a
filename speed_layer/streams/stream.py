"""The running streams of a speed layer: why they end, and stopping them.

A stop never waits long for Kafka. Spark's reader asks a Kafka that is away for minutes, and records that were read but
not committed are read again by the next start. So only a commit that runs is waited for.
"""

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from pyspark.sql.streaming.query import StreamingQuery

from hourline_core.errors import ConflictError, KafkaAwayError, KafkaForbidsError
from hourline_core.faults import explain_fault
from hourline_core.machine import Surroundings
from speed_layer.commit.idle_partitions import IdlePartitions
from speed_layer.kafka.continuity import Continuity
from speed_layer.streams.foreach_batch import ForeachBatch

_SECONDS_FOR_READING = 5.0
"""The maximum time that a stop waits for records that Spark is reading."""
_SECONDS_FOR_SPARK = 3.0
"""The maximum time that it then waits for Spark to end the queries."""

GOES_ON = "nothing is lost, and `hourline speed` goes on where it stopped"
"""For the sentence of an error that ends the speed layer."""


@dataclass
class Stream:
    """The running stream of one source."""

    foreach_batch: ForeachBatch
    query: StreamingQuery
    idle_partitions: IdlePartitions
    continuity: Continuity
    _failure: Exception | None = field(default=None, init=False)

    def failure(self) -> Exception | None:
        """Why it has ended by itself. None: it runs, or has ended well."""
        if self._failure is None:
            ended = self.foreach_batch.error or (None if self.query.isActive else self.query.exception())
            self._failure = ended and self.continuity.cause_of(ended)
        return self._failure

    def look_at_kafka(self) -> None:
        """Let the source's clock go on without idle partitions, and a topic that was recreated be noticed. Both are
        done now and then. Raises ConflictError when another process writes to progress.
        """
        self.foreach_batch.advance_idle_clock(self.idle_partitions)
        self.foreach_batch.look()


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
        stream.foreach_batch.stop()
    deadline = time.monotonic() + _SECONDS_FOR_READING
    joined = [(stream, stream.foreach_batch.join(max(0.0, deadline - time.monotonic()))) for stream in streams]
    # Spark waits for the reader of each query. A daemon thread does not hold up the end of this process.
    stopping = [threading.Thread(target=_stop_query, args=(stream.query,), daemon=True) for stream in streams]
    for thread in stopping:
        thread.start()
    deadline = time.monotonic() + _SECONDS_FOR_SPARK
    for thread in stopping:
        thread.join(max(0.0, deadline - time.monotonic()))
    for stream in streams:
        if isinstance(stream.foreach_batch.error, ConflictError):
            raise stream.foreach_batch.error
    return [stream.foreach_batch.source for stream, in_time in joined if not in_time]


def _stop_query(query: StreamingQuery) -> None:
    with suppress(Exception):  # It has failed, does not end in time, or Java has ended.
        query.stop()


def raise_failure(streams: Sequence[Stream], failures: Failures, around: Surroundings) -> None:
    """Raise the first of the ``failures``, or that of a commit that ran while the streams were stopped. Does nothing if
    there is none. Raises HourlineError, with the sentence about its cause, and with ``GOES_ON`` unless a restart may
    mend it.
    """
    of_commits = [(stream, error) for stream in streams if (error := stream.foreach_batch.error)]
    for stream, failure in [*failures, *of_commits]:
        what = f"the stream of source '{stream.foreach_batch.source}' stopped"
        told = explain_fault(failure, around, what=what)
        if not isinstance(told, KafkaAwayError | KafkaForbidsError):
            told = explain_fault(failure, around, what=what, then=GOES_ON)
        raise told from (failure.__cause__ if told is failure else failure)
