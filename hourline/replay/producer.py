"""The Kafka producer of a replay."""

from collections.abc import Mapping
from typing import Literal

from confluent_kafka import KafkaError, KafkaException, Producer

from hourline_core.errors import BrokerError, did_you_mean
from hourline_core.runtime.kafka_admin import SILENT, broker_error

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]

_REACHED_WITHIN_SECONDS = 10
_DELIVERED_WITHIN_SECONDS = 30


def connect(
    bootstrap: str,
    topic: str,
    client_options: Mapping[str, str],
    compression: Compression,
    transactional_id: str | None = None,
) -> Producer:
    """An idempotent producer that waits for all in-sync replicas, and gives a record up after 30 s. With a
    ``transactional_id``, it is ready for transactions.

    ``client_options`` are those of librdkafka. Raises BrokerError within 10 s when Kafka does not answer or has no such
    topic.
    """
    # The client reports only here why it cannot connect, such as a wrong password. The call itself just times out.
    reported: list[KafkaError] = []
    settings: dict[str, object] = {
        **client_options,
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "acks": "all",
        "compression.type": compression,
        "linger.ms": 20,
        "message.timeout.ms": _DELIVERED_WITHIN_SECONDS * 1000,
        # Its own log would disturb the progress bar. Important messages also arrive as errors.
        "log_level": 0,
        "error_cb": reported.append,
    }
    if transactional_id is not None:
        settings["transactional.id"] = transactional_id
    try:
        producer = Producer(settings, logger=SILENT)
    except KafkaException as error:
        raise error_of(error.args[0], reported, bootstrap, topic, _REACHED_WITHIN_SECONDS) from error
    try:
        # Lists all topics, since a request for one topic may create it.
        topics = producer.list_topics(timeout=_REACHED_WITHIN_SECONDS).topics
    except KafkaException as error:
        producer.poll(0)  # fills `reported`
        raise error_of(error.args[0], reported, bootstrap, topic, _REACHED_WITHIN_SECONDS) from error
    if topic not in topics:
        theirs = [name for name in topics if not name.startswith("__")]
        raise BrokerError(
            f"Kafka at {bootstrap} has no topic '{topic}', or does not show it to you{did_you_mean(topic, theirs)}"
        )
    if transactional_id is not None:
        try:
            producer.init_transactions(_DELIVERED_WITHIN_SECONDS)
        except KafkaException as error:
            raise error_of(error.args[0], reported, bootstrap, topic, _DELIVERED_WITHIN_SECONDS) from error
    return producer


def error_of(error: KafkaError, reported: list[KafkaError], bootstrap: str, topic: str, seconds: float) -> BrokerError:
    """The error of sending to ``topic``. ``reported`` is what the client has reported."""
    return broker_error(error, reported, bootstrap, f"send to topic '{topic}'", seconds, "WRITE")
