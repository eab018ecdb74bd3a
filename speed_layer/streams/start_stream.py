"""Starts the stream of one source: a Structured Streaming query over its topics."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery

from hourline_core.model import Source
from hourline_core.model.topics import TopicPattern
from hourline_core.runtime.kafka_facts import KafkaFacts
from hourline_core.runtime.topics import ensure_topics, find_topics, topic_offsets
from speed_layer.commit.idle_partitions import IdlePartitions, Offsets
from speed_layer.kafka.consumer_group import ConsumerGroup
from speed_layer.kafka.continuity import Continuity, last_read
from speed_layer.kafka.planned_reads import PlannedReads
from speed_layer.kafka.read_topics import read_topics, starting_offsets, write_starting_offsets
from speed_layer.streams.environment import StreamEnvironment
from speed_layer.streams.foreach_batch import ForeachBatch
from speed_layer.streams.open_source import open_source
from speed_layer.streams.topic_stream import TopicStream

# Without these, each micro-batch waits for two checkpoint files that nothing ever reads: a start goes on from progress.
# Spark allows asynchronous checkpoints only for sinks that tolerate repeated records after a restart; here nothing
# restarts from a checkpoint.
_UNREAD_CHECKPOINT = {
    "asyncProgressTrackingEnabled": "true",
    "asyncProgressTrackingCheckpointIntervalMs": "60000",
    "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
}

_SECONDS_FOR_REQUEST = 5.0
"""The time limit of a request to Kafka. A stop waits for it."""


def start_stream(environment: StreamEnvironment, source: Source, checkpoints: Path, running: ExitStack) -> TopicStream:
    """Start the stream of ``source`` behind what progress says was read, with a checkpoint in the folder
    ``checkpoints``. ``running`` closes what it needs while it runs.

    Raises BrokerError, SourceError, LostRecordsError, TopicReplacedError, TableError, and ConflictError when another
    process writes to the tables.
    """
    spark, project, bootstrap = environment.spark, environment.project, environment.bootstrap
    options = dict(project.settings.kafka.options)
    group_name = f"hourline.{project.name}.{source.name}"
    kafka = KafkaFacts(bootstrap, options, group_name, _SECONDS_FOR_REQUEST)
    continuity = Continuity(source, kafka, last_read(project, source))
    continuity.refuse_other_cluster()
    continuity.refuse_missing_topics()
    topic_ids = ensure_topics(bootstrap, source, options)
    reader, committer = open_source(spark, project, source, topic_ids.values(), environment.clock)
    tables = reader.source_tables
    environment.takeover.watch(source, tables.progress)
    reader.forget_other_topics(topic_ids.values())
    readings = tables.progress.readings(topic_ids.values())
    start = {
        topic: starting_offsets(source.name, topic, topic_offsets(bootstrap, topic, options), readings[of])
        for topic, of in topic_ids.items()
    }
    settings = project.settings.speed
    stream = read_topics(spark, source, bootstrap, options, start, reader.size.records)
    continuity.begin(topic_ids, [(topic, partition) for topic, partitions in start.items() for partition in partitions])
    # Spark may take long to end the query before, if it still reads. Two queries may not have one name.
    query_name = f"{source.name} {checkpoints.name}"
    planned = PlannedReads(spark, query_name, reader.size.records)
    group = running.enter_context(ConsumerGroup(bootstrap, options, group_name))
    group.show({topic: readings[of].next_offsets for topic, of in topic_ids.items()})
    foreach_batch = ForeachBatch(project, reader, committer, continuity, planned, environment.on_finished, group.show)
    if isinstance(source.topic, TopicPattern):
        write_starting_offsets(checkpoints / source.name, start)
    writer = (
        reader.tasks.records.apply(stream)  # in the stream and not in each micro-batch, so that Spark resolves it once
        .writeStream.queryName(query_name)
        .foreachBatch(foreach_batch)
        # No URI: Spark takes a path, and would look for folders with a % in their names.
        .option("checkpointLocation", str(checkpoints / source.name))
    )
    if environment.drain:
        query = writer.trigger(availableNow=True).start()
    else:
        trigger = f"{settings.trigger.total_seconds()} seconds"
        query = writer.trigger(processingTime=trigger).options(**_UNREAD_CHECKPOINT).start()

    def ends() -> Offsets:
        found: dict[tuple[str, int], int] = {}
        for topic in find_topics(bootstrap, source, options, _SECONDS_FOR_REQUEST):
            offsets = topic_offsets(bootstrap, topic, options, _SECONDS_FOR_REQUEST)
            found |= {(continuity.topic_ids[topic], partition): end for partition, (_, end) in offsets.items()}
        return found

    read = partial(_read_up_to, query, continuity.topic_ids)
    idle_partitions = IdlePartitions(tables, ends, read, environment.clock)
    return TopicStream(foreach_batch, query, idle_partitions, continuity)


def _read_up_to(query: StreamingQuery, topic_ids: Mapping[str, str]) -> Offsets:
    """How far Spark has read the topics. Empty before its first micro-batch."""
    progress = query.lastProgress
    read = json.loads(progress.sources[0].endOffset or "null") if progress else None
    return {
        (topic_ids[topic], int(partition)): offset
        for topic, partitions in (read or {}).items()
        for partition, offset in partitions.items()
    }
