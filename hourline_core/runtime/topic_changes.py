"""Creates and deletes topics of Kafka."""

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined] # not in strict mypy's way

from hourline_core.errors import UsageError
from hourline_core.runtime.kafka_admin import TIMEOUT_SECONDS, admin
from hourline_core.runtime.topic_facts import missing_topic
from hourline_core.runtime.topics import topic_offsets

_BROKERS_DEFAULT = -1
_WRONG_ARGUMENTS = {
    KafkaError.TOPIC_ALREADY_EXISTS,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.INVALID_REQUEST,
    KafkaError.POLICY_VIOLATION,
}


def create_topic(
    bootstrap: str,
    topic: str,
    client_options: Mapping[str, str],
    partitions: int | None,
    replication: int | None,
    config: Mapping[str, str],
) -> int:
    """Create ``topic``, and return its number of partitions once each of them can be used. None: the broker's default.

    Raises BrokerError, and UsageError with the broker's sentence if it does not allow such a topic.
    """
    new = NewTopic(
        topic,
        num_partitions=partitions or _BROKERS_DEFAULT,
        replication_factor=replication or _BROKERS_DEFAULT,
        config=dict(config),
    )
    with admin(bootstrap, client_options, f"create topic '{topic}'", right="CREATE") as client:
        made = client.create_topics([new], request_timeout=TIMEOUT_SECONDS, operation_timeout=TIMEOUT_SECONDS)
        try:
            made[topic].result()
        except KafkaException as error:
            if error.args[0].code() not in _WRONG_ARGUMENTS:
                raise
            raise UsageError(f"Kafka does not create topic '{topic}': {error.args[0].str()}") from error
    return len(topic_offsets(bootstrap, topic, client_options))


def delete_topic(bootstrap: str, topic: str, client_options: Mapping[str, str]) -> None:
    """Delete ``topic`` with all of its records. Raises BrokerError, and UsageError if there is no such topic."""
    with admin(bootstrap, client_options, f"delete topic '{topic}'", right="DELETE") as client:
        gone = client.delete_topics([topic], request_timeout=TIMEOUT_SECONDS, operation_timeout=TIMEOUT_SECONDS)
        try:
            gone[topic].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            raise missing_topic(client, topic) from error
