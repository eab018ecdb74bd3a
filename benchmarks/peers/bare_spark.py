"""A bare Spark query as a peer of the speed layer: it parses and aggregates a topic, and stores nothing.

    python -m benchmarks.peers.bare_spark PROJECT BOOTSTRAP [ANSWERS]

It has the same session and batches, and reads Kafka in the same way. With ANSWERS, a Parquet file, the partial sums of
each micro-batch are written there instead of into Spark's no-op sink.
"""

import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline import load_project
from hourline_core.ledger.read_offsets import Reading
from hourline_core.model.scratch_columns import VALUE
from hourline_core.model.topics import names_of
from hourline_core.runtime.topics import topic_offsets
from speed_layer.kafka.read_topics import read_topics, starting_offsets
from speed_layer.spark_session import speed_session

FIELDS = "shop string, at bigint, amount double, quantity int"


def main(folder: Path, bootstrap: str, answers: Path | None) -> None:
    project = load_project(folder)
    (source,) = project.sources.values()
    most = project.settings.speed.max_records_per_batch
    (topic,) = names_of(source.topic)
    offsets = topic_offsets(bootstrap, topic, {})
    left = sum(end - first for first, end in offsets.values())
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

    with tempfile.TemporaryDirectory() as checkpoint, speed_session(project) as spark:
        start = {topic: starting_offsets(topic, topic, offsets, Reading({}, {}, {}))}
        records = read_topics(spark, source, bootstrap, {}, start, most)
        events = records.select(F.from_json(F.col(VALUE).cast("string"), FIELDS).alias("event")).select("event.*")
        writer = events.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()
    if answers:
        pq.write_table(pa.concat_tables(found), answers)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]) if len(sys.argv) > 3 else None)
