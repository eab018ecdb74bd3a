"""Snapshots of a table in both layers, beside a pass over all that was sent for each hour's end."""

import json
import random
import signal
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

import serving_layer
from hourline import Project
from hourline_core.model.hours import iso_text
from tests.support.project_files import write_project
from tests.support.speed_process import SpeedProcess
from tests.support.stack_project import StackProject, leave_rows

BASE = datetime(2026, 3, 2, 8, tzinfo=UTC)
HOURS = 8
END = BASE + timedelta(hours=HOURS)
HOUR = timedelta(hours=1)
GRACE = timedelta(minutes=10)
FILES = {
    "hourline.yaml": 'kafka: {bootstrap: "${KAFKA}"}\nspark: {master: "local[2]"}\n',
    "sources/orders.yaml": """
        topic: NAME_orders
        key_type: string
        fields: {status: string, customer: int, amount: int, at: timestamp}
        event_time: at
        grace: 10m
        """,
    "sources/customers.yaml": """
        topic: NAME_customers
        fields: {customer: int, region: string, at: timestamp}
        event_time: at
        """,
    "lookups/home.yaml": """
        table: source:customers
        key: customer
        columns: {customer: int, region: string}
        valid_from: event_time
        refresh: 1s
        """,
    "sources/open_orders.yaml": """
        snapshot: {of: orders, columns: [status, customer, amount], deleted: "status = 'cancelled'"}
        lookups: {home: customer}
        grace: 0s
        """,
    "sources/last_orders.yaml": """
        snapshot: {of: orders, key: customer, columns: amount, every: 2h}
        grace: 0s
        """,
    "metrics/open.yaml": """
        source: open_orders
        dimensions: {status: status}
        measures: {orders: count, amount: sum(amount), least: min(amount), customers: distinct(customer)}
        """,
    "metrics/open_by_region.yaml": """
        source: open_orders
        dimensions: {region: home.region}
        measures: {orders: count}
        """,
    "metrics/last.yaml": """
        source: last_orders
        measures: {customers: count, amount: sum(amount)}
        """,
}


class Order(NamedTuple):
    """A record of an order. Without a status, it is a tombstone."""

    key: str | None
    status: str | None
    customer: int | None
    amount: int
    at: datetime


class Move(NamedTuple):
    """A customer's move."""

    customer: int
    region: str
    at: datetime


Cells = dict[tuple[object, ...], tuple[object, ...]]


