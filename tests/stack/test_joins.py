"""Two streams joined, in both layers, beside nested loops over all that was sent."""

import random
import signal
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

import serving_layer
from hourline import Project, load_project
from hourline_core.errors import DeclarationError, SourceError
from hourline_core.model.hours import iso_text
from tests.support.project_files import write_project
from tests.support.speed_process import SpeedProcess, wait_until
from tests.support.stack_project import StackProject, leave_rows

BASE = datetime(2026, 3, 2, 8, tzinfo=UTC)
HOURS = 6
END = BASE + timedelta(hours=HOURS + 3)
BEFORE, AFTER = timedelta(minutes=20), timedelta(minutes=100)
FILES = {
    "hourline.yaml": 'kafka: {bootstrap: "${KAFKA}"}\nspark: {master: "local[2]"}\n',
    "sources/orders.yaml": """
        topic: NAME_orders
        partitions: 2
        fields: {number: string, product: string, amount: "decimal(10,2)", tags: array<string>, at: timestamp}
        event_time: at
        id: number
        where: product IS NULL OR product <> 'test'
        grace: 0s
        """,
    "sources/payments.yaml": """
        topic: NAME_payments
        fields: {product: string, method: string, at: timestamp}
        event_time: at
        grace: 0s
        """,
    "sources/paid.yaml": """
        join:
          left: orders
          right: payments
          on: product
          within: {before: 20m, after: 100m}
        grace: 0s
        derived: {minutes: (unix_seconds(payments_event_time) - unix_seconds(orders_event_time)) / 60}
        """,
    "sources/again.yaml": """
        join: {left: paid, right: orders, on: {orders_number: number}, within: 3h}
        grace: 0s
        """,
    "metrics/ordered_again.yaml": "source: again\nmeasures: {pairs: count}\n",
    "sources/next_orders.yaml": """
        join: {left: orders, right: {source: orders, as: next}, on: product, within: {after: 30m}}
        grace: 0s
        """,
    "metrics/reordered.yaml": "source: next_orders\nmeasures: {pairs: count, amount: sum(next_amount)}\n",
    "metrics/paid_orders.yaml": """
        source: paid
        dimensions: {method: payments_method}
        measures: {pairs: count, amount: sum(orders_amount), longest: max(minutes), tagged: sum(size(orders_tags))}
        """,
    "metrics/ordered.yaml": "source: orders\nmeasures: {orders: count}\n",
}
OTHERS = (
    *("sources/again.yaml", "metrics/ordered_again.yaml"),
    *("sources/next_orders.yaml", "metrics/reordered.yaml"),
)
PRODUCTS = ["apple", "pear", "fig", "test", None]


class Order(NamedTuple):
    number: str
    product: str | None
    cents: int
    at: datetime


class Payment(NamedTuple):
    product: str | None
    method: str
    at: datetime


class Shop:
    """A project, and what was sent to it."""

    def __init__(self, folder: Path, kafka: str, name: str, without: tuple[str, ...] = ()) -> None:
        files = {file: text.replace("NAME", name) for file, text in FILES.items() if file not in without}
        self.sent = StackProject(write_project(folder / name, files), kafka, {})
        self.random = random.Random(name)  # noqa: S311 (the same numbers each time)
        self.orders: list[Order] = []
        self.payments: list[Payment] = []

    @property
    def project(self) -> Project:
        return self.sent.project

    def order(self, *orders: Order) -> None:
        self.orders += orders
        self.sent.send(
            "orders",
            (
                {
                    "number": one.number,
                    "product": one.product,
                    "amount": f"{one.cents / 100:.2f}",
                    "tags": ["a"] * (one.cents % 3),
                    "at": iso_text(one.at),
                }
                for one in orders
            ),
        )

    def pay(self, *payments: Payment) -> None:
        self.payments += payments
        self.sent.send("payments", map(self.body_of, payments))

    def body_of(self, one: Payment) -> dict[str, object]:
        """With a note that is not declared."""
        return {"product": one.product, "method": one.method, "note": f"by {one.method}", "at": iso_text(one.at)}

    def declare(self, files: dict[str, str]) -> None:
        """Declare these files in another way."""
        write_project(self.sent.root, files)
        self.sent.project = load_project(self.sent.root, {"KAFKA": self.sent.kafka})

    def some_orders(self, number: int) -> list[Order]:
        """Orders at any time. One in four has the number of an earlier one, in the same hour or another one."""
        chosen = self.random
        return [
            Order(f"o{chosen.randrange(3 * number)}", chosen.choice(PRODUCTS), chosen.randrange(10_000), self._moment())
            for _ in range(number)
        ]

    def some_payments(self, number: int) -> list[Payment]:
        chosen = self.random
        return [
            Payment(chosen.choice(PRODUCTS), chosen.choice(["card", "cash"]), self._moment()) for _ in range(number)
        ]

    def _moment(self) -> datetime:
        return BASE + timedelta(seconds=self.random.randrange(3600 * HOURS))

    def close(self) -> None:
        """Let the clocks of all partitions pass the hours. A leap of a clock needs several records."""
        for step in range(6):
            at = END + timedelta(seconds=step)
            for partition in (0, 1):
                one = Order(f"last{partition}{step}", "none", 0, at)
                self.orders.append(one)
                body: dict[str, object] = {
                    "number": one.number,
                    "product": one.product,
                    "amount": "0",
                    "tags": [],
                    "at": iso_text(at),
                }
                self.sent.send("orders", [body], partition)
            self.pay(Payment("nothing", "card", at))


