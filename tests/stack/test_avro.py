"""Records in Avro: both layers agree with the oracle, malformed ones are kept with their reason, and fields that are
declared later count in all of history.
"""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import serving_layer
from hourline import load_project
from tests.support.avro import write_avro
from tests.support.oracle import MetricRule, SourceRule
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject

SCHEMA = """{"type": "record", "name": "Order", "fields": [
  {"name": "id", "type": "string"},
  {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
  {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["new", "paid"]}},
  {"name": "amount", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
  {"name": "address", "type": {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}}
]}"""
FILES = {
    "hourline.yaml": 'kafka: {bootstrap: "${KAFKA}"}\nspark: {master: "local[2]"}\n',
    "schemas/order.avsc": SCHEMA,
    "sources/orders.yaml": """\
        topic: avro_orders
        format: {avro: {schema: order.avsc}}
        fields: {id: string, at: timestamp, address: "struct<city: string>"}
        event_time: at
        id: id
        partitions: 2
        """,
    "metrics/cities.yaml": "source: orders\ndimensions: {city: address.city}\nmeasures: {orders: count}\n",
}
LATER = {
    **FILES,
    "sources/orders.yaml": "topic: avro_orders\nformat: {avro: {schema: order.avsc}}\nevent_time: at\nid: id\npartitions: 2\n",
    "tests/one.yaml": """\
        given:
          - {id: a, at: 2026-03-01T08:00:00Z, status: paid, amount: 1.50, address: {city: Bonn}}
        expect:
          cities:
            - {hour: 2026-03-01T08:00:00Z, city: Bonn, status: paid, orders: 1, amount: 1.50}
        """,
    "metrics/cities.yaml": "source: orders\ndimensions: {city: address.city, status: status}\n"
    "measures: {orders: count, amount: sum(amount)}\n",
}
RULE = SourceRule(
    time=lambda body: datetime.fromisoformat(body["at"]),
    id=lambda body: body["id"],
    metrics={
        "cities": MetricRule(
            dimensions={"city": lambda body: body["city"]}, measures={"orders": ("count", lambda body: 1)}
        )
    },
)
FIRST = datetime(2026, 3, 1, 8, tzinfo=UTC)


def order(number: int) -> dict[str, Any]:
    at = FIRST + timedelta(minutes=7 * number, microseconds=number)
    amount = None if number % 5 == 0 else f"{number}.25"
    status = ("new", "paid")[number % 2]
    city = ("Köln", "Bonn")[number % 3 == 0]
    return {"id": f"o{number}", "at": at.isoformat(), "city": city, "amount": amount, "status": status}


def encode(body: dict[str, Any]) -> bytes:
    amount = None if body["amount"] is None else Decimal(body["amount"])
    at = datetime.fromisoformat(body["at"])
    return write_avro(json.loads(SCHEMA), {**body, "at": at, "amount": amount, "address": {"city": body["city"]}})


@pytest.mark.long  # test_schema_registry.py reads Avro in CI, and test_decoding_anew.py decodes anew.
def test_records_in_avro_count_in_both_layers_and_are_decoded_anew(kafka: str, tmp_path: Path) -> None:
    project = StackProject(write_project(tmp_path, FILES), kafka, {"orders": RULE}, encode)
    orders = [order(number) for number in range(40)]
    whole = encode(orders[0])
    bad = {
        whole[:-1]: "invalid Avro in 'address.city': got the end of the bytes",
        whole + b"\x00": "1 bytes behind the end of the record",
        b'{"id": "o1"}': "invalid Avro in 'id'",
        b"": "empty value",
    }
    project.send("orders", [*orders[:20], *orders[:3]])
    project.send_refused("orders", [*bad, None])
    project.send("orders", orders[20:])
    project.drain()
    assert project.check() > 10
    kept = {row["value"]: row["reason"] for row in project.table("rejected", "orders") if row["reason"]}
    assert kept.keys() == bad.keys()
    assert {value: reason for value, reason in kept.items() if bad[value] not in reason} == {}
    project.recompute()
    project.check()

    write_project(tmp_path, LATER)
    project.project = load_project(tmp_path, {"KAFKA": kafka})
    assert "1 passed" in project.command("test")
    project.drain()
    project.command("recompute", "--from=2026-03-01T08", "--to=2026-03-01T14", "--include-open")
    with serving_layer.connect(project.project) as connection:
        answer = connection.sql(
            "SELECT city, status, sum(orders)::INT, sum(amount) FROM cities WHERE state = 'final' GROUP BY ALL"
        ).fetchall()
    expected: dict[tuple[str, str], tuple[int, Decimal | None]] = {}
    for body in orders:
        count, amount = expected.get((body["city"], body["status"]), (0, None))
        more = Decimal(body["amount"]) if body["amount"] else None
        total = more if amount is None else amount + (more or 0)
        expected[body["city"], body["status"]] = (count + 1, total)
    assert {(city, status): (count, amount) for city, status, count, amount in answer} == expected