class Shop:
    """A project, and what was sent to it."""

    def __init__(self, folder: Path, kafka: str, name: str) -> None:
        files = {file: text.replace("NAME", name) for file, text in FILES.items()}
        self.sent = StackProject(write_project(folder / name, files), kafka, {})
        self.name, self.random = name, random.Random(name)  # noqa: S311 (the same numbers each time)
        self.orders: list[Order] = []
        self.moves: list[Move] = []
        self.clock = BASE

    @property
    def project(self) -> Project:
        return self.sent.project

    def order(self, *orders: Order) -> None:
        self.orders += orders
        for one in orders:
            value = None if one.status is None else json.dumps({**one._asdict(), "at": iso_text(one.at)})
            milliseconds = int(one.at.timestamp() * 1000)
            self.sent.producer.produce(f"{self.name}_orders", value, one.key, partition=0, timestamp=milliseconds)
        self.sent.producer.flush()

    def move(self, *moves: Move) -> None:
        self.moves += moves
        self.sent.send("customers", ({**one._asdict(), "at": iso_text(one.at)} for one in moves))

    def some(self, number: int, hours: tuple[int, int] = (0, HOURS)) -> list[Order]:
        """Orders at any time of these hours: new ones, changed ones, and deleted ones."""
        chosen, first = self.random, BASE + hours[0] * HOUR
        return [
            Order(
                chosen.choice([*"abcdefgh", None]),
                chosen.choice(["open", "paid", "sent", "cancelled"]),
                chosen.choice([1, 2, 3, None]),
                chosen.randrange(100),
                first + timedelta(seconds=chosen.randrange(3600 * (hours[1] - hours[0]))),
            )
            if chosen.random() < 0.85
            else Order(chosen.choice("abcdefgh"), None, None, 0, first + timedelta(seconds=chosen.randrange(3600)))
            for _ in range(number)
        ]

    def move_clock(self, to: datetime) -> None:
        """Let the clock pass a time. A leap of a clock needs several records, which have no key."""
        self.clock = to
        self.order(*(Order(None, "clock", None, 0, to + GRACE + timedelta(seconds=step)) for step in range(6)))

    def rows(self, snapshot: datetime, key: Callable[[Order], object], *, cancels: bool) -> list[Order]:
        """The rows of the table: the newest record of each key before a time. A tombstone is one of ``key`` alone."""
        newest: dict[object, Order] = {}
        for one in sorted((one for one in self.orders if one.at < snapshot), key=lambda one: one.at):
            if key(one) is not None:
                newest[key(one)] = one
        return [one for one in newest.values() if one.status and not (cancels and one.status == "cancelled")]

    def region(self, order: Order, snapshot: datetime) -> str | None:
        moves = [one for one in self.moves if one.customer == order.customer and one.at < snapshot]
        return max(moves, key=lambda one: one.at).region if moves else None

    def expected(self) -> dict[str, Cells]:
        cells: dict[str, Cells] = {"open": {}, "open_by_region": {}, "last": {}}
        for number in range(min(HOURS, (self.clock - BASE) // HOUR)):
            hour, snapshot = BASE + number * HOUR, BASE + (number + 1) * HOUR
            rows = self.rows(snapshot, lambda one: one.key, cancels=True)
            for status in {one.status for one in rows}:
                of = [one for one in rows if one.status == status]
                amounts = [one.amount for one in of]
                customers = {one.customer for one in of} - {None}
                cells["open"][hour, status] = (len(of), sum(amounts), min(amounts), len(customers))
            regions = Counter(self.region(one, snapshot) for one in rows)
            cells["open_by_region"] |= {(hour, region): (orders,) for region, orders in regions.items()}
            last = self.rows(snapshot, lambda one: one.customer, cancels=False)
            if last and snapshot.hour % 2 == 0:
                cells["last"][hour,] = (len(last), sum(one.amount for one in last))
        return cells


def states(project: Project, metric: str) -> dict[datetime, str]:
    with serving_layer.connect(project) as connection:
        asked = f"SELECT hour, state FROM hours WHERE name = '{metric}' AND hour < '{iso_text(END)}'"
        return {hour: state for hour, state in connection.sql(asked).fetchall() if state != "open"}


def assert_exact(shop: Shop, metrics: tuple[str, ...], *, final: bool) -> set[str]:
    """Each hour that is not stale is exact. Returns the states of all."""
    told, wanted = {}, shop.expected()
    with serving_layer.connect(shop.project) as connection:
        for name in metrics:
            rows = connection.sql(f"SELECT * EXCLUDE (state) FROM {name} WHERE hour < '{iso_text(END)}'").fetchall()
            dimensions = 1 if name == "last" else 2
            told[name] = {row[:dimensions]: row[dimensions:] for row in rows}
    found = set()
    for name in metrics:
        of_hours = states(shop.project, name)
        stale = {hour for hour, state in of_hours.items() if state == "stale"}
        assert {of: row for of, row in told[name].items() if of[0] not in stale} == {
            of: row for of, row in wanted[name].items() if of[0] not in stale
        }, name
        assert not final or set(of_hours.values()) <= {"final", "empty"}, name
        found |= set(of_hours.values())
    return found


def emitted(shop: Shop) -> Counter[tuple[object, ...]]:
    """The number of times that each row of a snapshot was archived, and taken back."""
    with serving_layer.connect(shop.project) as connection:
        rows = connection.sql(
            "SELECT snapshot_time, snapshot_row, duplicate, count(*) FROM events_open_orders GROUP BY ALL"
        ).fetchall()
    return Counter({row[:-1]: row[-1] for row in rows})


AMOUNTS = ("open", "last")
ALL = (*AMOUNTS, "open_by_region")


def test_the_rows_of_a_table_at_each_hours_end_are_counted(kafka: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, kafka, "snapshots")
    shop.move(*(Move(number, region, BASE - HOUR) for number, region in ((1, "north"), (2, "south"))))
    shop.order(*sorted(shop.some(40, (0, 3)), key=lambda one: one.at))
    shop.move_clock(BASE + 4 * HOUR)
    shop.sent.drain()
    clock = max(row["clock"] for row in shop.sent.table("progress", "open_orders") if row["clock"])
    assert clock == BASE + 4 * HOUR + timedelta(seconds=5), "it is behind by the grace of the table"
    assert "stale" not in assert_exact(shop, AMOUNTS, final=False)

    # Late records, tombstones among them, change snapshots that were taken.
    shop.order(*shop.some(30, (0, 7)))
    shop.move(Move(1, "south", BASE + 5 * HOUR), Move(3, "east", BASE + 2 * HOUR))
    shop.move_clock(END + HOUR)
    shop.sent.drain()
    assert "stale" in assert_exact(shop, AMOUNTS, final=False), "nothing came late: choose other numbers"

    # One more is a row until the next record of its key, a tombstone that comes later still.
    shop.order(Order("late", "open", 2, 7, BASE + HOUR + timedelta(minutes=30)))
    shop.sent.drain()
    assert_exact(shop, AMOUNTS, final=False)
    shop.order(Order("late", None, None, 0, BASE + 3 * HOUR))
    shop.sent.drain()
    of_hours = states(shop.project, "open")
    assert {hour for hour, state in of_hours.items() if state == "stale"} >= {
        BASE + of * HOUR for of in range(3, HOURS)
    }
    assert "events taken back" in shop.sent.command("plan")
    shop.sent.recompute()
    assert_exact(shop, ALL, final=True)
    assert set(emitted(shop).values()) == {1}, "a row comes once, and is taken back once"
    for arguments in (["status"], ["check"], ["verify"], ["verify", "--recount"], ["drift"]):
        shop.sent.command(*arguments)
    explained = shop.sent.command("explain", "open", f"{BASE + 4 * HOUR:%Y-%m-%dT%H}")
    assert "taken back" in explained


@pytest.mark.long  # The commits are those of a join: test_joins_of_joins.py kills it there.
def test_a_kill_at_the_commits_takes_no_snapshot_twice(kafka: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, kafka, "snapshotskilled")
    shop.move(Move(1, "north", BASE - HOUR))
    shop.order(*shop.some(30, (0, 3)))
    shop.sent.drain()
    for number, place in enumerate(("after append events 2", "before append progress 3", "after append progress 3")):
        shop.order(*shop.some(15, (0, 3 + number)))
        shop.move_clock(BASE + (3 + 2 * number) * HOUR)
        with SpeedProcess(shop.sent, "--drain", failpoint=f"kill {place}") as process:
            assert process.wait() == -signal.SIGKILL, process.lines
    leave_rows(Path(shop.project.tables) / "events" / "open_orders", shop.sent.last_sequence("open_orders") + 7)
    shop.move_clock(END + HOUR)
    shop.sent.drain()
    assert_exact(shop, AMOUNTS, final=False)
    shop.sent.recompute()
    assert_exact(shop, ALL, final=True)
    assert set(emitted(shop).values()) == {1}