Row = tuple[int, float, float, int]


def counted_orders(orders: Iterable[Order]) -> list[Order]:
    """The first order of each number and hour, in the order in which they were sent, but those of tests."""
    firsts: dict[tuple[str, datetime], Order] = {}
    for order in orders:
        firsts.setdefault((order.number, order.at.replace(minute=0, second=0)), order)
    return [order for order in firsts.values() if order.product != "test"]


def expected(shop: Shop) -> dict[tuple[datetime, str], Row]:
    """By hour and method: pairs, amount, longest, tagged."""
    found: dict[tuple[datetime, str], list[tuple[Order, Payment]]] = {}
    for order, payment in pairs_of(shop):
        hour = max(order.at, payment.at).replace(minute=0, second=0)
        found.setdefault((hour, payment.method), []).append((order, payment))
    return {
        of: (
            len(pairs),
            round(sum(order.cents for order, _ in pairs) / 100, 2),
            max((payment.at - order.at).total_seconds() / 60 for order, payment in pairs),
            sum(order.cents % 3 for order, _ in pairs),
        )
        for of, pairs in found.items()
    }


def pairs_of(shop: Shop) -> list[tuple[Order, Payment]]:
    return [
        (order, payment)
        for order, payment in product(counted_orders(shop.orders), shop.payments)
        if order.product is not None
        and order.product == payment.product
        and order.at - BEFORE <= payment.at <= order.at + AFTER
    ]


def expected_again(shop: Shop) -> dict[datetime, int]:
    """By hour, the number of orders beside pairs with an order of the same number, at most three hours apart."""
    found: Counter[datetime] = Counter()
    for (order, payment), other in product(pairs_of(shop), counted_orders(shop.orders)):
        at = max(order.at, payment.at)
        if order.number == other.number and abs(other.at - at) <= timedelta(hours=3):
            found[max(at, other.at).replace(minute=0, second=0)] += 1
    return dict(found)


def expected_next(shop: Shop) -> dict[datetime, tuple[int, float]]:
    """By hour, the pairs of an order and another one of its product within 30 minutes from it, and their amount."""
    found: dict[datetime, list[Order]] = {}
    for one, following in product(counted_orders(shop.orders), repeat=2):
        if one is following or one.product is None or one.product != following.product:
            continue
        if timedelta(0) <= following.at - one.at <= timedelta(minutes=30):
            found.setdefault(following.at.replace(minute=0, second=0), []).append(following)
    return {hour: (len(pairs), sum(one.cents for one in pairs) / 100) for hour, pairs in found.items()}


def answer_next(project: Project) -> dict[datetime, tuple[int, float]]:
    with serving_layer.connect(project) as connection:
        rows = connection.sql("SELECT hour, pairs, amount FROM reordered").fetchall()
    return {hour: (pairs, float(amount)) for hour, pairs, amount in rows}


def answer_again(project: Project) -> dict[datetime, int]:
    with serving_layer.connect(project) as connection:
        return dict(connection.sql("SELECT hour, pairs FROM ordered_again").fetchall())


