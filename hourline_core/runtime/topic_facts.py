"""What a Kafka tells of its topics: partitions, offsets and configuration."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # it exports them, but not in the way that strict mypy asks for
    AdminClient,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)

from hourline_core.errors import UsageError, did_you_mean
from hourline_core.runtime.kafka_admin import FORBIDDEN, TIMEOUT_SECONDS, WITHOUT_LEADER, admin
from hourline_core.runtime.kafka_records import Partition
from hourline_core.runtime.topics import id_of

_MOST_NAMED = 20
_NOT_TOLD = {KafkaError.UNKNOWN_TOPIC_OR_PART, *WITHOUT_LEADER, *FORBIDDEN}
"""Errors of one topic or partition, beside which the others can be told."""


@dataclass(frozen=True)
class PartitionFacts:
    """A partition of a topic."""

    number: int
    leader: int | None
    """The id of the broker that leads it. None: it has no leader now."""
    replicas: tuple[int, ...]
    """The ids of the brokers that are to have a copy."""
    in_sync: tuple[int, ...]
    """The ids of those whose copy is complete."""
    begin: int | None
    """The first offset. None: Kafka does not tell."""
    end: int | None
    """The end of the committed records. None: Kafka does not tell."""

    @property
    def records(self) -> int | None:
        """The number of its offsets. Offsets of transactions' markers and of compacted records have no record."""
        return None if self.begin is None or self.end is None else self.end - self.begin


@dataclass(frozen=True)
class TopicFacts:
    """A topic."""

    name: str
    id: str
    """As Kafka's own tools print it."""
    partitions: tuple[PartitionFacts, ...]
    cleanup_policy: str | None
    """None: Kafka does not tell."""
    config: Mapping[str, str | None]
    """The configuration that was set for this topic alone. None: it is secret."""
    is_internal: bool = False
    """Whether it is one of Kafka's own."""

    @property
    def replication(self) -> int:
        """The number of copies of each partition."""
        return max((len(partition.replicas) for partition in self.partitions), default=0)

    @property
    def records(self) -> int | None:
        """The number of its offsets. None: Kafka does not tell those of some partition."""
        counts = [partition.records for partition in self.partitions]
        return None if None in counts else sum(count for count in counts if count is not None)


def list_topics(bootstrap: str, client_options: Mapping[str, str]) -> list[TopicFacts]:
    """All topics but Kafka's own, by name. Raises BrokerError."""
    with admin(bootstrap, client_options, "list its topics") as client:
        return _facts(client, client.list_topics(timeout=TIMEOUT_SECONDS).topics)


def describe_topic(bootstrap: str, topic: str, client_options: Mapping[str, str]) -> TopicFacts:
    """A topic, also one of Kafka's own. Raises BrokerError, and UsageError if there is no such topic."""
    if not topic:
        raise UsageError("got an empty name, allowed is that of a topic")
    with admin(bootstrap, client_options, f"describe topic '{topic}'") as client:
        if found := _facts(client, [topic], with_internal=True):
            return found[0]
        raise missing_topic(client, topic)


def missing_topic(client: AdminClient, topic: str) -> UsageError:
    """The error to raise for a topic that is not there, with a near name."""
    names = [name for name in client.list_topics(timeout=TIMEOUT_SECONDS).topics if not name.startswith("__")]
    hint = did_you_mean(topic, names)
    if len(names) > _MOST_NAMED and hint.startswith(" ("):
        hint = "; `hourline topics list` lists those that are there"
    return UsageError(f"there is no topic '{topic}'{hint}")


def _facts(client: AdminClient, names: Iterable[str], with_internal: bool = False) -> list[TopicFacts]:
    described = _describe(client, sorted(names))
    if not with_internal:
        described = {name: topic for name, topic in described.items() if not topic.is_internal}
    partitions = [(name, partition.id) for name, topic in described.items() for partition in topic.partitions]
    begins = _offsets(client, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
    ends = _offsets(client, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
    configs = _configs(client, described)
    return [
        TopicFacts(
            name,
            id_of(topic),
            tuple(
                PartitionFacts(
                    partition.id,
                    # A partition without a leader names the node -1, or none.
                    None if partition.leader is None or partition.leader.id < 0 else partition.leader.id,
                    tuple(node.id for node in partition.replicas),
                    tuple(node.id for node in partition.isr),
                    begins.get((name, partition.id)),
                    ends.get((name, partition.id)),
                )
                for partition in sorted(topic.partitions, key=lambda partition: partition.id)
            ),
            configs[name]["cleanup.policy"].value if name in configs else None,
            {
                key: None if entry.is_sensitive else entry.value
                for key, entry in sorted(configs.get(name, {}).items())
                if ConfigSource(entry.source) is ConfigSource.DYNAMIC_TOPIC_CONFIG
            },
            topic.is_internal,
        )
        for name, topic in described.items()
    ]


def _describe(client: AdminClient, names: list[str]) -> dict[str, TopicDescription]:
    """Those of ``names`` that are there."""
    found: dict[str, TopicDescription] = {}
    if not names:  # The client refuses to ask for none.
        return found
    for name, answer in client.describe_topics(TopicCollection(names), request_timeout=TIMEOUT_SECONDS).items():
        try:
            found[name] = answer.result()
        except KafkaException as error:
            if error.args[0].code() not in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION):
                raise
    return found


def _offsets(client: AdminClient, partitions: Iterable[Partition], which: OffsetSpec) -> dict[Partition, int]:
    """The committed offsets of those partitions that have a leader, and that this user may describe."""
    asked = {TopicPartition(*partition): which for partition in partitions}
    if not asked:
        return {}
    found: dict[Partition, int] = {}
    answers = client.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=TIMEOUT_SECONDS)
    for of, answer in answers.items():
        try:
            found[of.topic, of.partition] = answer.result().offset
        except KafkaException as error:
            if error.args[0].code() not in _NOT_TOLD:
                raise
    return found


def _configs(client: AdminClient, names: Iterable[str]) -> dict[str, dict[str, ConfigEntry]]:
    """The configurations of those topics that this user may see."""
    asked = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    found: dict[str, dict[str, ConfigEntry]] = {}
    if not asked:
        return found
    for of, answer in client.describe_configs(asked, request_timeout=TIMEOUT_SECONDS).items():
        try:
            found[of.name] = answer.result()
        except KafkaException as error:
            if error.args[0].code() not in _NOT_TOLD:
                raise
    return found
