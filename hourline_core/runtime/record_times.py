"""Looks up when single records were sent, by Kafka's timestamps of them."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from hourline_core.errors import BrokerError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def record_times(
    bootstrap: str, topic: str, offsets: Mapping[int, int], client_options: Mapping[str, str], seconds: float
) -> dict[int, datetime]:
    """By partition, Kafka's timestamp (UTC) of the first record at or after an offset, also of one whose transaction is
    open. A partition without such a record, or whose record has not come within ``seconds``, is absent.

    Raises BrokerError when the client refuses its options.
    """
    settings: dict[str, object] = {
        **client_options,
        "bootstrap.servers": bootstrap,
        "group.id": "hourline",  # The client wants one. Nothing is committed to it.
        "enable.auto.commit": False,
        "isolation.level": "read_uncommitted",
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "queued.min.messages": 1,
        "fetch.message.max.bytes": 64 * 1024,
        "log_level": 0,
    }
    found: dict[int, datetime] = {}
    waiting = set(offsets)
    deadline = time.monotonic() + seconds
    try:
        consumer = Consumer(settings)
    except KafkaException as error:
        raise BrokerError(
            f"Kafka's client refuses its options: {error.args[0].str()}; change kafka.options in hourline.yaml"
        ) from error
    try:
        consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in offsets.items()])
        while waiting and (left := deadline - time.monotonic()) > 0:
            message = consumer.poll(left)
            if message is None or (partition := message.partition()) not in waiting:
                continue
            if (failed := message.error()) is None:
                found[partition] = _EPOCH + timedelta(milliseconds=message.timestamp()[1])
            if failed is None or failed.code() == KafkaError._PARTITION_EOF:
                waiting.discard(partition)
    finally:
        consumer.close()
    return found
