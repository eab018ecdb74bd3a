"""A left join that is the right input of another one, whose events look rows up, in both layers. Beside nested loops over
all that was sent.
"""

import random
import signal
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

import serving_layer
from hourline import Project
from hourline_core.model.hours import iso_text
from tests.support.project_files import write_project
from tests.support.speed_process import SpeedProcess
from tests.support.stack_project import StackProject

pytestmark = pytest.mark.heavy
BASE = datetime(2026, 3, 2, 8, tzinfo=UTC)
HOURS = 5
END = BASE + timedelta(hours=HOURS)
HOUR = timedelta(hours=1)
REGIONS = {"ann": "north", "bob": "south"}
FILES = {
    "hourline.yaml": 'kafka: {bootstrap: "${KAFKA}"}\nspark: {master: "local[2]"}\n',
    "lookups/region.yaml": """
        table: regions.csv
        key: customer
        columns: {customer: string, region: string}
        """,
    "sources/orders.yaml": """
        topic: NAME_orders
        fields: {number: int, customer: string, at: timestamp}
        event_time: at
        id: number
        grace: 0s
        """,
    "sources/payments.yaml": """
        topic: NAME_payments
        fields: {number: int, customer: string, at: timestamp}
        event_time: at
        grace: 0s
        """,
    "sources/parcels.yaml": """
        topic: NAME_parcels
        fields: {number: int, customer: string, at: timestamp}
        event_time: at
        id: number
        grace: 0s
        """,
    "sources/paid.yaml": """
        join: {left: orders, right: payments, on: [number, customer], within: 1h, type: left}
        grace: 0s
        """,
    "sources/delivered.yaml": """
        join: {left: parcels, right: paid, on: {number: orders_number}, within: {before: 2h, after: 30m}, type: left}
        lookups: {home: {lookup: region, key: paid_orders_customer}}
        grace: 0s
        """,
    "metrics/orders_paid.yaml": """
        source: paid
        measures: {rows: count, without: count where payments_at IS NULL}
        """,
    "metrics/parcels_delivered.yaml": """
        source: delivered
        dimensions: {region: home.region}
        measures:
          rows: count
          unpaid: count where paid_event_time IS NOT NULL AND paid_payments_at IS NULL
          without: count where paid_event_time IS NULL
        """,
}


class Event(NamedTuple):
    number: int
    customer: str | None
    at: datetime

    @property
    def hour(self) -> datetime:
        return self.at.replace(minute=0, second=0)


class Paid(NamedTuple):
    """An order, and a payment of it."""

    order: Event
    payment: Event | None

    @property
    def at(self) -> datetime:
        return max(self.order.at, self.payment.at) if self.payment else self.order.at


class Delivered(NamedTuple):
    parcel: Event
    paid: Paid | None

    @property
    def at(self) -> datetime:
        return max(self.parcel.at, self.paid.at) if self.paid else self.parcel.at

    def region(self, regions: dict[str, str]) -> str | None:
        return regions.get(self.paid.order.customer or "") if self.paid else None


Cells = dict[tuple[object, ...], tuple[int, ...]]


