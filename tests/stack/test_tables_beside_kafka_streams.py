"""In order, snapshots of a table have the rows of Kafka Streams' tables (KTable) at each hour's end. Late records count in
their own hours, too.

The differences are by design. docs/concepts/compared-with.md has their numbers, and docs/guides/tables.md some of them.
"""

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

import serving_layer
from benchmarks.peers.streams import WITH_ROCKSDB, TableRow, Tables, join_tables
from hourline import Project
from hourline_core.model.hours import iso_text
from tests.support.kafka_streams import milliseconds, skip_without, stated_columns
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject

pytestmark = pytest.mark.long
"""test_snapshots.py and test_lookups.py show the rows of tables beside an oracle."""

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "tables.md"
BASE = datetime(2026, 3, 2, tzinfo=UTC)
HOURS, RECORDS = 12, 420
HOUR, MINUTE = timedelta(hours=1), milliseconds(timedelta(minutes=1))
ENDS = [milliseconds(BASE + (number + 1) * HOUR) for number in range(HOURS)]
ORDERS = [f"order{number}" for number in range(12)]
CUSTOMERS = [f"customer{number}" for number in range(6)]
ARRIVALS = ("punctual", "late")
KINDS = {"table": "table", "versioned": f"versioned,{milliseconds(timedelta(days=99))}"}
JOINS = ("inner", "left", "outer", "foreign_inner", "foreign_left")
OF_AN_ARRIVAL = {
    "sources/NAME_orders.yaml": """
        topic: tables_NAME_orders
        key_type: string
        fields: {status: string, customer: string}
        event_time: record.timestamp
        grace: 0s
        """,
    "sources/NAME_payments.yaml": """
        topic: tables_NAME_payments
        key_type: string
        fields: {method: string}
        event_time: record.timestamp
        grace: 0s
        """,
    "sources/NAME_customers.yaml": """
        topic: tables_NAME_customers
        key_type: string
        fields: {region: string}
        event_time: record.timestamp
        """,
    "lookups/NAME_payment.yaml": """
        table: source:NAME_payments
        key: number
        columns: {number: {type: string, column: record.key}, method: string}
        valid_from: event_time
        """,
    "lookups/NAME_buyer.yaml": """
        table: source:NAME_customers
        key: number
        columns: {number: {type: string, column: record.key}, region: string}
        valid_from: event_time
        """,
    "sources/NAME.yaml": """
        snapshot: {of: NAME_orders, columns: [status, customer]}
        grace: 0s
        lookups:
          payment: {lookup: NAME_payment, key: record_key}
          buyer: {lookup: NAME_buyer, key: customer}
        """,
    "sources/NAME_paying.yaml": """
        snapshot: {of: NAME_payments, columns: method}
        grace: 0s
        """,
    "sources/NAME_either.yaml": """
        join:
          left: {source: NAME, as: ordered}
          right: {source: NAME_paying, as: paid}
          on: record_key
          within: 0s
          type: full
        grace: 0s
        """,
    "metrics/NAME_outer.yaml": """
        source: NAME_either
        dimensions:
          number: coalesce(ordered_record_key, paid_record_key)
          ordered: ordered_record_key IS NOT NULL
          status: ordered_status
          customer: ordered_customer
          method: paid_method
        measures: {rows: count}
        """,
    "metrics/NAME_counts.yaml": """
        source: NAME
        dimensions: {status: status}
        measures: {orders: count}
        """,
    "metrics/NAME_joined.yaml": """
        source: NAME
        dimensions: {number: record_key, status: status, customer: customer, method: payment.method, region: buyer.region}
        measures:
          orders: count
          paid: count where payment.number IS NOT NULL
          bought: count where buyer.number IS NOT NULL
        """,
}
FILES = {
    "hourline.yaml": """
        kafka: {bootstrap: "${KAFKA}"}
        spark: {master: "local[2]"}
        speed: {max_records_per_batch: 60}
        """,
    **{
        file.replace("NAME", arrival): text.replace("NAME", arrival)
        for arrival in ARRIVALS
        for file, text in OF_AN_ARRIVAL.items()
    },
}


