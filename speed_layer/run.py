"""The speed layer's process, in two steps: Spark is started and warmed up, which touches nothing; then one Structured
Streaming query per source runs, until it is told to stop or the topics are drained. A standby waits between the two.
"""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from hourline_core.compute.aggregation import (
    AggregationPlan,
    counted,
    empty_events,
    event_time_type,
    explain,
    nullable,
    plan_aggregation,
    with_derived,
)
from hourline_core.compute.check import refuse_unresolved
from hourline_core.compute.validation import validate
from hourline_core.errors import BrokerError, HourlineError, SparkError
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.snapshot import MetricTables, take_snapshot
from hourline_core.model import Project, Source, declaration_hash
from hourline_core.model.hours import Clock, wall_clock
from hourline_core.runtime.spark import spark_session
from hourline_core.runtime.topics import ensure_topic, topic_offsets
from speed_layer.deduplication import Deduplicator, archived_id_hashes, with_id_hash
from speed_layer.kafka_stream import read_topic, starting_offsets
from speed_layer.micro_batch import Finished, MicroBatch, Origin
from speed_layer.reprocessing import Reprocessing
from speed_layer.source_tables import open_source_tables

# A stream of small micro-batches: planning time is what counts, and re-planning at run time costs more of it than it
# gives.
_STREAMING = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "1",
    "spark.sql.streaming.stopTimeout": "20s",
}

# Each micro-batch would wait for two files of a checkpoint that nothing ever reads: a start goes on from progress.
# Spark lets them be written beside it only for sinks whose records may be repeated after a restart from there; here
# nothing starts from there.
_UNREAD_CHECKPOINT = {
    "asyncProgressTrackingEnabled": "true",
    "asyncProgressTrackingCheckpointIntervalMs": "60000",
    "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
}


@contextmanager
def speed_session(project: Project) -> Iterator[SparkSession]:
    """A Spark session for ``run``, for the length of the block, in which all declared expressions are known to resolve.

    Raises DeclarationError, SetupError, SparkError, and HourlineError when Spark's Java process dies within the block.
    """
    spark = spark_session(project, "speed", _STREAMING)
    try:
        refuse_unresolved(spark, project)
        yield spark
    except Py4JJavaError as error:
        raise SparkError(f"Spark failed: {error.java_exception}") from error
    except (Py4JError, ConnectionError) as error:
        log = project.workspace / "logs" / "spark-speed.log"
        raise HourlineError(
            f"Spark's Java process has ended; nothing is lost, `hourline up` goes on where it stopped (its log is {log})"
        ) from error
    finally:
        with suppress(Py4JError, ConnectionError):  # it is gone already
            spark.stop()


def warm_up(spark: SparkSession, project: Project, clock: Clock = wall_clock) -> None:
    """Run all that a micro-batch of ``project`` runs: Spark compiles it now, or the first events would wait for
    seconds.

    Neither tables nor checkpoints nor Kafka are touched, so another speed layer may run meanwhile. Who drains topics,
    or imports files, has nobody waiting for the first event, and goes without.
    """
    for source in project.sources.values():
        _warm_up(spark, project, source, clock)


def run(
    spark: SparkSession,
    project: Project,
    bootstrap: str,
    *,
    drain: bool = False,
    stop: threading.Event | None = None,
    clock: Clock = wall_clock,
    kafka_alive: Callable[[], bool] = lambda: True,
    on_ready: Callable[[], None] = lambda: None,
    on_finished: Callable[[Finished], None] = lambda finished: None,
) -> None:
    """Run the speed layer of ``project`` on the Kafka at ``bootstrap``, with a session of ``speed_session``.

    Returns when ``stop`` is set (the micro-batches under way are finished first) or, with ``drain``, when all that was
    in the topics at the start has been processed. ``kafka_alive`` is asked now and then. ``clock`` (UTC) only dates the
    micro-batches; no number depends on it. Raises ConflictError when another process writes to the tables, BrokerError,
    TableError, SparkError. The caller holds the lease "speed".
    """
    stop = stop or threading.Event()
    # Each start makes its own checkpoints, see ledger.py. In a folder of its own: the Java process of one that was
    # killed may live a moment longer.
    shutil.rmtree(project.workspace / "checkpoints", ignore_errors=True)
    checkpoints = project.workspace / "checkpoints" / uuid4().hex
    with ExitStack() as running:
        streams = []
        for source in project.sources.values():
            streams.append(_start(spark, project, source, bootstrap, checkpoints, drain, clock, on_finished))
            running.callback(streams[-1][1].stop)
        on_ready()
        _wait(streams, stop, kafka_alive)


def _warm_up(spark: SparkSession, project: Project, source: Source, clock: Clock) -> None:
    """Run all that a micro-batch runs on one record, which is rejected."""
    columns = "key binary, value binary, topic string, partition int, offset bigint, arrived timestamp"
    record = spark.createDataFrame([(None, bytearray(), source.topic, 0, 0, clock())], columns)
    validated = with_id_hash(validate(record, source, event_time_type(spark, source)), source).persist()
    validated.toArrow()
    events = counted(with_derived(validated.where("outcome = 'accepted'"), source), source)
    for metric in project.metrics_of(source.name):
        plan_aggregation(spark, source, metric).tiles(events).toArrow()
    validated.unpersist()


