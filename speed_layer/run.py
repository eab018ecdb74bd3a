"""Runs the speed layer: one Structured Streaming query per source, until it is told to stop or the topics are
drained.
"""

import json
import shutil
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from uuid import uuid4

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from hourline_core.errors import (
    KafkaAwayError,
    KafkaForbidsError,
    LostRecordsError,
    SourceError,
    SparkError,
    TopicReplacedError,
)
from hourline_core.faults import log_fault
from hourline_core.ledger.last_read import LastRead
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.progress import Progress
from hourline_core.model import Project, Source
from hourline_core.model.hours import Clock, wall_clock
from hourline_core.model.topics import TopicPattern
from hourline_core.runtime.kafka_facts import KafkaFacts
from hourline_core.runtime.surroundings import surroundings_of
from hourline_core.runtime.topics import ensure_topics, find_topics, topic_offsets
from hourline_core.storage.opening import exists, open_table
from speed_layer.consumer_group import ConsumerGroup
from speed_layer.continuity import Continuity, wait_for_topics
from speed_layer.foreach_batch import ForeachBatch
from speed_layer.gaps import OnLoss, has_gaps, pass_gaps
from speed_layer.kafka_stream import planned_ends, read_topics, starting_offsets, write_starting_offsets
from speed_layer.kafka_watch import KafkaWatch
from speed_layer.micro_batch import Finished
from speed_layer.open_micro_batch import open_micro_batch
from speed_layer.own_progress import OwnProgress
from speed_layer.restarts import run_again_after_kafka
from speed_layer.silence import Offsets, Silence
from speed_layer.stream import GOES_ON, Stream, raise_failure, stop_streams, wait_for_end

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


def run(
    spark: SparkSession,
    project: Project,
    bootstrap: str,
    *,
    drain: bool = False,
    stop: threading.Event | None = None,
    clock: Clock = wall_clock,
    kafka_alive: Callable[[], bool] = lambda: True,
    restart_kafka: Callable[[], bool] = lambda: False,
    on_ready: Callable[[], None] = lambda: None,
    on_finished: Callable[[Finished], None] = lambda finished: None,
    on_kafka: Callable[[str], None] = lambda text: None,
    on_loss: OnLoss = None,
) -> list[str]:
    """Run the speed layer of ``project`` on the Kafka at ``bootstrap``, with a session of ``speed_session``.

    Returns within seconds when ``stop`` is set; with ``drain``, when all that was in the topics at the start has been
    processed. Returns the sources of which Spark did not end reading, since Kafka does not answer, for example: those
    records are read again. Once it is ready, it outlives a Kafka that is away for a while, unless it drains:
    ``on_kafka`` gets a sentence when Kafka goes, and one when it is back; and one when a topic was made anew, and its
    source goes on with the new one.

    ``kafka_alive`` is asked 10 times a second. ``restart_kafka`` is called when it is not, and has made a stream fail:
    it says whether it had to start the Kafka of this process anew. ``clock`` (UTC) only dates the micro-batches; no
    number depends on it. With ``on_loss``, records that Kafka deleted before they were read are skipped, and put on
    record; without, they raise LostRecordsError.

    Raises BrokerError, SourceError, TableError, SparkError, ResourceError, and ConflictError when another process
    writes to the tables. The caller holds the lease "speed".
    """
    stop, ready = stop or threading.Event(), threading.Event()

    def be_ready() -> None:
        if not ready.is_set():
            ready.set()
            on_ready()

    own = OwnProgress(project)

    def run_streams() -> list[str]:
        while True:
            own.release()
            # All of them before any stream: a reset takes the checkpoints away.
            for source in project.sources.values():
                pass_gaps(project, source, bootstrap, on_loss, clock)
            try:
                return _run_streams(
                    spark, project, bootstrap, drain, stop, clock, kafka_alive, be_ready, on_finished, own
                )
            except TopicReplacedError as why:
                if drain or stop.is_set() or not why.goes_on:
                    raise
                on_kafka(str(why))
                wait_for_topics(project, bootstrap, stop)
                if stop.is_set():
                    return []
            except LostRecordsError:
                pass  # Kafka has deleted them since they were looked for.
            except (SparkError, SourceError):
                if stop.is_set() or not any(has_gaps(project, one, bootstrap) for one in project.sources.values()):
                    raise

    def log(failure: Exception) -> None:
        log_fault(failure, project.workspace / "logs" / "errors.log", "the speed layer, which goes on")

    def revive_kafka() -> bool:
        return not kafka_alive() and restart_kafka()

    try:
        if drain:
            return run_streams()
        with KafkaWatch(project, bootstrap, clock, on_kafka) as watch:
            return run_again_after_kafka(run_streams, ready, watch, stop, on_kafka, log, clock, revive_kafka)
    except (KafkaAwayError, KafkaForbidsError) as error:
        if not ready.is_set():
            raise
        raise type(error)(f"{error}; {GOES_ON}") from error