class Answers(NamedTuple):
    """What Hourline has for one arrival, at each hour's end."""

    provisional: list[Tables]
    """Before the recompute."""
    states: set[str]
    """Those of the hours before the recompute."""
    final: list[Tables]


@pytest.fixture(scope="module")
def arrivals() -> Mapping[str, Sequence[TableRow]]:
    """The same changes of three tables, in the order of their times and up to five hours late. Many times are tens of
    minutes, or a millisecond beside, so that some are those of an hour's end, and some of a key are equal.
    """
    choice = random.Random(148)  # noqa: S311 (the same each time)

    def change() -> TableRow:
        time = ENDS[0] - 60 * MINUTE + choice.randrange(HOURS * 6) * 10 * MINUTE + choice.choice([0, 0, -1, 1])
        time = max(time, milliseconds(BASE))
        deleted = choice.random() < 0.2
        if (kind := choice.random()) < 0.5:
            order = f"{choice.choice(['open', 'paid', 'sent', ''])}/{choice.choice([*CUSTOMERS, 'unknown', ''])}"
            return TableRow(choice.choice(ORDERS), None if deleted else order, time, "orders")
        if kind < 0.75:
            return TableRow(
                choice.choice(ORDERS), None if deleted else choice.choice(["card", "cash"]), time, "payments"
            )
        region = choice.choice(["north", "south", "east"])
        return TableRow(choice.choice(CUSTOMERS), None if deleted else region, time, "customers")

    changes = [change() for _ in range(RECORDS)]
    late = {id(one): choice.choice([0, 0, 0, choice.randrange(30), choice.randrange(300)]) for one in changes}
    return {
        "punctual": sorted(changes, key=lambda one: one.time),
        "late": sorted(changes, key=lambda one: one.time + late[id(one)] * MINUTE),
    }


@pytest.fixture(scope="module")
def by_kafka_streams(arrivals: Mapping[str, Sequence[TableRow]]) -> Mapping[tuple[str, str], list[Tables]]:
    """By arrival and kind of tables: what these are when the first record comes that is not before an hour's end, for
    each hour. The last one ends when all have come.
    """
    skip_without(WITH_ROCKSDB)
    cases = {
        (arrival, kind): (asked, [one for known in read_by_hour(rows) for one in (*known, None)])
        for arrival, rows in arrivals.items()
        for kind, asked in KINDS.items()
    }
    return dict(zip(cases, join_tables(list(cases.values())), strict=True))


@pytest.fixture(scope="module")
def by_hourline(
    arrivals: Mapping[str, Sequence[TableRow]], kafka: str, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Answers]:
    sent = StackProject(write_project(tmp_path_factory.mktemp("shop"), FILES), kafka, {})
    for arrival, rows in arrivals.items():
        for row in rows:
            time, value = row.time, None if row.value is None else json.dumps(body_of(row))
            sent.producer.produce(f"tables_{arrival}_{row.table}", value, row.key, partition=0, timestamp=time)
        # With these, which have no key, the clocks pass the last hour's end.
        for table, step in product(("orders", "payments"), range(6)):
            sent.producer.produce(f"tables_{arrival}_{table}", "{}", partition=0, timestamp=ENDS[-1] + step * MINUTE)
    sent.flush()
    sent.drain()
    assert sent.last_sequence("late") > 1, "all snapshots were taken in one micro-batch"
    before = {arrival: (read(sent.project, arrival), states(sent.project, arrival)) for arrival in ARRIVALS}
    sent.command("lookups", "--refresh")
    sent.recompute()
    for arrival in ARRIVALS:
        assert states(sent.project, arrival) == {"final"}
    return {arrival: Answers(*before[arrival], read(sent.project, arrival)) for arrival in ARRIVALS}


