"""Stories of derived sources of each kind: late events, kills, recomputes of some hours and resets, in any order. After each
step, every hour that is not stale is compared with loops over all that was sent.
"""

import json
import random
import signal
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

import serving_layer
from batch_layer.plan import plan
from hourline_core.model.hours import iso_text
from speed_layer.reset import DerivedReset
from tests.support.project_files import write_project
from tests.support.speed_process import SpeedProcess
from tests.support.stack_project import StackProject

# Each kind has tests of its own in CI.
pytestmark = [pytest.mark.heavy, pytest.mark.long]

BASE = datetime(2026, 3, 2, 8, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
HOURS = 5
END = BASE + HOURS * HOUR
BEFORE, AFTER, NEXT, WITHIN = 20 * MINUTE, 100 * MINUTE, 30 * MINUTE, 2 * HOUR
JOIN = "left: orders, right: payments, on: product, within: {before: 20m, after: 100m}"
SOURCES = {
    "orders": "topic: NAME_orders\nkey_type: string\n"
    "fields: {product: string, cents: int, at: timestamp}\nevent_time: at\n",
    "payments": "topic: NAME_payments\n"
    "fields: {payment: int, revision: int, product: string, cents: int, at: timestamp}\nevent_time: at\n",
    "paid": f"join: {{{JOIN}}}\n",
    "half": f"join: {{{JOIN}, type: left}}\n",
    "whole": f"join: {{{JOIN}, type: full}}\n",
    "following": "join: {left: orders, right: {source: orders, as: later}, on: product, within: {after: 30m}}\n",
    "newest": "snapshot: {of: orders, columns: cents}\n",
    "corrected": "upsert: {of: payments, key: payment, version: revision, within: 2h, columns: [product, cents]}\n",
    "settled": "join: {left: orders, right: corrected, on: product, within: {after: 100m}, type: left}\n",
}
CENTS = {"newest": "cents", "corrected": "cents"}
"""The field that the metric over a source has; of others, that of their orders."""
ALWAYS_EXACT = ("paid", "following")
"""Those of which nothing is taken back, and that wait for no clock."""
DERIVED = tuple(SOURCES)[2:]


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


class Shop:
    """A project, and what was sent to it."""

    def __init__(self, folder: Path, kafka: str, seed: int) -> None:
        self.name, self.random = f"story{seed}", random.Random(seed)  # noqa: S311 (the same numbers each time)
        files = {
            f"sources/{name}.yaml": f"{text.replace('NAME', self.name)}grace: 0s\n" for name, text in SOURCES.items()
        }
        for name in DERIVED:
            cents = CENTS.get(name, "orders_cents")
            measures = f"rows: count, cents: 'sum(coalesce({cents}, 0))', least: min({cents})"
            files[f"metrics/of_{name}.yaml"] = f"source: {name}\nmeasures: {{{measures}}}\n"
        settings = {"hourline.yaml": 'kafka: {bootstrap: "${KAFKA}"}\nspark: {master: "local[2]"}\n'}
        self.sent = StackProject(write_project(folder / "shop", {**settings, **files}), kafka, {})
        self.orders: list[Order] = []
        self.payments: list[Payment] = []

    def trade(self, number: int) -> None:
        """Send records of any time, some of them twice."""
        chosen = self.random
        orders = [
            Order(
                chosen.choice([*"abcdef", None]),
                chosen.choice(["fig", "pear", None]),
                None if chosen.random() < 0.1 else chosen.randrange(100),
                self._moment(),
            )
            for _ in range(number)
        ]
        payments = [
            Payment(
                chosen.randrange(12),
                chosen.randrange(4),
                chosen.choice(["fig", "pear", None]),
                chosen.randrange(100),
                self._moment(),
            )
            for _ in range(number)
        ]
        again = (
            [one._replace() for one in chosen.sample(orders, 2)],
            [one._replace() for one in chosen.sample(payments, 2)],
        )
        self._send(orders + again[0], payments + again[1])

    def close(self) -> None:
        """Let the clocks pass the hours. A leap of a clock needs several records."""
        ends = [END + WITHIN + timedelta(seconds=second) for second in range(6)]
        self._send([Order(None, None, 0, end) for end in ends], [Payment(99, 0, None, 0, end) for end in ends])

    def _moment(self) -> datetime:
        return BASE + timedelta(seconds=self.random.randrange(3600 * HOURS))

    def _send(self, orders: Iterable[Order], payments: Iterable[Payment]) -> None:
        for one in orders:
            if one.key is None and one.cents is None:
                continue  # a tombstone of no key
            self.orders.append(one)
            value = None if one.cents is None else json.dumps({**one._asdict(), "at": iso_text(one.at)})
            milliseconds = int(one.at.timestamp() * 1000)
            self.sent.producer.produce(f"{self.name}_orders", value, one.key, partition=0, timestamp=milliseconds)
        for other in payments:
            self.payments.append(other)
            body = json.dumps({**other._asdict(), "at": iso_text(other.at)})
            self.sent.producer.produce(f"{self.name}_payments", body, partition=0)
        self.sent.producer.flush()

    def rows(self, source: str) -> Iterator[Row]:
        """The rows of a derived source, once the clocks have passed all hours."""
        orders = [one for one in self.orders if one.cents is not None]
        match source:
            case "newest":
                return self._newest()
            case "corrected":
                return ((one.at, one.cents) for one in self._corrected())
            case "following":
                pairs = [(one, other) for one, other in product(orders, repeat=2) if one is not other]
                return joined(pairs, timedelta(0), NEXT)
            case "settled":
                return joined(product(orders, self._corrected()), timedelta(0), AFTER, left=orders)
            case _:
                left = orders if source != "paid" else ()
                right = self.payments if source == "whole" else ()
                return joined(product(orders, self.payments), BEFORE, AFTER, left=left, right=right)

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

    def check(self, sources: Iterable[str] = DERIVED) -> set[str]:
        """Compare all hours that are not stale. Returns the states of all."""
        found = set()
        with serving_layer.connect(self.sent.project) as connection:
            for name in sources:
                until = f"hour < '{iso_text(END)}'"
                asked = f"SELECT hour, state FROM hours WHERE name = 'of_{name}' AND {until}"
                states = dict(connection.sql(asked).fetchall())
                stale = {hour for hour, state in states.items() if state == "stale"}
                rows = connection.sql(f"SELECT hour, rows, cents, least FROM of_{name} WHERE {until}").fetchall()
                told = {hour: tuple(cells) for hour, *cells in rows if hour not in stale}
                wanted = {hour: cells for hour, cells in cells_of(self.rows(name)).items() if hour not in stale}
                assert told == wanted, name
                found |= {*states.values()}
        return found


def joined(
    pairs: Iterable[tuple[Order, Order | Payment]],
    before: timedelta,
    after: timedelta,
    left: Iterable[Order] = (),
    right: Iterable[Payment] = (),
) -> Iterator[Row]:
    """The pairs of one product within an interval, and those of ``left`` and ``right`` without any. Equal records are
    told apart.
    """
    met: set[int] = set()
    for one, other in pairs:
        if one.product is not None and one.product == other.product and -before <= other.at - one.at <= after:
            met |= {id(one), id(other)}
            yield max(one.at, other.at), one.cents
    yield from ((one.at, one.cents) for one in left if id(one) not in met)
    yield from ((other.at, None) for other in right if id(other) not in met)


def cells_of(rows: Iterable[Row]) -> Cells:
    by_hour: dict[datetime, list[int | None]] = {}
    for at, cents in rows:
        if at < END:
            by_hour.setdefault(at.replace(minute=0, second=0), []).append(cents)
    known = {hour: [one for one in cents if one is not None] for hour, cents in by_hour.items()}
    return {hour: (len(cents), sum(known[hour]), min(known[hour], default=None)) for hour, cents in by_hour.items()}


@pytest.mark.parametrize("seed", [1, 2])
def test_each_derived_source_is_exact_after_each_step(kafka: str, tmp_path: Path, seed: int) -> None:
    shop = Shop(tmp_path, kafka, seed)
    shop.trade(15)
    shop.sent.drain()
    shop.check(ALWAYS_EXACT)
    shop.trade(15)
    shop.close()
    shop.sent.drain()
    shop.check()
    steps = ["late", "kill", "recompute", "late", "reset", "recompute", "kill"]
    shop.random.shuffle(steps)
    for step in steps:
        take_step(shop, step)
        shop.check()
    shop.sent.recompute()
    assert shop.check() <= {"final", "empty"}
    for arguments in (["verify"], ["verify", "--recount"]):
        shop.sent.command(*arguments)


def take_step(shop: Shop, step: str) -> None:
    chosen = shop.random
    if step == "recompute":
        planned = plan(shop.sent.project)
        shop.sent.recompute(chosen.sample(planned, len(planned) // 2))
        return
    if step == "reset":
        source = shop.sent.project.sources[chosen.choice(DERIVED)]
        DerivedReset(shop.sent.project, source).apply(datetime.now(UTC))
    else:
        shop.trade(6)
    if step == "kill":
        place = f"{chosen.choice(['before', 'after'])} append {chosen.choice(['events', 'progress'])}"
        with SpeedProcess(shop.sent, "--drain", failpoint=f"kill {place} {chosen.randrange(1, 5)}") as process:
            assert process.wait() == -signal.SIGKILL, process.lines
    shop.sent.drain()
