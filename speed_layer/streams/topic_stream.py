"""The running stream of a source that reads topics: a Structured Streaming query."""

from dataclasses import dataclass, field

from pyspark.sql.streaming.query import StreamingQuery

from speed_layer.commit.idle_partitions import IdlePartitions
from speed_layer.kafka.continuity import Continuity
from speed_layer.streams.foreach_batch import ForeachBatch


@dataclass
class TopicStream:
    """A ``Stream`` of topics. Its methods are described there."""

    foreach_batch: ForeachBatch
    query: StreamingQuery
    idle_partitions: IdlePartitions
    continuity: Continuity
    _failure: Exception | None = field(default=None, init=False)

    @property
    def source(self) -> str:
        return self.foreach_batch.source

    @property
    def error(self) -> Exception | None:
        return self.foreach_batch.error

    def is_active(self) -> bool:
        # A commit runs while Spark reads on, and may outlast the query. Joined sources wait for it.
        return self.query.isActive or self.foreach_batch.is_committing()

    def failure(self) -> Exception | None:
        if self._failure is None:
            ended = self.foreach_batch.error or (None if self.query.isActive else self.query.exception())
            self._failure = ended and self.continuity.cause_of(ended)
        return self._failure

    def look(self) -> None:
        """Let the source's clock go on without idle partitions, and a topic that was recreated be noticed."""
        self.foreach_batch.advance_idle_clock(self.idle_partitions)
        self.foreach_batch.look()

    def stop(self) -> None:
        self.foreach_batch.stop()

    def join(self, seconds: float) -> bool:
        return self.foreach_batch.join(seconds)

    def end(self) -> None:
        """Spark waits for the reader of the query."""
        self.query.stop()
