"""Reads a source's Kafka topics as one Spark stream, from the offsets where the last finished micro-batch ended."""

import json
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline_core.errors import LostRecordsError, SourceError
from hourline_core.ledger.read_offsets import Reading
from hourline_core.model import Source
from hourline_core.model.scratch_columns import (
    ARRIVED,
    HEADERS,
    HEADERS_TEXT,
    KEY,
    OFFSET,
    PARTITION,
    RECORD_TIMESTAMP,
    RECORD_TIMESTAMP_TYPE,
    TOPIC,
    VALUE,
)
from hourline_core.model.topics import TopicPattern, names_of
from speed_layer.kafka.client_options import java_client_options
from speed_layer.recovery.lost_records import deleted_ranges

_MILLISECONDS_FOR_ANSWER = 15_000


def read_topics(
    spark: SparkSession,
    source: Source,
    bootstrap: str,
    options: dict[str, str],
    start: dict[str, dict[int, int]],
    most: int,
) -> DataFrame:
    """The committed records of ``source``'s topics from the offsets ``start`` on (by topic and partition), at most
    ``most`` in a micro-batch until ``PlannedReads`` sets another limit. A topic that appears later and matches the
    source's pattern is read from its beginning, and so is a new partition: for each micro-batch, Spark asks Kafka again
    what there is.

    The columns are those of Spark's Kafka source, with the headers.
    """
    reader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option(*_subscription(source))
        .option("startingOffsets", json.dumps(start))
        .option("maxOffsetsPerTrigger", most)
        .option("failOnDataLoss", "true")
        .option("includeHeaders", "true")
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.fetch.max.wait.ms", "50")
        # By default, a client asks for a minute a leader that was killed, before it looks for the next one.
        .option("kafka.request.timeout.ms", _MILLISECONDS_FOR_ANSWER)
        .option("kafka.default.api.timeout.ms", _MILLISECONDS_FOR_ANSWER)
        # When no broker answers that it knows, the client asks those of the settings again: they may have moved.
        .option("kafka.metadata.recovery.strategy", "rebootstrap")
        # The default of 500 costs more than a microsecond for each record.
        .option("kafka.max.poll.records", "10000")
    )
    for key, value in java_client_options(options).items():
        reader = reader.option(f"kafka.{key}", value)
    return reader.load()


def as_records(kafka: DataFrame, arrived: Column | None = None) -> DataFrame:
    """The records of ``read_topics`` as validation in Spark takes them: KEY, VALUE, HEADERS (of several with one name,
    the last), HEADERS_TEXT, RECORD_TIMESTAMP, RECORD_TIMESTAMP_TYPE, TOPIC, PARTITION, OFFSET, and ARRIVED. That is the
    time at which Spark plans the micro-batch (UTC), or ``arrived``.
    """
    # Spark would write the time itself into the Java code that it generates, and compile new code for each micro-batch.
    # It generates no code for a function over arrays.
    planned = F.transform(F.array(F.current_timestamp()), lambda moment: moment)[0]
    by_type = F.when(F.col("timestampType") == 0, "create").when(F.col("timestampType") == 1, "log_append")
    return kafka.select(
        F.col("key").alias(KEY),
        F.col("value").alias(VALUE),
        F.map_from_entries("headers").alias(HEADERS),
        F.to_json("headers").alias(HEADERS_TEXT),
        F.col("timestamp").alias(RECORD_TIMESTAMP),
        by_type.alias(RECORD_TIMESTAMP_TYPE),
        F.col("topic").alias(TOPIC),
        F.col("partition").alias(PARTITION),
        F.col("offset").alias(OFFSET),
        (planned if arrived is None else arrived).alias(ARRIVED),
    )


def _subscription(source: Source) -> tuple[str, str]:
    """Spark's option for the topics."""
    if isinstance(source.topic, TopicPattern):
        return "subscribePattern", f"^(?:{source.topic.pattern})$"  # Spark also takes a part of a name.
    return "subscribe", ",".join(names_of(source.topic))


def write_starting_offsets(checkpoint: Path, start: Mapping[str, Mapping[int, int]]) -> None:
    """Write where a new stream begins into its checkpoint, as Spark itself does with its first micro-batch.

    A topic that appears meanwhile then begins at its earliest offset. With the option alone, Spark wants an offset of
    every topic that it finds, and fails.
    """
    file = checkpoint / "sources" / "0" / "0"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"\0v1\n" + json.dumps(start).encode())


def starting_offsets(
    source: str, topic: str, available: dict[int, tuple[int, int]], reading: Reading
) -> dict[int, int]:
    """Return the offset to begin at in each partition of a topic: after what was read, else at the earliest.

    ``available`` gives each partition's earliest and latest offset. To go on would lose records silently when Kafka has
    deleted some before they were read, or holds fewer than were read: raises LostRecordsError, or SourceError.
    """
    for partition, (first, end) in deleted_ranges(reading, available).items():
        raise LostRecordsError(
            f"topic '{topic}' partition {partition}: Kafka has deleted offsets {first} to {end - 1} before they were "
            "read; start the speed layer again"
        )
    read = reading.next_offsets
    for partition, offset in read.items():
        _, latest = available.get(partition, (0, 0))
        if offset > latest:
            raise SourceError(
                f"topic '{topic}' partition {partition}: read up to offset {offset - 1}, but Kafka's last one is "
                f"{latest - 1}; it has lost data; what was read is archived and stays; bring the topic's log back from "
                f"a backup, or delete the topic, recreate it and read that: `hourline reset {source}`"
            )
    return {partition: max(read.get(partition, 0), earliest) for partition, (earliest, _) in available.items()}