class Shop:
    """A project, and what was sent to it."""

    def __init__(self, folder: Path, kafka: str, name: str) -> None:
        files = {file: text.replace("NAME", name) for file, text in FILES.items()}
        root = write_project(folder / name, files)
        write_regions(root, REGIONS)
        self.sent = StackProject(root, kafka, {})
        self.random = random.Random(name)  # noqa: S311 (the same numbers each time)
        self.events: dict[str, list[Event]] = {"orders": [], "payments": [], "parcels": []}

    @property
    def project(self) -> Project:
        return self.sent.project

    def send(self, source: str, *events: Event) -> None:
        self.events[source] += events
        self.sent.send(source, ({**one._asdict(), "at": iso_text(one.at)} for one in events))

    def send_some(self, source: str, number: int, hours: int = HOURS) -> None:
        """Events at any time of the first hours."""
        chosen = self.random
        customers = ["ann", "bob", "bob", "cid", None]
        for _ in range(number):
            at = BASE + timedelta(seconds=chosen.randrange(3600 * hours))
            self.send(source, Event(which := chosen.randrange(12), customers[which % 5], at))

    def move_clocks(self, to: datetime) -> None:
        """Let the clocks pass a time. A leap of a clock needs several records, which have no partners."""
        for place, source in enumerate(self.events, 1):
            first = -10_000 * place - 100 * (to - BASE) // HOUR
            self.send(source, *(Event(first - step, None, to + timedelta(seconds=step)) for step in range(6)))

    def paid(self) -> list[Paid]:
        rows = []
        for order in firsts(self.events["orders"]):
            of_order: list[Event | None] = [
                payment
                for payment in self.events["payments"]
                if (order.number, order.customer) == (payment.number, payment.customer)
                and order.customer is not None
                and abs(payment.at - order.at) <= HOUR
            ]
            rows += [Paid(order, payment) for payment in of_order or [None]]
        return rows

    def delivered(self) -> list[Delivered]:
        rows, paid = [], self.paid()
        for parcel in firsts(self.events["parcels"]):
            of_parcel: list[Paid | None] = [
                one for one in paid if one.order.number == parcel.number and -2 * HOUR <= one.at - parcel.at <= HOUR / 2
            ]
            rows += [Delivered(parcel, one) for one in of_parcel or [None]]
        return rows

    def expected(self, regions: dict[str, str]) -> dict[str, Cells]:
        """By metric, what counts before END once the clocks have passed it: by hour, or hour and region."""
        paid: dict[tuple[object, ...], list[Paid]] = {}
        for row in [row for row in self.paid() if row.at < END]:
            paid.setdefault((hour_of(row),), []).append(row)
        delivered: dict[tuple[object, ...], list[Delivered]] = {}
        for one in [one for one in self.delivered() if one.at < END]:
            delivered.setdefault((hour_of(one), one.region(regions)), []).append(one)
        return {
            "orders_paid": {of: (len(rows), sum(row.payment is None for row in rows)) for of, rows in paid.items()},
            "parcels_delivered": {
                of: (
                    len(rows),
                    sum(row.paid is not None and row.paid.payment is None for row in rows),
                    sum(row.paid is None for row in rows),
                )
                for of, rows in delivered.items()
            },
        }

    def states(self, metric: str) -> dict[datetime, str]:
        with serving_layer.connect(self.project) as connection:
            asked = f"SELECT hour, state FROM hours WHERE name = '{metric}' AND hour < '{iso_text(END)}'"
            return dict(connection.sql(asked).fetchall())

    def stale(self, metric: str) -> set[datetime]:
        return {hour for hour, state in self.states(metric).items() if state == "stale"}

    def answer(self, metric: str) -> Cells:
        asked = f"SELECT * EXCLUDE (state) FROM {metric} WHERE hour < '{iso_text(END)}'"
        keys = 2 if metric == "parcels_delivered" else 1
        with serving_layer.connect(self.project) as connection:
            return {row[:keys]: row[keys:] for row in connection.sql(asked).fetchall()}

    def assert_exact(self, regions: dict[str, str] = REGIONS, *, final: bool = False) -> None:
        """Each hour that is not stale is exact."""
        for metric, wanted in self.expected(regions).items():
            stale = self.stale(metric)
            told = {of: row for of, row in self.answer(metric).items() if of[0] not in stale}
            assert told == {of: row for of, row in wanted.items() if of[0] not in stale}, metric
            assert not final or set(self.states(metric).values()) <= {"final", "empty"}, metric

    def emitted(self) -> Counter[tuple[str, str, bool]]:
        """The number of times that each joined event was archived, and taken back. Pairs of plain events are not."""
        asked = "SELECT '{0}', {1}, duplicate, count(*) FROM events_{0} WHERE {1} IS NOT NULL GROUP BY ALL"
        with serving_layer.connect(self.project) as connection:
            return Counter(
                {
                    row[:-1]: row[-1]
                    for of, name in (("paid", "unmatched"), ("delivered", "joined_row"))
                    for row in connection.sql(asked.format(of, name)).fetchall()
                }
            )


