"""Reads the pairs that Kafka Streams has joined."""

from uuid import uuid4

import duckdb
import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from benchmarks.paid_orders import Rows
from benchmarks.preloaded import HOUR_MILLISECONDS, PARTITIONS

_PAIR = np.dtype([("at", ">i8"), ("ordered", ">f8"), ("paid", ">f8"), ("shop", "S9")])


def read_pairs(bootstrap: str, topic: str) -> Rows:
    """All committed pairs of ``topic``, as ``true_pairs`` has them."""
    settings = {"bootstrap.servers": bootstrap, "group.id": f"pairs-{uuid4()}", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    values: list[bytes] = []
    ended: set[int | None] = set()
    try:
        while len(ended) < PARTITIONS:
            for message in consumer.consume(10_000, timeout=1):
                error = message.error()
                if error is None:
                    values.append(message.value() or b"")
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    raise AssertionError(str(error))
    finally:
        consumer.close()
    found = np.frombuffer(b"".join(values), _PAIR)
    pairs = {name: found[name].astype(found[name].dtype.newbyteorder("=")) for name in ("at", "ordered", "paid")}
    pairs["shop"] = found["shop"].astype(str)
    with duckdb.connect() as connection:
        connection.register("pairs", pairs)
        return connection.sql(
            f'SELECT "at" // {HOUR_MILLISECONDS} * {HOUR_MILLISECONDS}, shop, count(*), sum(ordered), sum(paid) '
            "FROM pairs GROUP BY ALL ORDER BY ALL"
        ).fetchall()
