"""A project with a derived source of each kind, what was sent to it, and loops over all of that as the oracle."""

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import NamedTuple

import serving_layer
from hourline_core.model.hours import iso_text
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject

BASE = datetime(2026, 3, 2, 8, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
HOURS = 5
END = BASE + HOURS * HOUR
BEFORE, AFTER, NEXT, WITHIN = 20 * MINUTE, 100 * MINUTE, 30 * MINUTE, 2 * HOUR
_JOIN = "left: orders, right: payments, on: product, within: {before: 20m, after: 100m}"
_SOURCES = {
    "orders": "topic: NAME_orders\nkey_type: string\n"
    "fields: {product: string, cents: int, at: timestamp}\nevent_time: at\n",
    "payments": "topic: NAME_payments\n"
    "fields: {payment: int, revision: int, product: string, cents: int, at: timestamp}\nevent_time: at\n",
    "paid": f"join: {{{_JOIN}}}\n",
    "placed": f"join: {{{_JOIN}, event_time: orders}}\n",
    "half": f"join: {{{_JOIN}, type: left}}\n",
    "whole": f"join: {{{_JOIN}, type: full}}\n",
    "following": "join: {left: orders, right: {source: orders, as: later}, on: product, within: {after: 30m}}\n",
    "newest": "snapshot: {of: orders, columns: cents}\n",
    "corrected": "upsert: {of: payments, key: payment, version: revision, within: 2h, columns: [product, cents]}\n",
    "settled": "join: {left: orders, right: corrected, on: product, within: {after: 100m}, type: left}\n",
}
_CENTS = {"newest": "cents", "corrected": "cents"}
"""The field that the metric over a source has; of others, that of their orders."""
DERIVED = tuple(_SOURCES)[2:]
ALWAYS_EXACT = ("paid", "placed", "following")
"""Those of which nothing is taken back, and that wait for no clock."""


class Order(NamedTuple):
    """A record of an order. Without cents, it is a tombstone."""

    key: str | None
    product: str | None
    cents: int | None
    at: datetime


class Payment(NamedTuple):
    payment: int
    revision: int
    product: str | None
    cents: int
    at: datetime


Row = tuple[datetime, int | None]
"""The event time of a row, and its cents."""
Cells = dict[datetime, tuple[int, int, int | None]]
"""By hour, the number of rows, their cents, and the least of these."""


@dataclass
class Records:
    """Records in the order of their arrival. Equal ones are told apart by being other objects."""

    orders: list[Order] = field(default_factory=list)
    payments: list[Payment] = field(default_factory=list)

    def add(self, orders: Iterable[Order], payments: Iterable[Payment]) -> None:
        self.orders += orders
        self.payments += payments

    def cells(self, source: str) -> Cells:
        """What the metric over a derived source has, once the clocks have passed all hours."""
        by_hour: dict[datetime, list[int | None]] = {}
        for at, cents in self._rows(source):
            if at < END:
                by_hour.setdefault(at.replace(minute=0, second=0), []).append(cents)
        known = {hour: [one for one in cents if one is not None] for hour, cents in by_hour.items()}
        return {hour: (len(cents), sum(known[hour]), min(known[hour], default=None)) for hour, cents in by_hour.items()}

    def _rows(self, source: str) -> Iterator[Row]:
        orders = [one for one in self.orders if one.cents is not None]
        match source:
            case "newest":
                return self._newest()
            case "corrected":
                return ((one.at, one.cents) for one in self._corrected())
            case "following":
                others = [(one, other) for one, other in product(orders, repeat=2) if one is not other]
                return _joined(others, timedelta(0), NEXT)
            case "placed":
                pairs = product(orders, self.payments)
                return ((one.at, one.cents) for one, other in pairs if _are_partners(one, other, BEFORE, AFTER))
            case "settled":
                return _joined(product(orders, self._corrected()), timedelta(0), AFTER, left=orders)
            case _:
                left = orders if source != "paid" else ()
                right = self.payments if source == "whole" else ()
                return _joined(product(orders, self.payments), BEFORE, AFTER, left=left, right=right)

    def _newest(self) -> Iterator[Row]:
        for number in range(HOURS):
            end = BASE + (number + 1) * HOUR
            newest: dict[str, Order] = {}
            for one in sorted((one for one in self.orders if one.at < end), key=lambda one: one.at):
                if one.key is not None:
                    newest[one.key] = one
            yield from ((end - MINUTE, one.cents) for one in newest.values() if one.cents is not None)

    def _corrected(self) -> list[Payment]:
        """The versions that no newer one replaces. Of equal ones, the first to arrive is the newest."""
        placed = list(enumerate(self.payments))
        return [
            one
            for place, one in placed
            if not any(
                other.payment == one.payment
                and abs(other.at - one.at) <= WITHIN
                and (other.revision, -at) > (one.revision, -place)
                for at, other in placed
            )
        ]


def _are_partners(one: Order, other: Order | Payment, before: timedelta, after: timedelta) -> bool:
    return one.product is not None and one.product == other.product and -before <= other.at - one.at <= after


def _joined(
    pairs: Iterable[tuple[Order, Order | Payment]],
    before: timedelta,
    after: timedelta,
    left: Iterable[Order] = (),
    right: Iterable[Payment] = (),
) -> Iterator[Row]:
    """The pairs of one product within an interval, and those of ``left`` and ``right`` without any."""
    met: set[int] = set()
    for one, other in pairs:
        if _are_partners(one, other, before, after):
            met |= {id(one), id(other)}
            yield max(one.at, other.at), one.cents
    yield from ((one.at, one.cents) for one in left if id(one) not in met)
    yield from ((other.at, None) for other in right if id(other) not in met)


class Told(NamedTuple):
    """The answer for the metric over a derived source."""

    cells: Cells
    states: dict[datetime, str]

    def without(self, *states: str) -> Cells:
        """The cells of hours that have another state."""
        return leave_out(self.cells, {hour for hour, state in self.states.items() if state in states})


def leave_out(cells: Cells, hours: set[datetime]) -> Cells:
    return {hour: of for hour, of in cells.items() if hour not in hours}


class Shop:
    """A project called ``name``, and what was sent to it."""

    def __init__(self, folder: Path, kafka: str, name: str) -> None:
        self.name, self.random = name, random.Random(name)  # noqa: S311 (the same numbers each time)
        files = {f"sources/{of}.yaml": f"{text.replace('NAME', name)}grace: 0s\n" for of, text in _SOURCES.items()}
        for of in DERIVED:
            cents = _CENTS.get(of, "orders_cents")
            measures = f"rows: count, cents: 'sum(coalesce({cents}, 0))', least: min({cents})"
            files[f"metrics/of_{of}.yaml"] = f"source: {of}\nmeasures: {{{measures}}}\n"
        settings = {"hourline.yaml": 'kafka: {bootstrap: "${KAFKA}"}\nspark: {master: "local[2]"}\n'}
        self.sent = StackProject(write_project(folder / "shop", {**settings, **files}), kafka, {})
        self.everything, self.read = Records(), Records()
        """What was sent, and what of it is read by the next drain."""

    def trade(self, number: int, hours: tuple[int, int] = (0, HOURS)) -> None:
        """Send some records that are read."""
        records = self.some(number, hours)
        self.send(*records)
        self.read.add(*records)

    def close(self) -> None:
        """Let the clocks pass the hours."""
        self.move_clocks(END + WITHIN)

    def move_clocks(self, to: datetime) -> None:
        """Let the clocks pass a time. A leap of a clock needs several records."""
        times = [to + timedelta(seconds=second) for second in range(6)]
        orders, payments = [Order(None, None, 0, at) for at in times], [Payment(99, 0, None, 0, at) for at in times]
        self.send(orders, payments)
        self.read.add(orders, payments)

    def some(self, number: int, hours: tuple[int, int] = (0, HOURS)) -> tuple[list[Order], list[Payment]]:
        """Records of any time between two hours, some of them twice."""
        chosen, (first, end) = self.random, hours

        def moment() -> datetime:
            return BASE + timedelta(seconds=chosen.randrange(3600 * first, 3600 * end))

        def order() -> Order:
            key, cents = chosen.choice([*"abcdef", None]), None if chosen.random() < 0.1 else chosen.randrange(100)
            # Without a key, it is no tombstone.
            return Order(key, chosen.choice(["fig", "pear", None]), cents if key else cents or 0, moment())

        def payment() -> Payment:
            product = chosen.choice(["fig", "pear", None])
            return Payment(chosen.randrange(12), chosen.randrange(4), product, chosen.randrange(100), moment())

        orders, payments = [order() for _ in range(number)], [payment() for _ in range(number)]
        orders += [one._replace() for one in chosen.sample(orders, 2)]
        payments += [one._replace() for one in chosen.sample(payments, 2)]
        return orders, payments

    def send(self, orders: Sequence[Order], payments: Sequence[Payment]) -> None:
        """Send records in this order. An order is sent at its event time, and a payment now."""
        for one in orders:
            value = None if one.cents is None else json.dumps({**one._asdict(), "at": iso_text(one.at)})
            milliseconds = int(one.at.timestamp() * 1000)
            self.sent.producer.produce(f"{self.name}_orders", value, one.key, partition=0, timestamp=milliseconds)
        for other in payments:
            body = json.dumps({**other._asdict(), "at": iso_text(other.at)})
            self.sent.producer.produce(f"{self.name}_payments", body, partition=0)
        self.sent.flush()
        self.everything.add(orders, payments)

    def ask(self, source: str) -> Told:
        """The answer for the hours of the oracle."""
        until = f"hour < '{iso_text(END)}'"
        with serving_layer.connect(self.sent.project) as connection:
            rows = connection.sql(f"SELECT hour, rows, cents, least FROM of_{source} WHERE {until}").fetchall()
            asked = f"SELECT hour, state FROM hours WHERE name = 'of_{source}' AND {until}"
            cells = {hour: (number, cents, least) for hour, number, cents, least in rows}
            return Told(cells, dict(connection.sql(asked).fetchall()))

    def check(self, sources: Iterable[str] = DERIVED) -> set[str]:
        """Compare all hours that are not stale. Returns the states of all."""
        found = set()
        for name in sources:
            told = self.ask(name)
            stale = {hour for hour, state in told.states.items() if state == "stale"}
            assert told.without("stale") == leave_out(self.read.cells(name), stale), name
            found |= {*told.states.values()}
        return found
