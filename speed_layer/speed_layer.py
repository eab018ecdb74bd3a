"""Runs the speed layer: one Structured Streaming query per source, until it is told to stop or the topics are
drained.

Its life, from ``SpeedLayer.run`` down, is on this page. A record's way begins in ``streams/start_stream.py``, which
joins what these folders hold:

1. ``kafka/`` reads the record from its topic, and confirms that the topic is still the one that was read.
2. ``intake/`` is the work of the tasks: they decode and validate the record, archive its events, and fold them.
3. ``commit/`` commits the files and tiles of the micro-batch, and then progress.

``streams/`` has Spark read the next micro-batch meanwhile. ``files/`` reads files that arrive. ``joins/`` joins what
other sources have finished. ``recovery/`` says what is lost, read again or taken over after a fault, and ``reset/``
goes back in topics.
"""

import shutil
import threading
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

from pyspark.sql import SparkSession

from hourline_core.errors import (
    KafkaAwayError,
    KafkaForbidsError,
    LostRecordsError,
    RegistryError,
    SourceError,
    SparkError,
    TopicReplacedError,
)
from hourline_core.faults import log_fault
from hourline_core.model import Project, Source
from hourline_core.model.hours import Clock, wall_clock
from hourline_core.runtime.fault_context import surroundings_of
from hourline_core.runtime.kafka import Kafka
from speed_layer.kafka.awaited_topics import AwaitedTopics
from speed_layer.kafka.kafka_watch import KafkaWatch
from speed_layer.observer import Observer
from speed_layer.recovery.awaited_registry import AwaitedRegistry
from speed_layer.recovery.gaps import find_gaps, has_gaps
from speed_layer.recovery.lost_records import explain_gaps
from speed_layer.recovery.restarts import Restarts
from speed_layer.recovery.takeover import TakeoverCheck
from speed_layer.state import Lifecycle, State
from speed_layer.streams.environment import StreamEnvironment
from speed_layer.streams.start_derived import start_derived
from speed_layer.streams.start_files import start_files
from speed_layer.streams.start_stream import start_stream
from speed_layer.streams.stream import GOES_ON, Failures, Stream, failures_of, raise_failure, stop_streams


