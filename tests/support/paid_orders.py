"""Many orders and their payments in topics of their own, joined in a project, and the answers by plain dictionaries."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from deltalake import DeltaTable

import serving_layer
from hourline_core.model.hours import iso_text
from tests.support.project_files import write_project
from tests.support.speed_process import SpeedProcess
from tests.support.stack_project import StackProject

BASE = datetime(2026, 3, 2, 8, tzinfo=UTC)
HOUR, WITHIN = timedelta(hours=1), timedelta(minutes=90)
HOURS = 3
_CLOSED = BASE + HOURS * HOUR + WITHIN
_FILES = {
    "hourline.yaml": """\
        kafka: {bootstrap: "${KAFKA}"}
        spark: {master: "${SPARK_MASTER:local[2]}", worker_memory: "${WORKER_MEMORY:2g}"}
        speed: {max_records_per_batch: RECORDS_PER_BATCH}
        """,
    "sources/orders.yaml": """\
        topic: NAME_orders
        partitions: 2
        fields: {number: string, shop: int, cents: long, at: timestamp}
        event_time: at
        grace: 0s
        """,
    "sources/payments.yaml": """\
        topic: NAME_payments
        partitions: 2
        fields: {number: string, revision: int, cents: long, at: timestamp}
        event_time: at
        grace: 0s
        """,
    "sources/paid.yaml": "join: {left: orders, right: payments, on: number, within: {after: 90m}}\ngrace: 0s\n",
    "sources/half.yaml": "join: {left: orders, right: payments, on: number, within: {after: 90m}, type: left}\ngrace: 0s\n",
    "sources/newest.yaml": """\
        upsert: {of: payments, key: number, version: revision, within: 90m, columns: [cents]}
        grace: 0s
        """,
    "metrics/of_paid.yaml": """\
        source: paid
        dimensions: {shop: orders_shop}
        measures: {rows: count, ordered: sum(orders_cents), paid: sum(payments_cents)}
        """,
    "metrics/of_half.yaml": """\
        source: half
        dimensions: {shop: orders_shop}
        measures: {rows: count, unpaid: count where payments_event_time IS NULL, ordered: sum(orders_cents)}
        """,
    "metrics/of_newest.yaml": "source: newest\nmeasures: {rows: count, paid: sum(cents)}\n",
}
DERIVED = ("paid", "half", "newest")


class Order(NamedTuple):
    number: str
    shop: int
    cents: int
    at: datetime


class Payment(NamedTuple):
    number: str
    revision: int
    cents: int
    at: datetime


Cells = dict[tuple[datetime, int | None], tuple[int, ...]]
"""By hour and shop, the measures."""


@dataclass
class PaidOrders:
    """A project called ``name``, and what was sent to it."""

    folder: Path
    kafka: str
    name: str
    records_per_batch: int = 400_000
    orders: list[Order] = field(default_factory=list)
    payments: list[Payment] = field(default_factory=list)

    def __post_init__(self) -> None:
        files = {
            file: text.replace("NAME", self.name).replace("RECORDS_PER_BATCH", str(self.records_per_batch))
            for file, text in _FILES.items()
        }
        self.sent = StackProject(write_project(self.folder / self.name, files), self.kafka, {})
        self.random = random.Random(self.name)  # noqa: S311 (the same numbers each time)

    def order(self, number: int) -> None:
        """Send so many orders."""
        chosen = self.random
        self._send_orders(
            [
                Order(f"the order {place:09d}", chosen.randrange(20), chosen.randrange(9_999), self._moment())
                for place in range(number)
            ]
        )

    def pay(self) -> None:
        """Pay for five in six orders, in any order. One payment in ten is corrected."""
        chosen, paid = self.random, list[Payment]()
        for order in chosen.sample(self.orders, len(self.orders) * 5 // 6):
            at = order.at + timedelta(seconds=chosen.randrange(int(WITHIN.total_seconds())))
            paid.append(Payment(order.number, 1, chosen.randrange(9_999), at))
        self._send_payments(paid + [one._replace(revision=2, cents=one.cents + 1) for one in paid[::10]])

    def close(self) -> None:
        """Let the clocks pass the hours. A leap of a clock needs several records of each partition."""
        times = [_CLOSED + 2 * WITHIN + timedelta(seconds=second) for second in range(6)]
        for partition in (0, 1):
            self._send_orders([Order(f"o{at}", 0, 0, at) for at in times], partition)
            self._send_payments([Payment(f"p{at}", 1, 0, at) for at in times], partition)

    def run(self, *arguments: str) -> None:
        """A command as a process of its own, in which nothing is doubled."""
        command, *options = arguments
        with SpeedProcess(self.sent, *options, command=command) as process:
            assert process.wait() == 0, process.lines

    def check(self) -> Counter[str]:
        """Compare all answers. Returns the number of rows in each state."""
        found = Counter[str]()
        for source in DERIVED:
            cells, states = self._told(source)
            assert cells == self._expected(source), source
            found += states
        return found

    def tasks(self, source: str) -> Iterator[int]:
        """By commit of its archive, the number of tasks that have archived events: each has written a file."""
        uri, known = str(Path(self.sent.project.tables) / "events" / source), set[str]()
        for version in range(1, DeltaTable(uri).version() + 1):
            files = set(DeltaTable(uri, version=version).file_uris())
            yield len(files - known)
            known |= files

    def _expected(self, source: str) -> Cells:
        """The answer for the hours that close."""
        found: dict[tuple[datetime, int | None], list[tuple[int, ...]]] = {}
        for at, shop, measures in self._rows(source):
            if at < _CLOSED:
                found.setdefault((at.replace(minute=0, second=0), shop), []).append(measures)
        return {of: tuple(map(sum, zip(*rows, strict=True))) for of, rows in found.items()}

    def _told(self, source: str) -> tuple[Cells, Counter[str]]:
        """The answer for the same hours, and how many rows have each state."""
        columns = "* EXCLUDE (hour, state, shop)" if source != "newest" else "* EXCLUDE (hour, state)"
        shop = "shop" if source != "newest" else "NULL"
        with serving_layer.connect(self.sent.project) as connection:
            rows = connection.sql(
                f"SELECT hour, state, {shop}, {columns} FROM of_{source} WHERE hour < '{iso_text(_CLOSED)}'"
            ).fetchall()
        return {(hour, of): tuple(measures) for hour, _, of, *measures in rows}, Counter(state for _, state, *_ in rows)

    def _rows(self, source: str) -> Iterator[tuple[datetime, int | None, tuple[int, ...]]]:
        payments: dict[str, list[Payment]] = {}
        for one in self.payments:
            payments.setdefault(one.number, []).append(one)
        if source == "newest":
            for of in payments.values():
                newest = max(of, key=lambda one: one.revision)
                yield newest.at, None, (1, newest.cents)
            return
        for order in self.orders:
            partners = payments.get(order.number, ())
            for one in partners:
                paid = one.cents if source == "paid" else None
                measures = (1, order.cents, paid) if paid is not None else (1, 0, order.cents)
                yield max(order.at, one.at), order.shop, measures
            if not partners and source == "half":
                yield order.at, order.shop, (1, 1, order.cents)

    def _send_orders(self, orders: list[Order], partition: int | None = None) -> None:
        self.orders += orders
        self.sent.send("orders", ({**one._asdict(), "at": iso_text(one.at)} for one in orders), partition)

    def _send_payments(self, payments: list[Payment], partition: int | None = None) -> None:
        self.payments += payments
        self.sent.send("payments", ({**one._asdict(), "at": iso_text(one.at)} for one in payments), partition)

    def _moment(self) -> datetime:
        return BASE + timedelta(seconds=self.random.randrange(3600 * HOURS))
