"""Orders and their payments, each in a topic of its own, and a project that joins them."""

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from confluent_kafka import Producer

from benchmarks.preloaded import FIRST, HOUR_MILLISECONDS
from benchmarks.project_files import write_files
from hourline import Project
from serving_layer import connect

ORDERS, PAYMENTS, PAID = "orders", "payments", "paid"
HOURS = 24
"""The time of the orders. Those that are paid later belong to the next hour."""
_MINUTE = 60_000
_FILES = {
    "sources/orders.yaml": """\
topic: orders
partitions: 4
fields: {number: string, at: long, shop: string, product: string, quantity: int, amount: double, agent: string}
event_time: {expression: at, encoding: epoch_milliseconds}
""",
    "sources/payments.yaml": """\
topic: payments
partitions: 4
fields: {number: string, at: long, method: string, amount: double, reference: string}
event_time: {expression: at, encoding: epoch_milliseconds}
""",
    "metrics/turnover.yaml": """\
source: paid
dimensions: {shop: orders_shop}
measures: {pairs: count, ordered: sum(orders_amount), paid: sum(payments_amount)}
""",
}

Rows = list[tuple[int, str, int, float, float]]
"""Hour (ms), shop, pairs, the sums of both amounts; sorted."""


def write_project(folder: Path, kafka: str, within: str) -> Path:
    """Write a project with ``kafka`` as its setting, and return its folder. A payment is up to ``within`` later than
    its order.
    """
    joined = f"join: {{left: orders, right: payments, on: number, within: {{after: {within}}}}}\n"
    files = {"hourline.yaml": f"name: paid\nkafka: {kafka}\n", "sources/paid.yaml": joined}
    return write_files(folder, {**files, **_FILES})


def make_orders(count: int) -> pa.Table:
    """``count`` orders over HOURS, in the order of their times. Amounts are quarters, so their sums are exact."""
    random = np.random.default_rng(1)
    number = np.arange(count)
    return pa.table(
        {
            "number": number,
            "at": FIRST + number * (HOURS * HOUR_MILLISECONDS) // count,
            "shop": random.integers(0, 500, count),
            "amount": random.integers(1, 40_000, count) / 4,
        }
    )


def pay(orders: pa.Table, minutes: int) -> pa.Table:
    """A payment for each of ``orders``, in the order of their times. Each is less than ``minutes`` after its order."""
    random = np.random.default_rng(2)
    count = len(orders)
    return pa.table(
        {
            "number": orders["number"],
            "at": orders["at"].to_numpy() + random.integers(0, minutes * _MINUTE, count),
            "amount": random.integers(1, 40_000, count) / 4,
        }
    ).sort_by([("at", "ascending")])


def produce_orders(producer: Producer, orders: pa.Table) -> None:
    """Send ``orders``, with their numbers as keys."""
    for number, at, shop, amount in zip(*(column.to_pylist() for column in orders.columns), strict=True):
        value = (
            f'{{"number": "order-{number:08d}", "at": {at}, "shop": "shop-{shop:04d}", '
            f'"product": "product-{number % 999:04d}", "quantity": {number % 9 + 1}, "amount": {amount}, '
            '"agent": "Mozilla/5.0 (X11; Linux x86_64)"}'
        )
        _produce(producer, ORDERS, number, value)


def produce_payments(producer: Producer, payments: pa.Table) -> None:
    """Send ``payments``, with the numbers of their orders as keys."""
    for number, at, amount in zip(*(column.to_pylist() for column in payments.columns), strict=True):
        value = (
            f'{{"number": "order-{number:08d}", "at": {at}, "method": "card", "amount": {amount}, '
            f'"reference": "payment {number * 7919:012d}"}}'
        )
        _produce(producer, PAYMENTS, number, value)


def _produce(producer: Producer, topic: str, number: int, value: str) -> None:
    while True:
        try:
            producer.produce(topic, value, key=f"order-{number:08d}")
            return
        except BufferError:  # it holds as many as it may
            producer.poll(0.1)


def true_pairs(orders: pa.Table, payments: pa.Table) -> Rows:
    """DuckDB's answer over all ``payments``, each of which has one of ``orders``."""
    with duckdb.connect() as connection:
        connection.register("orders", orders)
        connection.register("payments", payments)
        return connection.sql(
            f"SELECT p.at // {HOUR_MILLISECONDS} * {HOUR_MILLISECONDS}, printf('shop-%04d', shop), count(*), "
            "sum(o.amount), sum(p.amount) FROM payments p JOIN orders o USING (number) GROUP BY ALL ORDER BY ALL"
        ).fetchall()


def found_pairs(project: Project | Path) -> Rows:
    """The same of the project's metric."""
    with connect(project) as connection:
        return connection.sql("SELECT epoch_ms(hour), shop, pairs, ordered, paid FROM turnover ORDER BY ALL").fetchall()
