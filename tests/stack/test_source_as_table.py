"""A lookup over a source (KTable): both layers meet the rows of its records, also of late ones and of tombstones."""

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

import serving_layer
from batch_layer.plan import plan
from hourline import Project
from hourline_core.lookups.refresh import read_rows, read_state
from hourline_core.model.hours import iso_text
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject

pytestmark = pytest.mark.heavy

BASE = datetime(2026, 3, 2, 8, tzinfo=UTC)
HOURS = 5
FILES = {
    "hourline.yaml": 'kafka: {bootstrap: "${KAFKA}"}\nspark: {master: "local[2]"}\n',
    "sources/prices.yaml": """
        topic: NAME_prices
        partitions: 2
        key_type: string
        fields: {price: long, at: timestamp}
        event_time: TIME
        """,
    "sources/orders.yaml": """
        topic: NAME_orders
        fields: {product: string, at: timestamp}
        event_time: at
        grace: 0s
        lookups:
          then: {lookup: price_then, key: product}
          now: {lookup: price_now, key: product}
        """,
    "lookups/price_then.yaml": """
        table: source:prices
        key: product
        columns: {product: {type: string, column: record.key}, price: long}
        valid_from: event_time
        """,
    "lookups/price_now.yaml": """
        table: source:prices
        key: product
        columns: {product: {type: string, column: record.key}, price: long}
        """,
    "metrics/spent.yaml": """
        source: orders
        measures: {orders: count, paid: sum(then.price), known: count where then.price IS NOT NULL}
        """,
    "metrics/worth.yaml": """
        source: orders
        measures: {worth: sum(now.price)}
        """,
}
PRODUCTS = ["apple", "pear", "fig"]


class Price(NamedTuple):
    """A record of the table. ``price`` is None in a tombstone."""

    product: str
    at: datetime
    price: int | None


class Order(NamedTuple):
    product: str
    at: datetime


def price_at(prices: list[Price], product: str, time: datetime | None) -> int | None:
    """The price that is valid at ``time``, or now. ``prices`` are in the order in which they were sent."""
    known = [price for price in prices if price.product == product and (time is None or price.at <= time)]
    newest = max(enumerate(known), key=lambda one: (one[1].at, one[0]), default=None)
    return newest and newest[1].price


def expected(prices: list[Price], orders: list[Order]) -> dict[datetime, tuple[int, int | None, int, int | None]]:
    """By hour: orders, paid, known, worth."""
    by_hour: dict[datetime, list[Order]] = {}
    for order in orders:
        by_hour.setdefault(order.at.replace(minute=0), []).append(order)
    found = {}
    for hour, of_hour in by_hour.items():
        paid = [price for order in of_hour if (price := price_at(prices, order.product, order.at)) is not None]
        worth = [price for order in of_hour if (price := price_at(prices, order.product, None)) is not None]
        found[hour] = (len(of_hour), sum(paid) if paid else None, len(paid), sum(worth) if worth else None)
    return found


def answer(project: Project) -> dict[datetime, tuple[int, int | None, int, int | None]]:
    with serving_layer.connect(project) as connection:
        rows = connection.sql("SELECT hour, orders, paid, known, worth FROM spent JOIN worth USING (hour)").fetchall()
    return {hour: (orders, paid, known, worth) for hour, orders, paid, known, worth in rows}


def states(project: Project, metric: str) -> dict[datetime, str]:
    with serving_layer.connect(project) as connection:
        return dict(connection.sql(f"SELECT hour, state FROM hours WHERE name = '{metric}'").fetchall())


def send_prices(project: StackProject, prices: list[Price]) -> None:
    """Each in the partition of its key, so that Kafka keeps the order of a key."""
    for price in prices:
        record = {"key": price.product.encode(), "timestamp": int(price.at.timestamp() * 1000)}
        partition = PRODUCTS.index(price.product) % 2
        value = None if price.price is None else {"price": price.price, "at": iso_text(price.at)}
        if value is None:
            project.send_refused("prices", [None], partition, **record)
        else:
            project.send_records("prices", [{"body": value, **record}], partition)


