"""A compacted topic: of each key, Kafka keeps the newest record at least."""

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka.admin import ConfigEntry, ConfigResource, ResourceType  # type: ignore[attr-defined] # not in strict mypy's way

from hourline_core.errors import SinkError
from hourline_core.runtime.kafka_admin import TIMEOUT_SECONDS, admin
from hourline_core.runtime.topics import ensure_topic, retry


@dataclass(frozen=True)
class CompactedTopic:
    """A topic that is there."""

    id: str
    """As Kafka's own tools print it."""
    most_bytes: int
    """The maximum size of the records that are sent to it at once."""


def ensure_compacted_topic(
    bootstrap: str, topic: str, partitions: int, client_options: Mapping[str, str]
) -> CompactedTopic:
    """Create ``topic`` if it is missing. Raises BrokerError, and SinkError if it is there and is not compacted: then
    Kafka may delete the newest record of a key.
    """
    topic_id = ensure_topic(bootstrap, topic, partitions, client_options, compacted=True)
    with admin(bootstrap, client_options, f"tell how topic '{topic}' is kept", right="DESCRIBE_CONFIGS") as client:
        resource = ConfigResource(ResourceType.TOPIC, topic)

        def ask() -> dict[str, ConfigEntry]:
            found: dict[str, ConfigEntry] = client.describe_configs([resource], request_timeout=TIMEOUT_SECONDS)[
                resource
            ].result()
            return found

        config = retry(ask)
    policy = config["cleanup.policy"].value
    if policy != "compact":
        raise SinkError(
            f"topic '{topic}' has cleanup.policy={policy}, allowed is compact: else Kafka deletes results; change it, "
            "or name another topic"
        )
    return CompactedTopic(topic_id, int(config["max.message.bytes"].value or 0))
