"""A stream of numbered orders, and a project that counts them, for benchmarks of the running speed layer."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import duckdb
from confluent_kafka import Producer

from benchmarks.project_files import write_files
from hourline import Project, load_project

SHOPS, CUSTOMERS = 20, 500
HOUR_MILLISECONDS = 3_600_000

_SETTINGS = """\
name: orders
kafka: {{bootstrap: "{bootstrap}"}}
speed: {{max_records_per_batch: {most}}}
"""
_SOURCE = """\
topic: {topic}
fields: {{shop: string, customer: long, amount: long, at: long}}
event_time: {{expression: at, encoding: epoch_milliseconds}}
"""
METRICS = {
    "turnover": "{orders: count, takings: sum(amount)}",
    "prices": "{cheapest: min(amount), dearest: max(amount), usual: mean(amount)}",
    "visitors": "{customers: distinct(customer)}",
}


def make_project(
    folder: Path, bootstrap: str, topic: str, metrics: Iterable[str] = METRICS, most: int = 100_000
) -> Project:
    """A project in ``folder`` with some of METRICS, by hour and shop, and at most ``most`` records per micro-batch."""
    files = {
        "hourline.yaml": _SETTINGS.format(bootstrap=bootstrap, most=most),
        "sources/orders.yaml": _SOURCE.format(topic=topic),
    }
    files |= {
        f"metrics/{name}.yaml": f"source: orders\ndimensions: {{shop: shop}}\nmeasures: {METRICS[name]}\n"
        for name in metrics
    }
    return load_project(write_files(folder, files))


def order(number: int, at: int) -> bytes:
    """The order with this number and the time ``at`` (milliseconds since 1970)."""
    return b'{"shop":"shop %02d","customer":%d,"amount":%d,"at":%d}' % (
        number % SHOPS,
        _customer(number),
        _amount(number),
        at,
    )


def fill(bootstrap: str, topic: str, times: Iterable[int]) -> None:
    """Produce an order at each of ``times``, numbered from 0."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50})
    for number, at in enumerate(times):
        producer.produce(topic, order(number, at))
        if number % 10_000 == 0:
            producer.flush()
    producer.flush()


def turnover(times: Iterable[int]) -> list[tuple[int, str, int, int]]:
    """What the metric ``turnover`` must be of orders of these times, by plain Python: hour (its number since 1970),
    shop, orders, takings; sorted.
    """
    sums: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    for number, at in enumerate(times):
        counted = sums[at // HOUR_MILLISECONDS, number % SHOPS]
        counted[0] += 1
        counted[1] += _amount(number)
    return [(hour, f"shop {shop:02}", orders, takings) for (hour, shop), (orders, takings) in sorted(sums.items())]


def turnover_of(connection: duckdb.DuckDBPyConnection, table: str) -> list[tuple[int, str, int, int]]:
    """The same from ``table`` (hour, shop, orders, takings). Several rows of a group are added up."""
    return connection.sql(
        "SELECT epoch(hour)::BIGINT // 3600 AS h, shop, sum(orders)::BIGINT, sum(takings)::BIGINT "
        f"FROM {table} GROUP BY ALL ORDER BY h, shop"
    ).fetchall()


def _customer(number: int) -> int:
    return number // SHOPS % CUSTOMERS


def _amount(number: int) -> int:
    return number * 7919 % 1000
