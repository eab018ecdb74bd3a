"""Kafka topics: creation, ids and offsets."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # it exports them, but not in the way that strict mypy asks for
    AdminClient,
    NewTopic,
    OffsetSpec,
    TopicDescription,
)

from hourline_core.errors import BrokerError
from hourline_core.model import Source
from hourline_core.model.topics import Retention, matches, names_of
from hourline_core.runtime.kafka_admin import TIMEOUT_SECONDS, WITHOUT_LEADER, admin

_T = TypeVar("_T")
_BROKERS_DEFAULT = -1
_SECONDS_UNTIL_MISSING = 2.0
_TEMPORARY = {KafkaError.UNKNOWN_TOPIC_OR_PART, *WITHOUT_LEADER}
"""Temporary errors, shortly after a topic was created or while a partition moves to another node."""


def ensure_topic(
    bootstrap: str,
    topic: str,
    partitions: int,
    client_options: Mapping[str, str],
    retention: Retention | None = None,
    *,
    compacted: bool = False,
) -> str:
    """Create ``topic`` if it is missing, and return its id as Kafka's own tools print it. A recreated topic has a new
    id. Without ``retention``, it has that of the broker. ``compacted``: of each key, the newest record stays.

    An existing topic is not changed, whatever its number of partitions or its retention. Raises BrokerError.
    """
    # A user who may not create topics is refused before Kafka looks whether the topic is there.
    with admin(bootstrap, client_options, f"look for topic '{topic}'") as client:
        try:
            return id_of(_describe(client, topic))
        except KafkaException as error:
            if error.args[0].code() not in _TEMPORARY:
                raise
    config = {} if retention is None else {"retention.ms": _milliseconds(retention)}
    config |= {"cleanup.policy": "compact"} if compacted else {}
    new = NewTopic(topic, num_partitions=partitions, replication_factor=_BROKERS_DEFAULT, config=config)
    with admin(bootstrap, client_options, f"create topic '{topic}'", right="CREATE") as client:
        try:
            client.create_topics([new], request_timeout=TIMEOUT_SECONDS, operation_timeout=TIMEOUT_SECONDS)[
                topic
            ].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                # A broker that has just started may not know a topic yet that is there.
                with suppress(KafkaException):
                    return id_of(retry(lambda: _describe(client, topic), _SECONDS_UNTIL_MISSING))
                raise
        return id_of(retry(lambda: _describe(client, topic)))


def _milliseconds(retention: Retention) -> str:
    return "-1" if retention == "forever" else str(retention // timedelta(milliseconds=1))


def ensure_topics(bootstrap: str, source: Source, client_options: Mapping[str, str]) -> dict[str, str]:
    """The ids of the source's topics by name. Those that it names are created if they are missing. Raises
    BrokerError.
    """
    if names := names_of(source.topic):
        return {
            name: ensure_topic(bootstrap, name, source.partitions, client_options, source.retention) for name in names
        }
    return {
        name: topic_id_of(bootstrap, name, client_options) for name in find_topics(bootstrap, source, client_options)
    }


def find_topics(
    bootstrap: str, source: Source, client_options: Mapping[str, str], seconds: float = TIMEOUT_SECONDS
) -> list[str]:
    """The names of the source's topics: those that it names, or those that its pattern matches now. Raises
    BrokerError.
    """
    if names := names_of(source.topic):
        return list(names)
    with admin(bootstrap, client_options, "list its topics", seconds) as client:
        matching = [name for name in client.list_topics(timeout=seconds).topics if matches(source.topic, name)]
        # Spark leaves out Kafka's own topics, such as __consumer_offsets.
        return sorted(name for name in matching if not _describe(client, name, seconds).is_internal)


@dataclass(frozen=True)
class PartitionEnds:
    """The offsets at which a partition begins and ends."""

    earliest: int
    stable: int
    """The end of the committed records: the last stable offset."""
    high: int
    """The end of all records, also of those whose transaction is open: the high watermark."""


def topic_ends(
    bootstrap: str, topic: str, client_options: Mapping[str, str], seconds: float = TIMEOUT_SECONDS
) -> dict[int, PartitionEnds]:
    """Where a topic begins and ends, by partition.

    ``seconds`` is the time limit of each request. Raises BrokerError, also for a missing topic.
    """
    with admin(bootstrap, client_options, f"tell the offsets of topic '{topic}'", seconds) as client:
        partitions = sorted(partition.id for partition in _existing(client, topic, seconds).partitions)

        def offsets(which: OffsetSpec, isolation: IsolationLevel) -> dict[int, int]:
            return retry(lambda: _offsets(client, topic, partitions, which, seconds, isolation), seconds)

        earliest = offsets(OffsetSpec.earliest(), IsolationLevel.READ_COMMITTED)  # type: ignore[no-untyped-call]
        stable = offsets(OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)  # type: ignore[no-untyped-call]
        high = offsets(OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)  # type: ignore[no-untyped-call]
        return {of: PartitionEnds(earliest[of], stable[of], high[of]) for of in partitions}


def topic_offsets(
    bootstrap: str, topic: str, client_options: Mapping[str, str], seconds: float = TIMEOUT_SECONDS
) -> dict[int, tuple[int, int]]:
    """The earliest offset and the end of the committed records, by partition. Otherwise like ``topic_ends``."""
    ends = topic_ends(bootstrap, topic, client_options, seconds)
    return {partition: (of.earliest, of.stable) for partition, of in ends.items()}


def topic_id_of(bootstrap: str, topic: str, client_options: Mapping[str, str]) -> str:
    """The id of an existing topic, as ``ensure_topic`` returns it. Raises BrokerError, also for a missing topic."""
    with admin(bootstrap, client_options, f"describe topic '{topic}'") as client:
        return id_of(_existing(client, topic))


def offsets_at(bootstrap: str, topic: str, moment: datetime, client_options: Mapping[str, str]) -> dict[int, int]:
    """The offset of the first record whose Kafka timestamp is at or after ``moment``, by partition.

    Partitions without such a record have the end of their committed records. Raises BrokerError, also for a missing
    topic.
    """
    latest = {partition: end for partition, (_, end) in topic_offsets(bootstrap, topic, client_options).items()}
    milliseconds = -((datetime(1970, 1, 1, tzinfo=UTC) - moment) // timedelta(milliseconds=1))  # rounded up
    with admin(bootstrap, client_options, f"tell the offsets of topic '{topic}'") as client:
        at: OffsetSpec = OffsetSpec.for_timestamp(milliseconds)
        offsets = retry(lambda: _offsets(client, topic, sorted(latest), at))
    return {partition: offsets[partition] if offsets[partition] >= 0 else end for partition, end in latest.items()}


def _existing(client: AdminClient, topic: str, seconds: float = TIMEOUT_SECONDS) -> TopicDescription:
    try:
        return _describe(client, topic, seconds)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise
        raise BrokerError(
            f"there is no topic '{topic}'; create it with a replay to its source, or by starting the speed layer"
        ) from error


def id_of(described: TopicDescription) -> str:
    """The id of a described topic, as Kafka's own tools print it."""
    # The client returns ids in plain Base64. Kafka's own tools use the form that is safe in URLs and file names.
    return str(described.topic_id).replace("+", "-").replace("/", "_")


def _describe(client: AdminClient, topic: str, seconds: float = TIMEOUT_SECONDS) -> TopicDescription:
    answers = client.describe_topics(TopicCollection([topic]), request_timeout=seconds)
    described: TopicDescription = answers[topic].result()
    return described


def _offsets(
    client: AdminClient,
    topic: str,
    partitions: list[int],
    which: OffsetSpec,
    seconds: float = TIMEOUT_SECONDS,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> dict[int, int]:
    asked = {TopicPartition(topic, partition): which for partition in partitions}
    answers = client.list_offsets(asked, isolation_level=isolation, request_timeout=seconds)
    return {asked_for.partition: answer.result().offset for asked_for, answer in answers.items()}


def retry(ask: Callable[[], _T], seconds: float = TIMEOUT_SECONDS) -> _T:
    """Call ``ask`` and return its result. Temporary errors are retried for ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in _TEMPORARY or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