def write_regions(root: Path, regions: dict[str, str]) -> None:
    lines = [f"{customer},{region}" for customer, region in regions.items()]
    (root / "regions.csv").write_text("\n".join(["customer,region", *lines]) + "\n")


def firsts(events: list[Event]) -> list[Event]:
    """The first of each number and hour, in the order in which they were sent."""
    found: dict[tuple[int, datetime], Event] = {}
    for one in events:
        found.setdefault((one.number, one.hour), one)
    return list(found.values())


def hour_of(row: Paid | Delivered) -> datetime:
    return row.at.replace(minute=0, second=0)


def test_a_kill_while_pairs_of_a_left_join_are_taken_back_loses_none_and_repeats_none(
    kafka: str, tmp_path: Path
) -> None:
    shop = Shop(tmp_path, kafka, "joined_again")
    for source, number in (("orders", 20), ("payments", 6), ("parcels", 15)):
        shop.send_some(source, number, HOURS - 2)
    shop.move_clocks(END + 4 * HOUR)
    shop.sent.drain()
    shop.assert_exact()
    # Payments of orders that were joined without one. Their commit is the first one, and the second is that of `paid`.
    shop.send_some("payments", 20)
    before = {source: shop.sent.last_sequence(source) for source in ("paid", "delivered")}
    with SpeedProcess(shop.sent, "--drain", failpoint="kill before append progress 3") as process:
        assert process.wait() == -signal.SIGKILL, process.lines
    assert shop.sent.last_sequence("paid") > before["paid"]
    assert shop.sent.last_sequence("delivered") == before["delivered"]
    for source in ("parcels", "orders", "payments"):
        shop.send_some(source, 5)
    at = BASE + HOUR
    shop.send("orders", Event(50, "ann", at))
    shop.send("parcels", Event(50, "ann", at + 2 * HOUR))
    shop.sent.drain()
    assert shop.stale("orders_paid")
    assert len(shop.stale("parcels_delivered")) > 1, "nothing was taken back: choose other numbers"
    shop.assert_exact()
    shop.sent.recompute()
    shop.assert_exact(final=True)

    # A partner that comes after the recompute: the order without one is taken back, and so is its pair with the parcel.
    shop.send("payments", Event(50, "ann", at + HOUR))
    shop.sent.drain()
    assert shop.stale("orders_paid") == {at}
    assert shop.stale("parcels_delivered") == {at + 2 * HOUR}
    shop.assert_exact()
    shop.sent.recompute()
    shop.assert_exact(final=True)
    emitted = shop.emitted()
    assert set(emitted.values()) == {1}, "each comes once, and is taken back once"
    assert {source for source, _, back in emitted if back} == {"paid", "delivered"}
    shop.sent.command("verify", "--recount")


@pytest.mark.long  # test_changed_lookups.py has a source of a topic.
def test_a_changed_row_of_a_lookup_makes_hours_of_a_joined_source_stale(kafka: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, kafka, "joined_with_rows")
    for source, number in (("orders", 20), ("payments", 15), ("parcels", 20)):
        shop.send_some(source, number)
    shop.move_clocks(END + 4 * HOUR)
    shop.sent.drain()
    shop.assert_exact()
    assert {region for _, region in shop.answer("parcels_delivered")} == {"north", "south", None}
    shop.sent.recompute()
    shop.assert_exact(final=True)

    moved = {**REGIONS, "ann": "west", "cid": "east"}
    write_regions(shop.sent.root, moved)
    shop.sent.command("lookups", "--refresh")
    touched = {
        hour_of(row)
        for row in shop.delivered()
        if row.at < END and row.paid and row.paid.order.customer in ("ann", "cid")
    }
    assert shop.stale("parcels_delivered") == touched
    assert touched < set(shop.states("parcels_delivered"))
    assert not shop.stale("orders_paid"), "it names no lookup"
    assert "lookup region changed" in shop.sent.command("plan")
    assert shop.answer("parcels_delivered") == shop.expected(REGIONS)["parcels_delivered"]
    shop.sent.recompute()
    shop.assert_exact(moved, final=True)
    shop.sent.command("verify", "--recount")
