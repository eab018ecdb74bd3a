"""A compacted topic: of each key, Kafka keeps the newest record at least."""

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined] # it exports them, but not in the way that strict mypy asks for
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from hourline_core.errors import SinkError
from hourline_core.runtime.kafka_admin import TIMEOUT_SECONDS, admin
from hourline_core.runtime.topics import topic_id_of

_BROKERS_DEFAULT = -1
_POLICY = "cleanup.policy"


def ensure_compacted_topic(bootstrap: str, topic: str, partitions: int, client_options: Mapping[str, str]) -> str:
    """Create ``topic`` if it is missing, and return its id. Raises BrokerError, and SinkError if it is there and is not
    compacted: then Kafka may delete the newest record of a key.
    """
    with admin(bootstrap, client_options, f"create topic '{topic}'") as client:
        config = {_POLICY: "compact"}
        new = NewTopic(topic, num_partitions=partitions, replication_factor=_BROKERS_DEFAULT, config=config)
        try:
            client.create_topics([new], request_timeout=TIMEOUT_SECONDS, operation_timeout=TIMEOUT_SECONDS)[
                topic
            ].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            if (policy := _policy_of(client, topic)) != "compact":
                raise SinkError(
                    f"topic '{topic}' has cleanup.policy={policy}, allowed is compact: else Kafka deletes results; "
                    "change it, or name another topic"
                ) from None
    return topic_id_of(bootstrap, topic, client_options)


def _policy_of(client: AdminClient, topic: str) -> str:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = client.describe_configs([resource], request_timeout=TIMEOUT_SECONDS)[resource].result()
    return str(entries[_POLICY].value)
