"""What no finished micro-batch has read of a source's topics: the lag, if Kafka holds what was read."""

from collections.abc import Mapping

from hourline_core.ledger.read_offsets import reading_of
from hourline_core.model import Source
from hourline_core.model.topics import matches
from hourline_core.sql.progress import last_cluster_sql, read_offsets_sql
from serving_layer.connection import Connection
from serving_layer.reports.kafka_offsets import SourceOffsets, TopicOffsets, Unknown
from serving_layer.reports.partitions import TopicReading


def find_readings(connection: Connection, source: Source, sequence: int) -> dict[str, TopicReading]:
    """By its name, how far each topic of the source has been read; of several with one name, the one that was read
    last. Imported files, and topics that the source does not read any more, do not matter.
    """
    rows = connection.answer(read_offsets_sql(source, sequence)).to_arrow_table()
    last = rows.group_by("topic", use_threads=False).aggregate([("topic_id", "last")])
    by_name = dict(zip(last["topic"].to_pylist(), last["topic_id_last"].to_pylist(), strict=True))
    return {
        topic: TopicReading(topic_id, reading_of(rows, topic_id))
        for topic, topic_id in by_name.items()
        if topic and matches(source.topic, topic)
    }


def offsets_of_known(
    connection: Connection,
    source: Source,
    sequence: int,
    readings: Mapping[str, TopicReading],
    offsets: SourceOffsets | Unknown,
) -> TopicOffsets | Unknown:
    """The offsets of the source's topics, unless it is another Kafka than the one that was read, or other topics.
    ``readings`` say how far they were read up to ``sequence``.
    """
    if isinstance(offsets, Unknown):
        return offsets
    known = connection.answer(last_cluster_sql(source, sequence)).fetchone()
    if known and offsets.cluster and known[0] != offsets.cluster:
        return Unknown(
            f"the Kafka at {offsets.bootstrap} is another one: source '{source.name}' was read from cluster "
            f"{known[0]}, and this is {offsets.cluster}; correct kafka.bootstrap or bring the other Kafka back, or "
            f"read this one's topics from their beginning: `hourline reset {source.name}`"
        )
    for topic, reading in readings.items():
        if offsets.topic_ids.get(topic, reading.topic_id) != reading.topic_id:
            return Unknown(
                f"topic '{topic}' of source '{source.name}' was deleted and recreated since it was read; the speed "
                "layer says how to go on"
            )
    return offsets.topics


def count_lag(readings: Mapping[str, TopicReading], offsets: TopicOffsets) -> int:
    """The lag. Kafka was asked before the tables were read, so they may be further."""
    return sum(
        max(0, of.end - max(_next_offset(readings, topic, partition), of.earliest))
        for topic, partitions in offsets.items()
        for partition, of in partitions.items()
    )


def _next_offset(readings: Mapping[str, TopicReading], topic: str, partition: int) -> int:
    return readings[topic].reading.next_offsets.get(partition, 0) if topic in readings else 0