class SpeedLayer:
    """The speed layer of ``project`` on a ``kafka``, with a session of ``speed_session``.

    Once it has run, it outlives a Kafka that is away for a while, a schema registry that does not answer, and a topic
    that was deleted and whose source goes on with the new one. During the latter two, the other sources are read. With
    ``drain``, it ends when all that was in the topics at the start has been processed, and outlives none of them. With
    ``accept_loss``, records that Kafka deleted before they were read are skipped, and put on record; without, they
    raise LostRecordsError. ``clock`` (UTC) only dates the micro-batches; no number depends on it. The caller holds the
    lease "speed".
    """

    def __init__(
        self,
        spark: SparkSession,
        project: Project,
        kafka: Kafka,
        observer: Observer,
        *,
        drain: bool = False,
        accept_loss: bool = False,
        clock: Clock = wall_clock,
    ) -> None:
        self._project, self._kafka, self._observer, self._clock = project, kafka, observer, clock
        self._drain, self._accept_loss = drain, accept_loss
        self._log = project.workspace / "logs" / "errors.log"
        self._lifecycle = Lifecycle(observer.changed)
        self._takeover = TakeoverCheck(project)
        self._awaited = AwaitedTopics(project, clock, observer)
        self._registry = AwaitedRegistry(project, clock, observer)
        self._environment = StreamEnvironment(
            spark, project, kafka.address, drain, clock, observer.finished, self._takeover
        )

    @property
    def state(self) -> State:
        """What it does now."""
        return self._lifecycle.state

    def run(self, stop: threading.Event) -> list[str]:
        """Read the topics, until they are drained, or within seconds when ``stop`` is set. Returns the sources of which
        Spark did not end reading, since Kafka does not answer, for example: those records are read again.

        Raises BrokerError, SourceError, TableError, SparkError, ResourceError, ConflictError when another process
        writes to the tables, and ValueError if it is running already.
        """
        self._lifecycle.enter(State.STARTING)
        try:
            if self._drain:
                return self._read(stop)
            with KafkaWatch(self._project, self._kafka.address, self._clock, self._observer, self._awaited) as watch:
                return self._outlive_kafka(watch, stop)
        except (KafkaAwayError, KafkaForbidsError, RegistryError) as error:
            if not self._lifecycle.has_run:
                raise
            raise type(error)(f"{error}; {GOES_ON}") from error
        finally:
            self._registry.close()
            self._lifecycle.enter(State.STOPPING)
            self._lifecycle.enter(State.STOPPED)

    def _outlive_kafka(self, watch: KafkaWatch, stop: threading.Event) -> list[str]:
        """Read, and read again when Kafka has ended the reading."""
        restarts = Restarts(watch, self._kafka, self._observer, self._clock)
        while True:
            try:
                return self._read(stop)
            except (KafkaAwayError, KafkaForbidsError) as error:
                if not self._lifecycle.has_run:
                    raise
                failure = error
            if stop.is_set():
                return []
            log_fault(failure, self._log, "the speed layer, which goes on")
            self._lifecycle.enter(State.AWAY)
            restarts.wait(failure, stop)

    def _read(self, stop: threading.Event) -> list[str]:
        """Run streams until the end, anew when other sources can be read, or behind what was lost."""
        while not stop.is_set():
            self._takeover.refuse_takeover()
            if self._lifecycle.has_run and not self._drain:
                # The first start makes the topics that are missing. A later one waits for them.
                self._awaited.look(self._kafka.address)
            sources = self._sources()
            # All of them before any stream: a reset takes the checkpoints away.
            for source in sources:
                self._pass_gaps(source)
            try:
                given_up = self._run_streams(sources, stop)
                if stop.is_set() or self._sources() == sources:
                    return given_up
            except TopicReplacedError as why:
                if self._drain or stop.is_set() or not why.goes_on:
                    raise
                self._observer.topic_replaced(why)
            except RegistryError as why:
                if self._drain or stop.is_set():
                    raise
                log_fault(why, self._log, "the speed layer, which goes on")
                self._registry.wait_for(why)
            except LostRecordsError:
                pass  # Kafka has deleted them since they were looked for.
            except (SparkError, SourceError):
                of_topics = [one for one in sources if one.topic is not None]
                if stop.is_set() or not any(has_gaps(self._project, one, self._kafka.address) for one in of_topics):
                    raise
        return []

    def _sources(self) -> list[Source]:
        """The sources that can be read."""
        return [source for source in self._awaited.sources() if not self._registry.is_awaited_by(source)]

    def _pass_gaps(self, source: Source) -> None:
        """Go on behind what is gone of the source's topics, if losses are accepted."""
        skipping = None if source.topic is None else find_gaps(self._project, source, self._kafka.address)
        if skipping is None:
            return
        if not self._accept_loss:
            raise LostRecordsError(explain_gaps(source, skipping.gaps))
        self._observer.accepts_loss(source, skipping.gaps)
        skipping.apply(self._clock())

    def _run_streams(self, sources: list[Source], stop: threading.Event) -> list[str]:
        """Start the streams of ``sources``, and run them to their end. Returns what ``run`` does."""
        # Each start makes its own checkpoints (see source_tables.py), in a folder of its own: the Java process of a
        # killed one may live a moment longer.
        shutil.rmtree(self._project.workspace / "checkpoints", ignore_errors=True)
        checkpoints = self._project.workspace / "checkpoints" / uuid4().hex
        streams: list[Stream] = []
        with ExitStack() as running:
            try:
                for source in sources:
                    streams.append(self._start(source, streams, checkpoints, running))
                self._lifecycle.enter(State.RUNNING)
                failures = self._wait_for_end(streams, sources, stop)
            finally:
                if stop.is_set():
                    self._lifecycle.enter(State.STOPPING)
                given_up = stop_streams(streams)
        raise_failure(streams, failures, surroundings_of(self._project, self._kafka.address))
        return given_up

    def _start(self, source: Source, streams: list[Stream], checkpoints: Path, running: ExitStack) -> Stream:
        if source.is_derived:
            return start_derived(self._environment, source, streams)
        if source.reads_files:
            return start_files(self._environment, source)
        return start_stream(self._environment, source, checkpoints, running)

    def _wait_for_end(self, streams: list[Stream], sources: list[Source], stop: threading.Event) -> Failures:
        """Wait until all streams have ended, one has failed, ``stop`` is set, or other ``sources`` can be read. Without
        a stream, waits for the latter two. Raises KafkaAwayError when a Kafka of this process has ended.
        """
        while (not streams or any(stream.is_active() for stream in streams)) and not stop.wait(0.1):
            if any(stream.failure() for stream in streams) or self._sources() != sources:
                break
            if not self._drain:
                for stream in streams:
                    stream.look()
            self._observer.heartbeat()
            if not self._kafka.alive():
                # Spark itself would ask Kafka for minutes before it gave up.
                raise KafkaAwayError(
                    f"the embedded Kafka at {self._kafka.address} has ended by itself (its log is logs/broker.log)"
                )
        return failures_of(streams)
