"""Orders for a topic: JSON of about 200 bytes, sorted by time, with the shop as key."""

import numpy as np
import pyarrow as pa
from confluent_kafka import Producer

from hourline_core.runtime.topics import ensure_topic

PARTITIONS = 4
FIRST = 1_700_000_000_000
"""Milliseconds since 1970."""
HOUR_MILLISECONDS = 3_600_000
_CHANNELS = ["web", "app", "shop", "phone"]

FIELDS = (
    "{id: string, at: long, shop: string, channel: string, product: string, customer: long, quantity: int, "
    "amount: double, agent: string}"
)
"""The declaration of the fields in a source."""


def orders(count: int, hours: int = 3) -> pa.Table:
    """``count`` orders over so many hours. Amounts are quarters, so their sums are exact in any order."""
    random = np.random.default_rng(1)
    shops, products = (pa.array([f"{kind}-{number:04d}" for number in range(1000)]) for kind in ("shop", "product"))
    number = np.arange(count)
    columns = {
        "at": FIRST + number * (hours * HOUR_MILLISECONDS) // count,
        "shop": shops.take(pa.array(random.integers(0, 500, count))),
        "channel": pa.array(_CHANNELS).take(pa.array(random.integers(0, len(_CHANNELS), count))),
        "product": products.take(pa.array(random.integers(0, 1000, count))),
        "customer": random.integers(0, 1_000_000, count),
        "quantity": pa.array(random.integers(1, 100, count), pa.int32()),
        "amount": random.integers(1, 40_000, count) / 4,
    }
    return pa.table(columns)


def fill(bootstrap: str, topic: str, table: pa.Table) -> None:
    """Create the topic, and send the orders to it."""
    ensure_topic(bootstrap, topic, PARTITIONS, {})
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
    for batch in table.to_batches(max_chunksize=50_000):
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        for number, (at, shop, channel, product, customer, quantity, amount) in enumerate(rows):
            producer.produce(
                topic,
                f'{{"id": "order-{at}-{number:05d}", "at": {at}, "shop": "{shop}", "channel": "{channel}", '
                f'"product": "{product}", "customer": {customer}, "quantity": {quantity}, "amount": {amount}, '
                f'"agent": "Mozilla/5.0 (X11; Linux x86_64)"}}',
                key=shop,
            )
        producer.flush()
