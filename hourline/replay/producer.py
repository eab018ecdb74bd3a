"""The Kafka producer of a replay."""

from collections.abc import Mapping
from typing import Literal

from confluent_kafka import KafkaError, KafkaException, Producer

from hourline_core.errors import BrokerError, did_you_mean

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]

_REACHED_WITHIN_SECONDS = 10
_DELIVERED_WITHIN_SECONDS = 30


def connect(bootstrap: str, topic: str, client_options: Mapping[str, str], compression: Compression) -> Producer:
    """An idempotent producer that waits for all in-sync replicas and gives a record up after 30 s; its broker answers,
    and has the topic.

    ``client_options`` are librdkafka's own. Raises BrokerError otherwise, within 10 s.
    """
    said: list[
        KafkaError
    ] = []  # why it cannot connect (a wrong password, say) is told here only; a call then just times out
    settings: dict[str, object] = {
        **client_options,
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "acks": "all",
        "compression.type": compression,
        "linger.ms": 20,
        "message.timeout.ms": _DELIVERED_WITHIN_SECONDS * 1000,
        # Its own log would run through the progress bar; what matters in it comes as errors too.
        "log_level": 0,
        "error_cb": said.append,
    }
    try:
        producer = Producer(settings)
    except KafkaException as error:
        raise BrokerError(
            f"Kafka's client refuses its options: {error.args[0].str()}; change kafka.options in hourline.yaml"
        ) from error
    try:
        # Asked for all topics, since asking for one may create it.
        topics = producer.list_topics(timeout=_REACHED_WITHIN_SECONDS).topics
    except KafkaException as error:
        producer.poll(0)  # fills `said`
        telling = [one for one in said if one.code() != KafkaError._ALL_BROKERS_DOWN]
        reason = (telling[-1] if telling else error.args[0]).str()
        raise BrokerError(
            f"Kafka at {bootstrap} cannot be reached to replay to topic '{topic}': {reason}; "
            "start it, or change kafka.bootstrap and kafka.options in hourline.yaml"
        ) from error
    if topic not in topics:
        theirs = [name for name in topics if not name.startswith("__")]
        raise BrokerError(
            f"Kafka at {bootstrap} has no topic '{topic}', or does not show it to you{did_you_mean(topic, theirs)}"
        )
    return producer
