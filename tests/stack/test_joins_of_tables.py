"""Joins whose inputs take events back, in both layers: two tables at each hour's end, and corrected events. Beside nested
loops over all that was sent.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest

import serving_layer
from hourline_core.model.hours import iso_text
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject

# In CI, test_joins_of_joins.py joins what is taken back, and tests/unit has the rows of tables.
pytestmark = pytest.mark.long

BASE = datetime(2026, 3, 2, 8, tzinfo=UTC)
HOUR, HOURS = timedelta(hours=1), 5
END = BASE + HOURS * HOUR
WITHIN = 2 * HOUR
FILES = {
    "hourline.yaml": 'kafka: {bootstrap: "${KAFKA}"}\nspark: {master: "local[2]"}\n',
    "sources/orders.yaml": """
        topic: NAME_orders
        fields: {number: int, revision: int, customer: int, amount: int, at: timestamp}
        event_time: at
        """,
    "sources/customers.yaml": """
        topic: NAME_customers
        fields: {customer: int, revision: int, region: string, at: timestamp}
        event_time: at
        """,
    "sources/order_rows.yaml": "snapshot: {of: orders, key: number, columns: [customer, amount]}\n",
    "sources/customer_rows.yaml": "snapshot: {of: customers, key: customer, columns: region}\n",
    "sources/tables.yaml": """
        join: {left: order_rows, right: customer_rows, on: customer, within: 0s, type: full}
        """,
    "sources/newest.yaml": "upsert: {of: orders, key: number, version: revision, within: 2h, columns: [customer, amount]}\n",
    "sources/moves.yaml": "upsert: {of: customers, key: customer, version: revision, within: 2h, columns: region}\n",
    "sources/newest_moved.yaml": """
        join: {left: newest, right: moves, on: customer, within: 2h, type: full}
        """,
    "metrics/at_the_end.yaml": """
        source: tables
        dimensions: {region: customer_rows_region}
        measures: {rows: count, amount: sum(order_rows_amount)}
        """,
    "metrics/moved.yaml": """
        source: newest_moved
        dimensions: {region: moves_region}
        measures: {events: count, amount: sum(newest_amount)}
        """,
}


class Order(NamedTuple):
    number: int
    revision: int
    customer: int | None
    amount: int
    at: datetime


class Move(NamedTuple):
    customer: int | None
    revision: int
    region: str
    at: datetime


Row = TypeVar("Row", Order, Move)
Cells = dict[tuple[object, ...], tuple[int, int | None]]


class Shop:
    """A project, and what was sent to it."""

    def __init__(self, folder: Path, kafka: str, name: str) -> None:
        files = {file: text.replace("NAME", name) for file, text in FILES.items()}
        self.sent = StackProject(write_project(folder / name, files), kafka, {})
        self.random = random.Random(name)  # noqa: S311 (the same numbers each time)
        self.orders: list[Order] = []
        self.moves: list[Move] = []

    def send(self, number: int, hours: int) -> None:
        """Events of both topics, at any time of the first hours."""
        chosen = self.random
        for _ in range(number):
            at = [BASE + timedelta(seconds=chosen.randrange(3600 * hours)) for _ in range(2)]
            customer = [chosen.choice([1, 2, 3, 4, 5, None]) for _ in range(2)]
            self.orders.append(
                Order(chosen.randrange(8), chosen.randrange(4), customer[0], chosen.randrange(99), at[0])
            )
            self.moves.append(Move(customer[1], chosen.randrange(4), chosen.choice(["north", "south"]), at[1]))
        self._produce(self.orders[-number:], self.moves[-number:])

    def move_clock(self, to: datetime) -> None:
        """Let both clocks pass a time. A leap of a clock needs several records, which have no partners."""
        times = [to + timedelta(seconds=step) for step in range(6)]
        orders = [Order(100 + step, 0, None, 0, at) for step, at in enumerate(times)]
        moves = [Move(None, 0, "clock", at) for at in times]
        self.orders += orders
        self._produce(orders, moves)

    def _produce(self, orders: Iterable[Order], moves: Iterable[Move]) -> None:
        self.sent.send("orders", ({**one._asdict(), "at": iso_text(one.at)} for one in orders))
        self.sent.send("customers", ({**one._asdict(), "at": iso_text(one.at)} for one in moves))

    def expected(self) -> dict[str, Cells]:
        tables: defaultdict[tuple[object, ...], list[int | None]] = defaultdict(list)
        for number in range(HOURS):
            end = BASE + (number + 1) * HOUR
            orders = newest(self.orders, lambda one: one.number, end)
            moves = {one.customer: one for one in newest(self.moves, lambda one: one.customer, end)}
            for order in orders:
                region = moves[order.customer].region if order.customer in moves else None
                tables[BASE + number * HOUR, region].append(order.amount)
            for move in moves.values():
                if all(move.customer != order.customer for order in orders):
                    tables[BASE + number * HOUR, move.region].append(None)
        joined: defaultdict[tuple[object, ...], list[int | None]] = defaultdict(list)
        chosen, moved = corrected(self.orders, lambda one: one.number), corrected(self.moves, lambda one: one.customer)
        for order in chosen:
            near = [move for move in moved if are_partners(order, move)]
            for move in near:
                joined[max(order.at, move.at).replace(minute=0, second=0), move.region].append(order.amount)
            if not near and order.at < END:
                joined[order.at.replace(minute=0, second=0), None].append(order.amount)
        for move in moved:
            if not any(are_partners(order, move) for order in chosen):
                joined[move.at.replace(minute=0, second=0), move.region].append(None)
        return {
            name: {of: (len(amounts), sum_of(amounts)) for of, amounts in cells.items()}
            for name, cells in (("at_the_end", tables), ("moved", joined))
        }

    def emitted(self) -> Counter[tuple[str, bool]]:
        """The number of times that each joined event was archived, and taken back."""
        asked = "SELECT joined_row, duplicate, count(*) FROM events_{} GROUP BY ALL"
        with serving_layer.connect(self.sent.project) as connection:
            rows = [row for of in ("tables", "newest_moved") for row in connection.sql(asked.format(of)).fetchall()]
        return Counter({row[:-1]: row[-1] for row in rows})

    def assert_exact(self, *, final: bool = False) -> Counter[str]:
        """Each hour that is not stale is exact. Returns the number of hours of each state."""
        found, wanted = Counter[str](), self.expected()
        for name in ("at_the_end", "moved"):
            with serving_layer.connect(self.sent.project) as connection:
                until = f"hour < '{iso_text(END)}'"
                rows = connection.sql(f"SELECT * EXCLUDE (state) FROM {name} WHERE {until}").fetchall()
                asked = f"SELECT hour, state FROM hours WHERE name = '{name}' AND {until}"
                states = dict(connection.sql(asked).fetchall())
            stale = {hour for hour, state in states.items() if state == "stale"}
            told = {row[:2]: row[2:] for row in rows if row[0] not in stale}
            assert told == {of: row for of, row in wanted[name].items() if of[0] not in stale}, name
            assert not final or set(states.values()) <= {"final", "empty"}, name
            found.update(states.values())
        return found


def corrected(rows: list[Row], key: Callable[[Row], object]) -> list[Row]:
    """Those without a newer version of their key near them: of equal versions, the first to arrive is the newest."""
    return [
        row
        for place, row in enumerate(rows)
        if key(row) is not None
        and not any(
            (other.revision, -at) > (row.revision, -place)
            for at, other in enumerate(rows)
            if key(other) == key(row) and abs(other.at - row.at) <= WITHIN
        )
    ]


def are_partners(order: Order, move: Move) -> bool:
    return order.customer == move.customer and abs(order.at - move.at) <= WITHIN


def sum_of(amounts: list[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None


def newest(rows: list[Row], key: Callable[[Row], object], end: datetime) -> list[Row]:
    """The rows of a table before a time: of equal event times, the last to arrive."""
    found: dict[object, Row] = {}
    for one in sorted((one for one in rows if one.at < end), key=lambda one: one.at):
        if key(one) is not None:
            found[key(one)] = one
    return list(found.values())


def test_tables_and_corrected_events_are_joined(kafka: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, kafka, "tables")
    shop.send(25, 3)
    shop.sent.drain()
    shop.send(25, HOURS)
    shop.move_clock(END + 4 * HOUR)
    shop.sent.drain()
    shop.assert_exact()
    shop.sent.recompute()
    shop.assert_exact(final=True)
    shop.send(10, HOURS)
    shop.sent.drain()
    assert shop.assert_exact()["stale"] > 2, "nothing was taken back: choose other numbers"
    shop.sent.recompute()
    shop.assert_exact(final=True)
    emitted = shop.emitted()
    assert set(emitted.values()) == {1}, "each comes once, and is taken back once"
    again = [row for row, back in emitted if not back and re.search(r"\+[0-9]+$", row)]
    assert again, "no event has lost its last partner: choose other numbers"
    for arguments in (["check"], ["verify", "--recount"]):
        shop.sent.command(*arguments)