def test_in_order_both_have_the_same_rows_at_each_hours_end(
    arrivals: Mapping[str, Sequence[TableRow]],
    by_kafka_streams: Mapping[tuple[str, str], list[Tables]],
    by_hourline: Mapping[str, Answers],
) -> None:
    told = by_hourline["punctual"]
    assert told.final == [tables_of(rows_before(arrivals["punctual"], end), by_time) for end in ENDS]
    assert "stale" not in told.states
    # A row meets those of a lookup as they were refreshed last.
    for name in ("counts", "outer"):
        assert [tables[name] for tables in told.provisional] == [tables[name] for tables in told.final], name
    comparable = [of_kafka_streams(tables) for tables in told.final]
    for kind in KINDS:
        assert [of_kafka_streams(tables) for tables in by_kafka_streams["punctual", kind]] == comparable, kind


def test_hourline_counts_a_late_record_in_its_own_hours(
    arrivals: Mapping[str, Sequence[TableRow]], by_hourline: Mapping[str, Answers]
) -> None:
    told = by_hourline["late"]
    assert "stale" in told.states, "nothing came late: choose other numbers"
    assert told.final == [tables_of(rows_before(arrivals["late"], end), by_time) for end in ENDS]


@pytest.mark.parametrize("kind", KINDS)
def test_kafka_streams_has_what_has_come_by_offset_or_with_versions_by_time(
    kind: str,
    arrivals: Mapping[str, Sequence[TableRow]],
    by_kafka_streams: Mapping[tuple[str, str], list[Tables]],
) -> None:
    order = by_time if kind == "versioned" else by_offset
    known: list[TableRow] = []
    expected = []
    for rows in read_by_hour(arrivals["late"]):
        known += rows
        expected.append(of_kafka_streams(tables_of(known, order)))
    assert [of_kafka_streams(tables) for tables in by_kafka_streams["late", kind]] == expected


def test_when_all_has_come_versioned_tables_are_those_of_hourline(
    by_kafka_streams: Mapping[tuple[str, str], list[Tables]], by_hourline: Mapping[str, Answers]
) -> None:
    last = by_kafka_streams["late", "versioned"][-1]
    assert of_kafka_streams(last) == of_kafka_streams(by_hourline["late"].final[-1])