def answer(project: Project) -> dict[tuple[datetime, str], Row]:
    with serving_layer.connect(project) as connection:
        rows = connection.sql("SELECT hour, method, pairs, amount, longest, tagged FROM paid_orders").fetchall()
    return {
        (hour, method): (pairs, float(amount), round(longest, 9), tagged)
        for hour, method, pairs, amount, longest, tagged in rows
    }


def rounded(rows: dict[tuple[datetime, str], Row]) -> dict[tuple[datetime, str], Row]:
    return {of: (pairs, amount, round(longest, 9), tagged) for of, (pairs, amount, longest, tagged) in rows.items()}


def states(project: Project, metric: str = "paid_orders") -> dict[datetime, str]:
    """Of the hours that have closed in the end."""
    end = iso_text(END)
    with serving_layer.connect(project) as connection:
        asked = f"SELECT hour, state FROM hours WHERE name = '{metric}' AND hour < '{end}'"
        return dict(connection.sql(asked).fetchall())


def accounting(shop: Shop) -> tuple[int, int]:
    """The sums of what progress of the joined source has accepted, and of what had no key."""
    rows = shop.sent.table("progress", "paid")
    assert all(row["records"] == row["accepted"] + row["not_taken"] for row in rows)
    return sum(row["accepted"] for row in rows), sum(row["not_taken"] for row in rows)


def test_two_streams_are_joined_in_both_layers_in_whatever_order_they_come(kafka: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, kafka, "joined")
    for orders, payments in ((30, 25), (15, 15)):
        shop.order(*shop.some_orders(orders))
        shop.pay(*shop.some_payments(payments))
        shop.sent.drain()
        assert answer(shop.project) == rounded(expected(shop)), "provisional"
        assert answer_next(shop.project) == expected_next(shop), "provisional, joined with itself"
    shop.close()
    shop.sent.drain()
    assert answer(shop.project) == rounded(expected(shop)), "provisional, after all hours have closed"
    pairs = sum(row[0] for row in expected(shop).values())
    without = sum(one.product is None for one in shop.payments)
    without += len({(one.number, one.at.replace(minute=0, second=0)) for one in shop.orders if one.product is None})
    assert accounting(shop) == (pairs, without)
    assert pairs > 50

    shop.sent.recompute()
    assert answer(shop.project) == rounded(expected(shop)), "final"
    assert answer_next(shop.project) == expected_next(shop), "final, joined with itself"
    assert set(states(shop.project).values()) == {"final"}

    # A partner that comes after the recompute: its pair's hour is revised, and then final again.
    order = Order("late", "pear", 100, BASE + timedelta(hours=2, minutes=50))
    before, before_next = expected(shop), expected_next(shop)
    shop.order(order)
    shop.sent.drain()
    changed = {hour for hour, method in expected(shop) if before.get((hour, method)) != expected(shop)[hour, method]}
    assert changed
    assert answer(shop.project) == rounded(expected(shop)), "revised"
    assert {hour for hour, state in states(shop.project).items() if state == "revised"} == changed
    changed_next = {hour for hour, row in expected_next(shop).items() if before_next.get(hour) != row}
    assert changed_next
    assert answer_next(shop.project) == expected_next(shop), "revised, joined with itself"
    of_next = states(shop.project, "reordered")
    assert {hour for hour, state in of_next.items() if state == "revised"} == changed_next
    shop.sent.recompute()
    assert answer(shop.project) == rounded(expected(shop)), "final again"
    assert answer_next(shop.project) == expected_next(shop), "final again, joined with itself"
    rows = shop.sent.table("progress", "next_orders")
    assert sum(row["accepted"] for row in rows) == sum(pairs for pairs, _ in expected_next(shop).values()) > 20
    keyless = len({(one.number, one.at.replace(minute=0, second=0)) for one in shop.orders if one.product is None})
    assert sum(row["not_taken"] for row in rows) == keyless, "an event without a key counts once"
    assert answer_again(shop.project) == expected_again(shop)
    assert set(states(shop.project).values()) == {"final"}

    explained = shop.sent.command("explain", "paid_orders", f"{max(changed):%Y-%m-%dT%H}")
    assert "orders[0] offset" in explained
    for arguments in (["status"], ["check"], ["graph"], ["verify"], ["verify", "--recount"], ["plan"]):
        shop.sent.command(*arguments)
    shown = " ".join(shop.sent.command("status", "--partitions", "--source", "paid").split())
    assert "paid payments 0 4 0" in shown
    assert all(f"yes {last} {END:%Y-%m-%d %H:%M}" in shown for last in (12, 6)), "the last ones alone"


