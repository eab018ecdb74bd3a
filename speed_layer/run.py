"""Runs the speed layer: one Structured Streaming query per source, until it is told to stop or the topics are
drained.
"""

import shutil
import threading
from collections.abc import Callable
from contextlib import ExitStack
from uuid import uuid4

from pyspark.sql import SparkSession

from hourline_core.errors import (
    KafkaAwayError,
    KafkaForbidsError,
    LostRecordsError,
    SourceError,
    SparkError,
    TopicReplacedError,
)
from hourline_core.faults import log_fault
from hourline_core.model import Project, Source
from hourline_core.model.hours import Clock, wall_clock
from hourline_core.runtime.fault_context import surroundings_of
from speed_layer.commit.micro_batch import Finished
from speed_layer.kafka.awaited_topics import AwaitedTopics
from speed_layer.kafka.kafka_watch import KafkaWatch
from speed_layer.recovery.gaps import OnLoss, has_gaps, pass_gaps
from speed_layer.recovery.restarts import run_again_after_kafka
from speed_layer.recovery.takeover import TakeoverCheck
from speed_layer.streams.start_stream import StreamEnvironment, start_stream
from speed_layer.streams.stream import GOES_ON, Stream, raise_failure, stop_streams, wait_for_end


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
    ``on_kafka`` gets a sentence when Kafka goes, and one when it is back; the same of a topic that was deleted, and
    whose source goes on with the new one. Meanwhile the other sources are read.

    ``kafka_alive`` is asked 10 times a second. ``restart_kafka`` is called when it is not, and has made a stream fail:
    it says whether it had to start the Kafka of this process again. ``clock`` (UTC) only dates the micro-batches; no
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

    takeover, awaited = TakeoverCheck(project), AwaitedTopics(project, clock, on_kafka)
    environment = StreamEnvironment(spark, project, bootstrap, drain, clock, on_finished, takeover)

    def run_streams() -> list[str]:
        while not stop.is_set():
            takeover.refuse_takeover()
            if ready.is_set() and not drain:
                awaited.look(bootstrap)  # A start makes the topics that are missing. A restart waits for them.
            sources = awaited.sources()
            # All of them before any stream: a reset takes the checkpoints away.
            for source in sources:
                pass_gaps(project, source, bootstrap, on_loss, clock)
            try:
                given_up = _run_streams(environment, sources, stop, kafka_alive, be_ready, awaited)
                if stop.is_set() or awaited.sources() == sources:
                    return given_up
            except TopicReplacedError as why:
                if drain or stop.is_set() or not why.goes_on:
                    raise
                on_kafka(str(why))
            except LostRecordsError:
                pass  # Kafka has deleted them since they were looked for.
            except (SparkError, SourceError):
                if stop.is_set() or not any(has_gaps(project, one, bootstrap) for one in sources):
                    raise
        return []

    def log(failure: Exception) -> None:
        log_fault(failure, project.workspace / "logs" / "errors.log", "the speed layer, which goes on")

    def revive_kafka() -> bool:
        return not kafka_alive() and restart_kafka()

    try:
        if drain:
            return run_streams()
        with KafkaWatch(project, bootstrap, clock, on_kafka, awaited) as watch:
            return run_again_after_kafka(run_streams, ready, watch, stop, on_kafka, log, clock, revive_kafka)
    except (KafkaAwayError, KafkaForbidsError) as error:
        if not ready.is_set():
            raise
        raise type(error)(f"{error}; {GOES_ON}") from error


def _run_streams(
    environment: StreamEnvironment,
    sources: list[Source],
    stop: threading.Event,
    kafka_alive: Callable[[], bool],
    on_ready: Callable[[], None],
    awaited: AwaitedTopics,
) -> list[str]:
    """Start the streams of ``sources``, and run them until ``stop`` is set, one has failed, they have drained, or more
    sources can be read. Returns and raises what ``run`` does.
    """
    project = environment.project
    # Each start makes its own checkpoints (see source_tables.py), in a folder of its own: the Java process of a killed
    # one may live a moment longer.
    shutil.rmtree(project.workspace / "checkpoints", ignore_errors=True)
    checkpoints = project.workspace / "checkpoints" / uuid4().hex
    around = surroundings_of(project, environment.bootstrap)
    streams: list[Stream] = []
    with ExitStack() as running:
        try:
            for source in sources:
                streams.append(start_stream(environment, source, checkpoints, running))
            on_ready()
            failures = wait_for_end(
                streams, stop, kafka_alive, environment.drain, around, lambda: awaited.sources() != sources
            )
        finally:
            given_up = stop_streams(streams)
    raise_failure(streams, failures, around)
    return given_up
