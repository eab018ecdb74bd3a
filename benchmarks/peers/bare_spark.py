"""A bare Spark query as a peer of the speed layer: it parses and aggregates a topic, and stores nothing.

    python -m benchmarks.peers.bare_spark PROJECT BOOTSTRAP TOPIC MOST [ANSWERS]

It has the session of the speed layer, and at most MOST records per micro-batch. It reads with Spark's own connector,
with settings that are fast for a backlog. With ANSWERS, a Parquet file, the partial sums of each micro-batch are
written there instead of into Spark's no-op sink.
"""

import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline import load_project
from hourline_core.runtime.topics import topic_offsets
from speed_layer.spark_session import speed_session

FIELDS = "shop string, at bigint, amount double, quantity int"
KAFKA = {
    "startingOffsets": "earliest",
    "failOnDataLoss": "true",
    "kafka.isolation.level": "read_committed",
    "kafka.fetch.max.wait.ms": "50",
    "kafka.max.poll.records": "10000",  # The default of 500 costs more than a microsecond for each record.
}


def main(folder: Path, bootstrap: str, topic: str, most: int, answers: Path | None) -> None:
    left = sum(end - first for first, end in topic_offsets(bootstrap, topic, {}).values())
    found: list[pa.Table] = []

    def sink(events: DataFrame, _batch: int) -> None:
        nonlocal left
        sums = events.groupBy(F.expr("at div 3600000").alias("hour"), "shop").agg(
            F.count("*").alias("events"), F.sum("amount").alias("amount"), F.max("quantity").alias("most")
        )
        if answers:
            found.append(sums.toArrow())
        else:
            sums.write.format("noop").mode("overwrite").save()
        read = min(left, most)  # the maximum, except for a small remainder of its division among the partitions
        left -= read
        print(f"{read:,} records")  # noqa: T201

    with tempfile.TemporaryDirectory() as checkpoint, speed_session(load_project(folder)) as spark:
        reader = spark.readStream.format("kafka").options(**KAFKA)
        reader = reader.option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
        records = reader.option("maxOffsetsPerTrigger", most).load()
        events = records.select(F.from_json(F.col("value").cast("string"), FIELDS).alias("event")).select("event.*")
        writer = events.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()
    if answers:
        pq.write_table(pa.concat_tables(found), answers)


if __name__ == "__main__":
    main(
        Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), Path(sys.argv[5]) if len(sys.argv) > 5 else None
    )