@pytest.mark.heavy
@pytest.mark.long  # test_derived_inputs.py has gaps, test_decoding_anew.py fields that are declared later.
def test_a_field_of_an_input_may_be_declared_and_a_gap_of_it_is_passed_on(kafka: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, kafka, "changed", without=OTHERS)
    shop.pay(*shop.some_payments(20))
    shop.sent.drain()
    declared = (
        FILES["sources/payments.yaml"]
        .replace("NAME", "changed")
        .replace("method: string,", "method: string, note: string,")
    )
    shop.declare({"sources/payments.yaml": declared})
    shop.order(*shop.some_orders(30))
    shop.sent.drain()
    assert answer(shop.project) == rounded(expected(shop))
    with serving_layer.connect(shop.project) as connection:
        notes = connection.sql("SELECT DISTINCT payments_note = 'by ' || payments_method FROM events_paid").fetchall()
    assert notes == [(True,)], "earlier partners were decoded anew"

    random_id = FILES["sources/orders.yaml"].replace("NAME", "changed").replace("id: number", "id: md5(number)")
    shop.declare({"sources/orders.yaml": random_id})
    with pytest.raises(DeclarationError, match=r"join\.left: source 'orders' has `id: md5"):
        shop.sent.drain()
    shop.declare({"sources/orders.yaml": FILES["sources/orders.yaml"].replace("NAME", "changed")})
    joins = FILES["sources/paid.yaml"].replace("100m", "101m")
    shop.declare({"sources/paid.yaml": joins})
    with pytest.raises(
        SourceError, match=r"is joined of .* in another way than the events in its archive were made: changed is join"
    ):
        shop.sent.drain()
    with pytest.raises(SourceError, match=r"is joined of .* in another way than the events in its archive were made"):
        shop.sent.recompute()
    assert {row["metric"] for row in shop.sent.table("coverage", "")} == {"ordered"}, "other sources do not wait"
    shop.declare({"sources/paid.yaml": FILES["sources/paid.yaml"]})

    shop.sent.recompute()
    assert answer(shop.project) == rounded(expected(shop))
    lost = shop.some_payments(5)
    shop.sent.send("payments", (shop.body_of(one) for one in lost))
    delete_records(kafka, "changed_payments")
    shop.pay(*shop.some_payments(5))
    losses: list[str] = []
    shop.sent.drain(losses)
    assert len(losses) == 1
    assert answer(shop.project) == rounded(expected(shop))
    assert "incomplete" in states(shop.project).values()
    assert "paid" in shop.sent.command("gaps")


def delete_records(kafka: str, topic: str) -> None:
    """Let Kafka have no record of the topic, which has one partition."""
    client = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
    everything = TopicPartition(topic, 0, -1)
    client.delete_records([everything])[everything].result(60)


@pytest.mark.heavy
@pytest.mark.long  # test_joins_of_joins.py kills one between the commits of two joins.
def test_a_kill_at_any_moment_loses_no_pair_and_joins_none_twice(kafka: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, kafka, "killed")
    shop.order(*shop.some_orders(30))
    shop.pay(*shop.some_payments(5))
    shop.sent.drain()
    # The first commit of a table is that of the payments, the second one that of the pairs.
    for place in ("before append progress 2", "after append progress 2"):
        shop.pay(*shop.some_payments(10))
        with SpeedProcess(shop.sent, "--drain", failpoint=f"kill {place}") as process:
            assert process.wait() == -signal.SIGKILL, process.lines
    # As if it had been killed after the archive's commit.
    leave_rows(Path(shop.project.tables) / "events" / "paid", shop.sent.last_sequence("paid") + 7)
    with SpeedProcess(shop.sent) as process:
        process.wait_until_ready()
        before = shop.sent.last_sequence("paid")
        shop.order(*shop.some_orders(10))
        shop.pay(*shop.some_payments(10))
        wait_until(lambda: shop.sent.last_sequence("paid") > before, "nothing is joined")
        process.kill()
    shop.sent.drain()
    assert answer(shop.project) == rounded(expected(shop))
    assert accounting(shop)[0] == sum(row[0] for row in expected(shop).values()) > 30
    assert answer_next(shop.project) == expected_next(shop)
    assert answer_again(shop.project) == expected_again(shop)
    assert sum(expected_again(shop).values()) > 30
