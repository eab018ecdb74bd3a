"""Reads the results that were sent to a topic as JSON, by Hourline or by Kafka Streams."""

import json
from uuid import uuid4

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from benchmarks.preloaded import PARTITIONS

Results = dict[tuple[str, str], tuple[int, int, int]]
"""By start of the hour (ISO text) and shop: orders, takings and dearest."""


def read_updates(bootstrap: str, topic: str) -> tuple[int, Results]:
    """The number of committed records of ``topic``, and the newest results in it."""
    settings = {"bootstrap.servers": bootstrap, "group.id": f"updates-{uuid4()}", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    count = 0
    newest: dict[bytes, bytes] = {}
    ended: set[int | None] = set()
    try:
        while len(ended) < PARTITIONS:
            for message in consumer.consume(10_000, timeout=1):
                error, key = message.error(), message.key()
                if error is None:
                    assert isinstance(key, bytes)
                    newest[key] = message.value() or b""
                    count += 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    raise AssertionError(str(error))
    finally:
        consumer.close()
    found: Results = {}
    for key, value in newest.items():
        of, sums = json.loads(key), json.loads(value)
        found[of["window_start"], of["shop"]] = (sums["orders"], sums["takings"], sums["dearest"])
    return count, found
