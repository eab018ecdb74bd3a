"""A project whose sources go the different ways of a record in Spark: an id with duplicates, a class of the user's, and
records that become several events. Declared twice, in YAML and, for the oracle, in Python.
"""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.support.oracle import Body, MetricRule, SourceRule
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject
from tests.support.user_classes import SPREAD

BEGIN = datetime(2024, 5, 6, 20, tzinfo=UTC)
HOURS = 3

_FILES = {
    "hourline.yaml": """\
        name: TOPIC
        kafka: {bootstrap: "${KAFKA}"}
        spark:
          master: "${SPARK_MASTER:local[2]}"
          config:
            spark.executorEnv.HOURLINE_FAILPOINT: "${WORKER_FAILPOINT:none}"
            spark.executorEnv.HOURLINE_FAILPOINT_FIRED: "${WORKER_FAILPOINT_FIRED:none}"
        speed: {max_records_per_batch: RECORDS_PER_BATCH}
        """,
    "sources/visits.yaml": """\
        topic: TOPIC_visits
        fields: {visit: string, shop: {type: string, required: true}, amount: int, at: timestamp}
        event_time: at
        id: visit
        id_horizon: 6h
        partitions: 4
        grace: 1h
        """,
    "metrics/by_shop.yaml": """\
        source: visits
        dimensions: [shop]
        measures: {visits: count, amount: sum(amount), most: max(amount), visitors: distinct(visit), spread: spread(amount)}
        """,
    "measures/spread.py": SPREAD,
    "sources/orders.yaml": """\
        topic: TOPIC_orders
        fields: {shop: string, items: "array<struct<sku: string, at: timestamp, amount: int>>"}
        explode: {item: items}
        event_time: item.at
        partitions: 4
        grace: 1h
        """,
    "metrics/by_sku.yaml": """\
        source: orders
        dimensions: {sku: item.sku, shop: shop}
        measures: {items: count, amount: sum(item.amount)}
        """,
}

_GARBAGE = [b"{", None, b"", b"[]", b'{"shop": null, "at": "2024-05-06T20:00:00Z"}']


def make(root: Path, kafka: str, topic: str, records_per_batch: int) -> StackProject:
    """The project in ``root``. Its topics begin with ``topic``."""
    files = {
        name: text.replace("TOPIC_", f"{topic}_")
        .replace("name: TOPIC", f"name: {topic}")
        .replace("RECORDS_PER_BATCH", str(records_per_batch))
        for name, text in _FILES.items()
    }
    return StackProject(write_project(root, files), kafka, {"visits": _visits(), "orders": _orders()})


def send(project: StackProject, visits: int, orders: int) -> None:
    """Send this number of records. One visit in ten is a duplicate of an earlier one."""
    rand, sent = project.random, list[Body]()
    for _ in range(visits):
        sent.append(rand.choice(sent) if sent and rand.random() < 0.1 else _visit(rand))
    project.send("visits", sent)
    project.send_refused("visits", _GARBAGE)
    project.send("orders", (_order(rand) for _ in range(orders)))


def _visits() -> SourceRule:
    measures: dict[str, tuple[str, Callable[[Body], Any]]] = {
        "visits": ("count", lambda body: 1),
        "amount": ("sum", lambda body: body["amount"]),
        "most": ("max", lambda body: body["amount"]),
        "visitors": ("distinct", lambda body: body["visit"]),
        "spread": ("variance", lambda body: body["amount"]),
    }
    return SourceRule(
        time=lambda body: datetime.fromisoformat(body["at"]),
        id=lambda body: body["visit"],
        id_horizon=timedelta(hours=6),
        metrics={"by_shop": MetricRule(measures, {"shop": lambda body: body["shop"]})},
    )


def _orders() -> SourceRule:
    measures: dict[str, tuple[str, Callable[[Body], Any]]] = {
        "items": ("count", lambda body: 1),
        "amount": ("sum", lambda body: body["item"]["amount"]),
    }
    dimensions = {"sku": lambda body: body["item"]["sku"], "shop": lambda body: body["shop"]}
    return SourceRule(
        time=lambda body: datetime.fromisoformat(body["item"]["at"]),
        explode=lambda body: [{**body, "item": item} for item in body["items"]],
        metrics={"by_sku": MetricRule(measures, dimensions)},
    )


def _visit(rand: random.Random) -> Body:
    return {
        "visit": f"v{rand.randrange(10**9)}",
        "shop": rand.choice(["north", "south", "west"]),
        "amount": rand.choice([None, rand.randrange(1000)]),
        "at": _moment(rand),
    }


def _order(rand: random.Random) -> Body:
    items = [
        {"sku": rand.choice(["a", "b", None]), "at": _moment(rand), "amount": rand.randrange(9)}
        for _ in range(rand.randrange(4))
    ]
    return {"shop": rand.choice(["north", "south"]), "items": items}


def _moment(rand: random.Random) -> str:
    return f"{BEGIN + timedelta(seconds=rand.randrange(HOURS * 3600)):%Y-%m-%dT%H:%M:%S}+00:00"
