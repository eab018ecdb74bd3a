"""Records that become several events: each event has its own time and id, counts once, and is rejected alone."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import serving_layer
from hourline import load_project
from hourline_core.compute.check import find_unresolved
from hourline_core.runtime.spark import spark_session
from serving_layer.reports.lineage import explain_number
from speed_layer.import_files import find_history, import_files
from speed_layer.spark_session import speed_session
from tests.support.observed import drain
from tests.support.oracle import Body, MetricRule, SourceRule
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject

pytestmark = pytest.mark.heavy

START = datetime(2024, 5, 6, 20, tzinfo=UTC)
FILES = {
    "hourline.yaml": """\
        kafka: {bootstrap: "${KAFKA}"}
        spark: {master: "local[2]"}
        speed: {max_records_per_batch: 60}
        """,
    # `place` is a name that Hourline uses itself; a field may have it all the same.
    "sources/orders.yaml": """\
        topic: exploded_orders
        fields:
          number: {type: int, required: true}
          place: string
          items: "array<struct<sku: string, at: string, price: decimal(10,2), amount: int>>"
        explode: {item: items}
        event_time: item.at
        id: concat_ws('/', number, item.sku)
        id_horizon: 2h
        derived: {total: item.price * item.amount}
        where: place is null or place <> 'TEST'
        expectations:
          - expect_column_values_to_be_between: {column: number, min_value: 0}
        partitions: 2
        """,
    "metrics/sales.yaml": """\
        source: orders
        dimensions: {sku: item.sku, place: place, is_first: record.place = 0}
        measures: {items: count, turnover: sum(total), orders: distinct(number), last: max(record.place)}
        """,
    "metrics/prices.yaml": """\
        source: orders
        where: item.amount > 1
        measures: {items: count, dearest: max(item.price), least: min(item.amount)}
        """,
}


def items(body: Body) -> list[Body | None]:
    """The events of an order. An item without a time that can be read is rejected."""
    return [
        {**body, "item": item, "at": place} if item and item["at"] and item["at"].startswith("2024-05") else None
        for place, item in enumerate(body["items"] or [])
    ]


def total(body: Body) -> float | None:
    price, amount = body["item"]["price"], body["item"]["amount"]
    return None if price is None or amount is None else price * amount


ORDERS = SourceRule(
    time=lambda b: datetime.fromisoformat(b["item"]["at"]).astimezone(UTC),
    explode=items,
    id=lambda b: f"{b['number']}/{b['item']['sku']}" if b["item"]["sku"] else str(b["number"]),
    id_horizon=timedelta(hours=2),
    where=lambda b: b["place"] != "TEST",
    metrics={
        "sales": MetricRule(
            dimensions={
                "sku": lambda b: b["item"]["sku"],
                "place": lambda b: b["place"],
                "is_first": lambda b: b["at"] == 0,
            },
            measures={
                "items": ("count", lambda b: 1),
                "turnover": ("sum", total),
                "orders": ("distinct", lambda b: b["number"]),
                "last": ("max", lambda b: b["at"]),
            },
        ),
        "prices": MetricRule(
            where=lambda b: b["item"]["amount"] is not None and b["item"]["amount"] > 1,
            measures={
                "items": ("count", lambda b: 1),
                "dearest": ("max", lambda b: b["item"]["price"]),
                "least": ("min", lambda b: b["item"]["amount"]),
            },
        ),
    },
)
GARBAGE: list[bytes | None] = [
    b"{",
    b"",
    b"[]",
    None,
    b'{"items": [{"at": "2024-05-06T20:00:00Z"}, {"at": "2024-05-06T21:00:00Z"}]}',  # required: number
    b'{"number": 1, "items": [{"at": "2024-05-06T20:00:00Z", "amount": "many"}]}',
]


def test_what_gives_no_array_or_names_what_is_not_kept_is_refused(tmp_path: Path) -> None:
    files = {
        "hourline.yaml": "",
        "sources/maps.yaml": "topic: a\nfields: {m: 'map<string, int>', at: timestamp}\nexplode: {e: m}\nevent_time: at\n",
        "sources/texts.yaml": "topic: b\nfields: {line: string, at: timestamp}\nexplode: {word: line}\nevent_time: at\n",
        "sources/nulls.yaml": "topic: c\nfields: {at: timestamp}\nexplode: {none: array()}\nevent_time: at\n",
        "sources/random.yaml": "topic: d\nfields: {a: array<int>, at: timestamp}\nexplode: {x: shuffle(a)}\nevent_time: at\n",
        "sources/lines.yaml": """\
            topic: e
            fields: {line: string, at: timestamp}
            explode: {word: "split(line, ' ')"}
            event_time: at
            """,
        "sources/moments.yaml": """\
            topic: m
            fields: {at: string}
            event_time: {expression: "to_timestamp(at, 'dd.MM.yyyy')", encoding: local, zone: Europe/Vienna}
            """,
        "metrics/lines.yaml": "source: lines\ndimensions: [word, line]\nmeasures: {n: count}\n",
    }
    project = load_project(write_project(tmp_path, files))
    spark = spark_session(project, "check", brief=True)
    try:
        found = sorted(find_unresolved(spark, project))
    finally:
        spark.stop()
    array = "allowed is an array, such as"
    assert found[1:] == [
        f"sources/maps.yaml:3: explode.e: 'm' is of type map<string,int>, {array} map_entries(m)",
        "sources/moments.yaml:3: event_time: 'to_timestamp(at, 'dd.MM.yyyy')' is of type timestamp; encoding local reads "
        "text, or a timestamp_ntz, such as to_timestamp_ntz(sent, 'dd.MM.yyyy HH:mm:ss') gives",
        "sources/nulls.yaml:3: explode.none: its elements have the type void, which is not archived; cast them",
        "sources/random.yaml:3: explode.x: 'shuffle' gives another value each time, so a recompute would differ from the "
        "stream; use the event's own fields",
        f"sources/texts.yaml:3: explode.word: 'line' is of type string, {array} split(line, ' ')",
    ]
    assert found[0].startswith("metrics/lines.yaml:2: dimensions.line: ")
    assert found[0].endswith(
        "explode reads 'line', so events do not keep it: put what you need of it into the elements"
    )


def order(rand: random.Random, first_hour: int) -> Body:
    wanted: list[Any] = [item(rand, first_hour) for _ in range(rand.randrange(5))]
    return {
        "number": rand.randrange(60),
        "place": rand.choice(["north", "south", "TEST", None]),
        "items": rand.choice([None, []]) if rand.random() < 0.1 else wanted,
    }


def item(rand: random.Random, first_hour: int) -> Body | None:
    at = START + timedelta(hours=first_hour, seconds=rand.randrange(4 * 3600))
    when = f"{at:%Y-%m-%dT%H:%M:%S}Z"
    if rand.random() < 0.15:
        return rand.choice(
            [None, *({"sku": "x", "at": bad, "price": 1.5, "amount": 1} for bad in (None, "now", "2924" + when[4:]))]
        )
    return {
        "sku": rand.choice(["a", "b", "c", None]),
        "at": when,
        "price": rand.choice([None, rand.randrange(1000) / 4]),
        "amount": rand.choice([None, 0, 1, 2, 3]),
    }


def test_each_item_of_an_order_is_an_event(kafka: str, tmp_path: Path) -> None:
    project = StackProject(write_project(tmp_path, FILES), kafka, {"orders": ORDERS})
    rand = random.Random(19)  # noqa: S311 (the same numbers each time)
    project.send("orders", [order(rand, 0) for _ in range(150)])
    project.send_refused("orders", GARBAGE)
    history = [order(rand, 0) for _ in range(30)]
    file = project.write_history(tmp_path / "orders.jsonl", "orders", [*history, b'{"number": null}', *history[:3]])
    with speed_session(project.project) as spark:
        drain(spark, project.project, kafka)
        assert project.check_answers() > 100
        source = project.project.sources["orders"]
        (imported,) = import_files(spark, project.project, source, find_history(project.project, source, [str(file)]))
    assert imported.rows == len(history) + 4
    assert project.check() > 100
    with serving_layer.connect(project.project) as connection:
        rejected = connection.sql("FROM rejected_orders").to_arrow_table().to_pylist()
    of_items = [row for row in rejected if row["reason"].startswith("event time")]
    records = {(row["topic_id"], row["partition"], row["offset"]) for row in of_items}
    assert len(records) < len(of_items)
    stored = [row for row in project.table("rejected", "orders") if (row["reason"] or "").startswith("event time")]
    assert sum(row["value"] is not None for row in stored) == len(records), "the table has them once"
    for row in of_items:
        body = json.loads(row["value"])
        assert items(body)[row["_hourline_place"]] is None, "it has the bytes of its order"
    project.recompute()
    assert project.check() > 100
    first = min(event.hour for event in project.events("orders"))
    with serving_layer.connect(project.project) as connection:
        explained = explain_number(connection, "sales", first, {"place": "north"})
    of_cell = [e for e in project.events("orders") if (e.hour, e.body["place"], e.duplicate) == (first, "north", False)]
    assert explained.events.events == len(of_cell) > 0
    assert explained.declared.explode == {"item": "items"}
