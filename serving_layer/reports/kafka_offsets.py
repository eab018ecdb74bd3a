"""Looks up how far the topics reach in Kafka. It has its own thread, so nothing else waits for a broker that hangs."""

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYetError
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from hourline_core.errors import HourlineError
from hourline_core.faults import explain_fault, log_fault
from hourline_core.model import Project, Source
from hourline_core.runtime.fault_context import surroundings_of

LIMIT_SECONDS = 2.0
"""The maximum time that a status waits for Kafka."""


@dataclass(frozen=True)
class Unknown:
    """Kafka has not answered."""

    reason: str
    """One sentence."""


class PartitionOffsets(NamedTuple):
    """How far a partition reaches."""

    earliest: int
    end: int
    """The end of the committed records."""
    held_back: int = 0
    """The number of offsets after it, which an open transaction holds back."""
    held_back_since: datetime | None = None
    """Kafka's timestamp (UTC) of the first of these. None: there is none, or it is not known."""


TopicOffsets = Mapping[str, Mapping[int, PartitionOffsets]]
"""By topic and partition."""


@dataclass(frozen=True)
class SourceOffsets:
    """How far the topics of a source reach, and which they are."""

    topics: TopicOffsets
    topic_ids: Mapping[str, str | None] = field(default_factory=dict)
    """Kafka's ids of the topics, by name."""
    bootstrap: str = ""
    """The address of the Kafka that was asked."""
    cluster: str | None = None
    """The id of its cluster. None: it has none."""


Offsets = Mapping[str, SourceOffsets | Unknown]
"""By source."""


class KafkaOffsets:
    """Looks up the offsets of all sources' topics, one look-up at a time. Threads may share it."""

    def __init__(self, project: Project, seconds: float = LIMIT_SECONDS) -> None:
        self.seconds = seconds
        self._project = project
        self._lock = threading.Lock()
        self._under_way: Future[Offsets] | None = None

    def look_up(self) -> Future[Offsets]:
        """Begin a look-up, or join the running one. It may take longer than the limit."""
        with self._lock:
            if self._under_way is None or self._under_way.done():
                self._under_way = Future()
                # No pool: the interpreter would wait for its threads at its end, and a broker may never answer.
                threading.Thread(target=self._run, args=[self._under_way], name="kafka-offsets", daemon=True).start()
            return self._under_way

    @property
    def running(self) -> Future[Offsets] | None:
        """The look-up that runs. None: none does."""
        with self._lock:
            return None if self._under_way is None or self._under_way.done() else self._under_way

    def give_up(self) -> Offsets:
        """The answer if the look-up has taken longer than the limit."""
        unknown = Unknown(f"Kafka did not answer within {self.seconds:g} seconds")
        return dict.fromkeys(self._project.sources, unknown)

    def within_limit(self) -> Offsets:
        """The offsets, after the limit at most."""
        try:
            return self.look_up().result(self.seconds)
        except NotYetError:
            return self.give_up()

    def _run(self, answer: Future[Offsets]) -> None:
        try:
            answer.set_result({source.name: self._of(source) for source in self._project.sources.values()})
        except BaseException as error:
            answer.set_exception(error)

    def _of(self, source: Source) -> SourceOffsets | Unknown:
        if source.topic is None:  # Its input is not in Kafka.
            return SourceOffsets({})
        try:
            from hourline_core.runtime.kafka import reachable_kafka
            from hourline_core.runtime.kafka_facts import KafkaFacts
            from hourline_core.runtime.topics import find_topics
        except ImportError:  # The serving side alone has no Kafka client.
            return Unknown("no Kafka client is installed; the extra `engine` brings one")
        try:
            options = self._project.settings.kafka.options
            kafka = reachable_kafka(self._project)
            topics = find_topics(kafka, source, options, self.seconds)
            offsets = {topic: self._of_topic(kafka, topic) for topic in topics}
            facts = KafkaFacts(kafka, options, self._project.name, self.seconds)
            return SourceOffsets(offsets, facts.ids(topics), kafka, facts.cluster_id())
        except Exception as error:  # The tables can be reported without Kafka, whatever its client raises.
            if not isinstance(error, HourlineError):
                log_fault(error, self._project.workspace / "logs" / "errors.log", "the look-up of Kafka's offsets")
            return Unknown(str(explain_fault(error, surroundings_of(self._project))))

    def _of_topic(self, kafka: str, topic: str) -> dict[int, PartitionOffsets]:
        from hourline_core.runtime.kafka_records import record_times
        from hourline_core.runtime.topics import topic_ends

        options = self._project.settings.kafka.options
        ends = topic_ends(kafka, topic, options, self.seconds)
        held_back = {partition: of.stable for partition, of in ends.items() if of.high > of.stable}
        since = record_times(kafka, topic, held_back, options, self.seconds / 2) if held_back else {}
        return {
            partition: PartitionOffsets(of.earliest, of.stable, of.high - of.stable, since.get(partition))
            for partition, of in ends.items()
        }