def _start(
    spark: SparkSession,
    project: Project,
    source: Source,
    bootstrap: str,
    checkpoints: Path,
    drain: bool,
    clock: Clock,
    on_finished: Callable[[Finished], None],
) -> tuple[MicroBatch, StreamingQuery]:
    options = dict(project.settings.kafka.options)
    origin = Origin(ensure_topic(bootstrap, source.topic, source.partitions, options), source.topic)
    batch = open_micro_batch(spark, project, source, origin, clock, on_finished)
    start = starting_offsets(
        source, topic_offsets(bootstrap, source.topic, options), batch.source_tables.reading.next_offsets
    )
    settings = project.settings.speed
    stream = read_topic(spark, source, bootstrap, options, start, settings.max_records_per_batch)
    # Judged in the stream, not in each micro-batch: so Spark resolves all these expressions once.
    validated = with_id_hash(validate(stream, source, event_time_type(spark, source)), source)
    writer = (
        validated.writeStream.queryName(source.name)
        .foreachBatch(batch)
        .option("checkpointLocation", (checkpoints / source.name).as_uri())
    )
    if drain:
        return batch, writer.trigger(availableNow=True).start()
    return batch, writer.trigger(processingTime=f"{settings.trigger.total_seconds()} seconds").options(
        **_UNREAD_CHECKPOINT
    ).start()


def open_micro_batch(
    spark: SparkSession,
    project: Project,
    source: Source,
    origin: Origin,
    clock: Clock,
    on_finished: Callable[[Finished], None],
) -> MicroBatch:
    """What processes the micro-batches of ``source`` from now on; whoever did it before is fenced out, and what that
    left unfinished is cleared away.

    Raises TableError, ConflictError. The caller holds the lease "speed".
    """
    aggregations = _aggregations(spark, project, source)
    fields = nullable(to_arrow_schema(empty_events(spark, source).drop("event_time", "hour").schema, timezone="UTC"))
    source_tables = open_source_tables(Layout.of(project), source, fields, aggregations, origin.topic_id)
    deduplicator = Deduplicator(source.id_horizon)
    if source.id and source_tables.clock:
        archived = archived_id_hashes(
            spark,
            source,
            Layout.of(project).events(source),
            source_tables.events,
            source_tables.clock - source.id_horizon,
        )
        deduplicator.remember(archived, source_tables.clock)
    reprocessing = Reprocessing(source_tables.reading, source_tables.events, source_tables.rejected, origin.topic_id)
    return MicroBatch(project, source_tables, deduplicator, reprocessing, origin, clock, on_finished)


def _aggregations(spark: SparkSession, project: Project, source: Source) -> list[AggregationPlan]:
    """What is computed of ``source``: its metrics and, before one that has changed, the declaration that is served
    until the new one takes over.
    """
    served = {tables.metric.name: tables for tables in take_snapshot(project).served}
    aggregations: list[AggregationPlan] = []
    for metric in project.metrics_of(source.name):
        current = plan_aggregation(spark, source, metric)
        older = served.get(metric.name)
        if older and older.declaration != current.declaration and (followed := _followed(spark, source, older)):
            aggregations.append(followed)
        aggregations.append(current)
    return aggregations


def _followed(spark: SparkSession, source: Source, older: MetricTables) -> AggregationPlan | None:
    """The older declaration over events as they come in now; None where they no longer have what it counts, or are
    identified otherwise.
    """
    over = source.model_copy(update={"derived": older.source.derived, "where": older.source.where})
    if declaration_hash(over, older.metric) != older.declaration:
        return None
    return plan_aggregation(spark, over, older.metric)


def _wait(
    streams: list[tuple[MicroBatch, StreamingQuery]], stop: threading.Event, kafka_alive: Callable[[], bool]
) -> None:
    """Until all queries have ended by themselves, one has failed, or ``stop`` is set."""
    while any(query.isActive for _, query in streams) and not stop.wait(0.1):
        if any(not query.isActive and query.exception() for _, query in streams):
            break
        if not kafka_alive():
            # Spark would ask it for minutes before it gave up.
            raise BrokerError(
                "the embedded Kafka has ended by itself; nothing is lost, `hourline up` starts it again (its log is logs/broker.log)"
            )
    for batch, query in streams:
        with batch.running:
            batch.stopped = True
        query.stop()
    for batch, query in streams:
        if batch.error:
            raise batch.error if isinstance(batch.error, HourlineError) else _failure(query, batch.error)
        if error := query.exception():
            raise _failure(query, error)


def _failure(query: StreamingQuery, error: Exception) -> SparkError:
    text = explain(error) if isinstance(error, PySparkException) else f"{type(error).__name__}: {error}"
    return SparkError(
        f"the stream of source '{query.name}' stopped: {text}; nothing is lost, `hourline speed` goes on where it stopped"
    )