def _run_streams(
    spark: SparkSession,
    project: Project,
    bootstrap: str,
    drain: bool,
    stop: threading.Event,
    clock: Clock,
    kafka_alive: Callable[[], bool],
    on_ready: Callable[[], None],
    on_finished: Callable[[Finished], None],
    own: OwnProgress,
) -> list[str]:
    """Start the streams of all sources, and run them until ``stop`` is set, one has failed, or they have drained.
    Returns and raises what ``run`` does.
    """
    # Each start makes its own checkpoints (see source_tables.py), in a folder of its own: the Java process of a killed
    # one may live a moment longer.
    shutil.rmtree(project.workspace / "checkpoints", ignore_errors=True)
    checkpoints = project.workspace / "checkpoints" / uuid4().hex
    around = surroundings_of(project, bootstrap)
    streams: list[Stream] = []
    with ExitStack() as running:
        try:
            for source in project.sources.values():
                streams.append(
                    _start(spark, project, source, bootstrap, checkpoints, drain, clock, on_finished, running, own)
                )
            on_ready()
            failures = wait_for_end(streams, stop, kafka_alive, drain, around)
        finally:
            given_up = stop_streams(streams)
    raise_failure(streams, failures, around)
    return given_up


def _start(
    spark: SparkSession,
    project: Project,
    source: Source,
    bootstrap: str,
    checkpoints: Path,
    drain: bool,
    clock: Clock,
    on_finished: Callable[[Finished], None],
    running: ExitStack,
    own: OwnProgress,
) -> Stream:
    options = dict(project.settings.kafka.options)
    group_name = f"hourline.{project.name}.{source.name}"
    kafka = KafkaFacts(bootstrap, options, group_name, _SECONDS_FOR_REQUEST)
    continuity = Continuity(source, kafka, _last_read(project, source))
    continuity.refuse_other_cluster()
    continuity.refuse_missing_topics()
    topic_ids = ensure_topics(bootstrap, source, options)
    batch = open_micro_batch(spark, project, source, topic_ids.values(), clock)
    own.hold(source, batch.source_tables.progress)
    batch.source_tables.clock = batch.source_tables.clock.of_topics(topic_ids.values())
    readings = batch.source_tables.progress.readings(topic_ids.values())
    start = {
        topic: starting_offsets(topic, topic_offsets(bootstrap, topic, options), readings[of])
        for topic, of in topic_ids.items()
    }
    settings = project.settings.speed
    stream = read_topics(spark, source, bootstrap, options, start, settings.max_records_per_batch)
    continuity.begin(topic_ids, [(topic, partition) for topic, partitions in start.items() for partition in partitions])
    # Spark may take long to end the query before, if it still reads. Two queries may not have one name.
    query_name = f"{source.name} {checkpoints.name}"
    ends_of = partial(planned_ends, spark, query_name)
    group = running.enter_context(ConsumerGroup(bootstrap, options, group_name))
    group.show({topic: readings[of].next_offsets for topic, of in topic_ids.items()})
    foreach_batch = ForeachBatch(project, batch, continuity, ends_of, on_finished, group.show)
    if isinstance(source.topic, TopicPattern):
        write_starting_offsets(checkpoints / source.name, start)
    writer = (
        batch.plan.apply(stream)  # in the stream and not in each micro-batch, so that Spark resolves it once
        .writeStream.queryName(query_name)
        .foreachBatch(foreach_batch)
        .option("checkpointLocation", (checkpoints / source.name).as_uri())
    )
    if drain:
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

    silence = Silence(batch.source_tables, ends, lambda: _read_up_to(query, continuity.topic_ids), clock)
    return Stream(foreach_batch, query, silence, continuity)


def _last_read(project: Project, source: Source) -> LastRead:
    """What progress says of the Kafka that the source was read from."""
    layout = Layout.of(project)
    if not exists(layout.progress(source), layout.storage_options):
        return LastRead()
    return Progress(open_table(layout.progress(source), layout.storage_options)).last_read()


def _read_up_to(query: StreamingQuery, topic_ids: Mapping[str, str]) -> Offsets:
    """How far Spark has read the topics. Empty before its first micro-batch."""
    progress = query.lastProgress
    read = json.loads(progress.sources[0].endOffset or "null") if progress else None
    return {
        (topic_ids[topic], int(partition)): offset
        for topic, partitions in (read or {}).items()
        for partition, offset in partitions.items()
    }
