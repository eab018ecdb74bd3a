"""What no finished micro-batch has read of a source's topics: the lag, if Kafka holds what was read. A derived
source reads finished micro-batches of others.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from hourline_core.ledger.read_offsets import reading_of
from hourline_core.model import Source
from hourline_core.sql.all_progress import LAST_CLUSTERS_SQL, READ_OFFSETS_SQL
from serving_layer.connection import Connection
from serving_layer.reports.each_source import ask_each
from serving_layer.reports.kafka_offsets import PartitionOffsets, SourceOffsets, TopicOffsets, Unknown
from serving_layer.reports.partitions import TopicReading


@dataclass(frozen=True)
class ReadOffsets:
    """What a source has read from Kafka. By default, nothing was read."""

    readings: Mapping[str, TopicReading] = field(default_factory=dict)
    """By its name, how far each topic of the source has been read; of several with one name, the one that was read
    last. Imported files, and topics that the source does not read any more, do not matter.
    """
    cluster: str | None = None
    """The id of the Kafka cluster that was read last. None: it is not known."""


def find_read_offsets(connection: Connection, sources: Collection[Source]) -> dict[str, ReadOffsets]:
    """By source, what was read of it. Sources without progress are left out."""
    offsets = ask_each(connection, READ_OFFSETS_SQL)
    clusters = ask_each(connection, LAST_CLUSTERS_SQL)
    return {
        source.name: ReadOffsets(
            _readings(source, offsets[source.name]), next(iter(clusters[source.name]["cluster"].to_pylist()), None)
        )
        for source in sources
        if source.name in offsets
    }


def _readings(source: Source, rows: pa.Table) -> dict[str, TopicReading]:
    last = rows.sort_by("sequence").group_by("topic", use_threads=False).aggregate([("topic_id", "last")])
    by_name = dict(zip(last["topic"].to_pylist(), last["topic_id_last"].to_pylist(), strict=True))
    return {
        topic: TopicReading(topic_id, reading_of(rows, topic_id))
        for topic, topic_id in by_name.items()
        if topic and source.reads(topic)
    }


def offsets_of_inputs(connection: Connection, source: Source) -> TopicOffsets:
    """Those of a derived source: the finished micro-batches of its inputs, by input."""
    known = connection.snapshot.progress
    ends = {one.name: known[one.name].sequence + 1 for one in source.inputs if one.name in known}
    return {name: {0: PartitionOffsets(1, end)} for name, end in ends.items()}


def offsets_of_known(source: Source, read: ReadOffsets, offsets: SourceOffsets | Unknown) -> TopicOffsets | Unknown:
    """The offsets of the source's topics, unless it is another Kafka than the one that was read, or other topics."""
    if isinstance(offsets, Unknown):
        return offsets
    if read.cluster and offsets.cluster and read.cluster != offsets.cluster:
        return Unknown(
            f"the Kafka at {offsets.bootstrap} is another one: source '{source.name}' was read from cluster "
            f"{read.cluster}, and this is {offsets.cluster}; correct kafka.bootstrap or bring the other Kafka back, or "
            f"read this one's topics from their beginning: `hourline reset {source.name}`"
        )
    for topic, reading in read.readings.items():
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
