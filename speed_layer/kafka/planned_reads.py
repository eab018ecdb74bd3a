"""What Spark plans to read in the micro-batches of a stream. In Python, it tells this only when a micro-batch is done,
and takes a limit of records only before the first one.
"""

import json
from typing import Any

from pyspark.sql import SparkSession


class PlannedReads:
    """What the stream called ``query`` reads, at most ``most`` records in a micro-batch. To be used by the stream's own
    thread, within a micro-batch.
    """

    def __init__(self, spark: SparkSession, query: str, most: int) -> None:
        self._spark, self._query, self._most = spark, query, most

    def ends(self, number: int) -> dict[tuple[str, int], int]:
        """By topic and partition, one past the last offset of the micro-batch ``number``, which is worked on. It lies
        beyond the last record where a transaction has ended.
        """
        planned = self._execution().getLatestExecutionContext()
        assert planned.batchId() == number, "Spark works on another micro-batch"
        ends = json.loads(planned.endOffsets().values().head().json())
        return {(topic, int(of)): offset for topic, partitions in ends.items() for of, offset in partitions.items()}

    def limit(self, most: int) -> None:
        """Let Spark plan at most ``most`` records in the next micro-batches."""
        if most == self._most:
            return
        execution: Any = self._execution()
        limits = execution.uniqueSources()
        java: Any = self._spark._jvm
        read_limit = java.org.apache.spark.sql.connector.read.streaming.ReadLimit.maxRows(most)
        getattr(execution, "uniqueSources_$eq")(limits.updated(limits.head()._1(), read_limit))
        self._most = most

    def _execution(self) -> Any:
        """Spark's execution of the stream."""
        (stream,) = [active for active in self._spark.streams.active if active.name == self._query]
        return stream._jsq.streamingQuery()