def test_the_pages_have_the_numbers_of_the_differences(
    by_kafka_streams: Mapping[tuple[str, str], list[Tables]], by_hourline: Mapping[str, Answers]
) -> None:
    final = by_hourline["late"].final
    names = {
        "counts by status": "counts",
        "rows of an inner join by the key": "inner",
        "rows of a left join by the key": "left",
        "rows of an outer join by the key": "outer",
        "rows of an inner join by a foreign key": "foreign_inner",
        "rows of a left join by a foreign key": "foreign_left",
    }
    by_offsets, by_times = (by_kafka_streams["late", kind] for kind in KINDS)
    numbers = {
        what: [
            count(final, name),
            differ(final, by_offsets, name),
            differ(final[-1:], by_offsets[-1:], name),
            differ(final, by_times, name),
        ]
        for what, name in names.items()
    }
    numbers |= {
        "counts of orders whose status is null": [sum("" in of["counts"] for of in final)],
        "counts of zero": [sum("0" in of["counts"].values() for of in by_offsets)],
    }
    assert min(number for of in numbers.values() for number in of) > 0
    assert stated_columns("Tables at each hour's end") == numbers
    (section,) = re.findall(r"^## Beside Kafka Streams\n(.*?)^## ", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
    of_hourline, in_table, _, in_versioned = numbers["counts by status"]
    assert list(map(int, re.findall(r"\d+", section))) == [in_table, of_hourline, in_versioned]


def by_time(row: TableRow) -> int:
    return row.time


def by_offset(_: TableRow) -> int:
    """Of records that are equal by this, the last to come counts."""
    return 0


def rows_before(rows: Iterable[TableRow], end: int) -> list[TableRow]:
    return [row for row in rows if row.time < end]


def read_by_hour(rows: Iterable[TableRow]) -> list[list[TableRow]]:
    """For each hour, the records that come before the first one that is not before its end, and after those of the hour
    before. The last hour has all that remain.
    """
    hours: list[list[TableRow]] = [[] for _ in ENDS]
    number = 0
    for row in rows:
        while row.time >= ENDS[number]:
            number += 1
        hours[number].append(row)
    return hours


def tables_of(rows: Iterable[TableRow], order: Callable[[TableRow], int]) -> Tables:
    """The counts of the rows that are the newest of their keys, and nested loops over them."""
    newest: dict[str, dict[str, str | None]] = {"orders": {}, "payments": {}, "customers": {}}
    for row in sorted(rows, key=order):
        newest[row.table][row.key] = row.value
    orders = {key: value for key, value in newest["orders"].items() if value}
    payments = {key: newest["payments"].get(key) for key in orders}
    buyers = {key: newest["customers"].get(value.partition("/")[2]) for key, value in orders.items()}
    found = {"counts": {key: str(count) for key, count in Counter(map(status_of, orders.values())).items()}}
    for kind, others in (("", payments), ("foreign_", buyers)):
        left = {key: f"{value}/{others[key] or ''}" for key, value in orders.items()}
        found |= {f"{kind}left": left, f"{kind}inner": {key: value for key, value in left.items() if others[key]}}
    paid_alone = {key: f"/{method}" for key, method in newest["payments"].items() if method and key not in orders}
    return found | {"outer": found["left"] | paid_alone}


def of_kafka_streams(tables: Tables) -> Tables:
    """What both can have: without the counts of null, which Kafka Streams lacks, and those of zero, which it keeps."""
    counts = {status: count for status, count in tables["counts"].items() if status and count != "0"}
    return {**{name: tables[name] for name in JOINS}, "counts": counts}


def count(hours: Iterable[Tables], name: str) -> int:
    return sum(len(of_kafka_streams(tables)[name]) for tables in hours)


def differ(hours: Iterable[Tables], others: Iterable[Tables], name: str) -> int:
    """The number of keys, at all hours' ends, that have another row or none in one of both."""
    number = 0
    for tables, of_others in zip(hours, others, strict=True):
        one, other = of_kafka_streams(tables)[name], of_kafka_streams(of_others)[name]
        number += sum(one.get(key) != other.get(key) for key in one.keys() | other.keys())
    return number


def status_of(order: str) -> str:
    return order.partition("/")[0]


def body_of(row: TableRow) -> dict[str, str | None]:
    """The fields of a record. Its value is not None."""
    value = row.value or ""
    if row.table == "orders":
        status, customer = value.split("/")
        return {"status": status or None, "customer": customer or None}
    return {"method" if row.table == "payments" else "region": value}


def states(project: Project, arrival: str) -> set[str]:
    with serving_layer.connect(project) as connection:
        asked = f"SELECT DISTINCT state FROM hours WHERE name IN ('{arrival}_counts', '{arrival}_outer') AND hour < '{iso_text(BASE + HOURS * HOUR)}'"
        return {state for (state,) in connection.sql(asked).fetchall()}


def read(project: Project, arrival: str) -> list[Tables]:
    found: list[Tables] = [{name: {} for name in ("counts", *JOINS)} for _ in ENDS]
    with serving_layer.connect(project) as connection:
        counts = connection.sql(f"SELECT hour, coalesce(status, ''), orders FROM {arrival}_counts").fetchall()
        outer = connection.sql(
            f"SELECT hour, number, if(ordered, concat(status, '/', customer), ''), coalesce(method, ''), rows "
            f"FROM {arrival}_outer"
        ).fetchall()
        rows = connection.sql(
            "SELECT hour, number, concat(status, '/', customer, '/'), coalesce(method, ''), coalesce(region, ''), "
            f"orders, paid, bought FROM {arrival}_joined"
        ).fetchall()
    for hour, status, orders in counts:
        found[(hour - BASE) // HOUR]["counts"][status] = str(orders)
    for hour, number, order, method, together in outer:
        assert together == 1
        found[(hour - BASE) // HOUR]["outer"][number] = f"{order}/{method}"
    for hour, number, order, method, region, orders, paid, bought in rows:
        assert orders == 1
        tables = found[(hour - BASE) // HOUR]
        tables["left"][number], tables["foreign_left"][number] = order + method, order + region
        if paid:
            tables["inner"][number] = order + method
        if bought:
            tables["foreign_inner"][number] = order + region
    return found