def send_orders(project: StackProject, orders: list[Order]) -> None:
    project.send("orders", ({"product": order.product, "at": iso_text(order.at)} for order in orders))


@pytest.mark.long  # tests/unit/lookups/test_read_source.py has the rows, test_lookups.py a lookup in both layers.
@pytest.mark.parametrize("time", ["record.timestamp", "coalesce(at, record.timestamp)"])
def test_a_source_as_a_table_in_both_layers(time: str, kafka: str, tmp_path: Path) -> None:
    name = "".join(character for character in time if character.isalpha())
    files = {file: text.replace("NAME", name).replace("TIME", time) for file, text in FILES.items()}
    project = StackProject(write_project(tmp_path / "shop", files), kafka, {})
    chosen = random.Random(name)  # noqa: S311 (the same numbers each time)

    def moment() -> datetime:
        return BASE + timedelta(minutes=chosen.randrange(60 * HOURS))

    prices = [Price(chosen.choice(PRODUCTS), moment(), chosen.choice([None, 1, 10, 100])) for _ in range(12)]
    orders = [Order(chosen.choice([*PRODUCTS, "plum"]), moment()) for _ in range(60)]
    orders.append(Order("apple", BASE + timedelta(hours=HOURS)))
    last = orders[-1].at
    send_prices(project, prices)
    project.drain()
    send_orders(project, orders)
    project.drain()
    assert answer(project.project) == expected(prices, orders), "provisional"

    project.recompute()
    project.command("lookups", "--refresh")
    assert {state for hour, state in states(project.project, "spent").items() if hour < last} == {"final"}

    # One row more in the middle of the past, and a product that is no more.
    late = Price("pear", BASE + timedelta(minutes=90), 1000)
    gone = Price("fig", BASE + timedelta(hours=HOURS - 1), None)
    before = expected(prices, orders)
    prices += [late, gone]
    send_prices(project, [late, gone])
    project.drain()
    project.command("lookups", "--refresh")
    now = expected(prices, orders)
    touched = {hour for hour in now if hour < last and now[hour][:3] != before[hour][:3]}
    assert touched
    assert {hour for hour, state in states(project.project, "spent").items() if state == "stale"} == touched
    assert {(one.hour, one.reason) for one in plan(project.project) if one.metric == "spent"} == {
        (hour, "lookup price_then changed") for hour in touched
    }
    project.recompute()
    assert {hour: row for hour, row in answer(project.project).items() if hour < last} == {
        hour: row for hour, row in now.items() if hour < last
    }
    check_read_again(project, files, tmp_path)


def check_read_again(project: StackProject, files: Mapping[str, str], folder: Path) -> None:
    """The rows stay when the source is read again, and are of its new declaration when that has changed."""
    lookup = project.project.lookups["price_now"]
    rows = read_rows(project.project, lookup).rows
    project.command("reset", "prices", "--to", "earliest", "--yes")
    project.drain()
    assert read_rows(project.project, lookup).rows == rows

    # A field that is declared now is read from the bytes of the records, or the lookup says why it cannot be.
    changed = files["sources/prices.yaml"].replace("price: long", "price: long, cost: {type: double, key: price}")
    columns = files["lookups/price_now.yaml"].replace("price: long", "price: long, cost: double")
    needs_spark = "coalesce" in changed
    write_project(
        project.root, {"sources/prices.yaml": changed, **({} if needs_spark else {"lookups/price_now.yaml": columns})}
    )
    project = project.copy(folder)
    project.drain()
    lookup = project.project.lookups["price_now"]
    state = read_state(project.project, lookup)
    assert state.version
    if needs_spark:
        assert "field 'cost' is declared" in (state.problem or "")
        assert "only Spark can decode them anew" in (state.problem or "")
        assert state.version.rows == rows.num_rows
    else:
        costs = read_rows(project.project, lookup).rows
        assert costs["cost"].to_pylist() == [float(price) for price in costs["price"].to_pylist()]
        assert costs.drop_columns("cost") == rows
