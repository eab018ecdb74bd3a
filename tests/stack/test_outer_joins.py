"""Left and full joins in both layers, beside nested loops over all that was sent."""

import random
import signal
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

import serving_layer
from hourline import Project
from hourline_core.model.hours import iso_text
from tests.support.project_files import write_project
from tests.support.speed_process import SpeedProcess
from tests.support.stack_project import StackProject, leave_rows

pytestmark = pytest.mark.long  # test_joins_of_joins.py takes the pairs of a left join back.

BASE = datetime(2026, 3, 2, 8, tzinfo=UTC)
HOURS = 6
END = BASE + timedelta(hours=HOURS)
BEFORE, AFTER = timedelta(minutes=20), timedelta(minutes=100)
FILES = {
    "hourline.yaml": 'kafka: {bootstrap: "${KAFKA}"}\nspark: {master: "local[2]"}\n',
    "sources/orders.yaml": """
        topic: NAME_orders
        fields: {number: string, product: string, amount: int, at: timestamp}
        event_time: at
        id: number
        grace: 0s
        """,
    "sources/payments.yaml": """
        topic: NAME_payments
        fields: {number: string, product: string, at: timestamp}
        event_time: at
        grace: 0s
        """,
    "sources/of_orders.yaml": """
        join: {left: orders, right: payments, on: product, within: {before: 20m, after: 100m}, type: left}
        grace: 0s
        """,
    "sources/of_both.yaml": """
        join: {left: orders, right: payments, on: product, within: {before: 20m, after: 100m}, type: full}
        grace: 0s
        """,
    "sources/of_orders_alone.yaml": """
        join: {left: orders, right: {source: orders, as: next}, on: product, within: {after: 30m}, type: full}
        grace: 0s
        """,
    "metrics/reordered.yaml": """
        source: of_orders_alone
        measures: {rows: count, last: count where next_at IS NULL, first: count where orders_at IS NULL}
        """,
    "metrics/ordered.yaml": """
        source: of_orders
        measures:
          rows: count
          unpaid: count where payments_at IS NULL
          amount: sum(orders_amount)
          least: min(orders_amount) where payments_at IS NULL
          products: distinct(orders_product)
        """,
    "metrics/sold.yaml": """
        source: of_both
        dimensions: {product: "coalesce(orders_product, payments_product)"}
        measures: {rows: count, unpaid: count where payments_at IS NULL, unordered: count where orders_at IS NULL}
        """,
}
PRODUCTS = ["apple", "pear", "fig", "plum", None]


class Event(NamedTuple):
    number: str
    product: str | None
    amount: int
    at: datetime

    @property
    def hour(self) -> datetime:
        return self.at.replace(minute=0, second=0)


Row = tuple[Event | None, Event | None]


class Shop:
    """A project, and what was sent to it."""

    def __init__(self, folder: Path, kafka: str, name: str) -> None:
        files = {file: text.replace("NAME", name) for file, text in FILES.items()}
        self.sent = StackProject(write_project(folder / name, files), kafka, {})
        self.random = random.Random(name)  # noqa: S311 (the same numbers each time)
        self.events: dict[str, list[Event]] = {"orders": [], "payments": []}

    @property
    def project(self) -> Project:
        return self.sent.project

    def send(self, source: str, *events: Event) -> None:
        self.events[source] += events
        self.sent.send(source, ({**one._asdict(), "at": iso_text(one.at)} for one in events))

    def some(self, source: str, number: int, hours: tuple[int, int] = (0, HOURS)) -> list[Event]:
        """Events at any time of these hours. One in four has the number of an earlier one."""
        chosen, first = self.random, BASE + timedelta(hours=hours[0])
        seconds = 3600 * (hours[1] - hours[0])
        return [
            Event(
                f"{source}{chosen.randrange(3 * number)}",
                chosen.choice(PRODUCTS),
                chosen.randrange(100),
                first + timedelta(seconds=chosen.randrange(seconds)),
            )
            for _ in range(number)
        ]

    def move_clocks(self, to: datetime) -> None:
        """Let both clocks pass a time. A leap of a clock needs several records."""
        for source in self.events:
            self.send(
                source,
                *(
                    Event(f"{source}{to:%d%H}{step}", f"none of {source}", 0, to + timedelta(seconds=step))
                    for step in range(6)
                ),
            )

    def rows(self, name: str) -> list[Row]:
        """What is joined once the clocks have passed everything before END: nested loops."""
        firsts: dict[tuple[str, datetime], Event] = {}
        for one in self.events["orders"]:
            firsts.setdefault((one.number, one.hour), one)
        orders, payments = list(firsts.values()), self.events["payments"]
        if name == "reordered":
            return self._reordered(orders)
        pairs: list[Row] = [
            (one, other)
            for one in orders
            for other in payments
            if one.product is not None and one.product == other.product and -BEFORE <= other.at - one.at <= AFTER
        ]
        paid, ordered = {id(one) for one, _ in pairs}, {id(other) for _, other in pairs}
        alone: list[Row] = [(one, None) for one in orders if id(one) not in paid]
        if name == "sold":
            alone += [(None, other) for other in payments if id(other) not in ordered]
        return [row for row in pairs + alone if hour_of(row) < END]

    def _reordered(self, orders: list[Event]) -> list[Row]:
        """What orders are joined with one another: an order and each of its product within 30 minutes from it."""
        pairs: list[Row] = [
            (one, other)
            for one, other in product(orders, repeat=2)
            if one is not other
            and one.product is not None
            and one.product == other.product
            and timedelta(0) <= other.at - one.at <= timedelta(minutes=30)
        ]
        followed, following = {id(one) for one, _ in pairs}, {id(other) for _, other in pairs}
        last: list[Row] = [(one, None) for one in orders if id(one) not in followed]
        first: list[Row] = [(None, one) for one in orders if id(one) not in following]
        return [row for row in pairs + last + first if hour_of(row) < END]


def hour_of(row: Row) -> datetime:
    """The hour of the later one."""
    return max(one.hour for one in row if one)


def of_ordered(rows: list[Row]) -> dict[object, tuple[object, ...]]:
    """By hour, the measures of `ordered`."""
    by_hour: dict[object, list[Row]] = {}
    for row in rows:
        by_hour.setdefault(hour_of(row), []).append(row)
    return {
        hour: (
            len(of),
            sum(other is None for _, other in of),
            sum(one.amount for one, _ in of if one),
            min((one.amount for one, other in of if one and other is None), default=None),
            len({one.product for one, _ in of if one and one.product}),
        )
        for hour, of in by_hour.items()
    }


def of_sold(rows: list[Row]) -> dict[object, tuple[object, ...]]:
    """By hour and product, the measures of `sold`."""
    found: dict[object, list[Row]] = {}
    for row in rows:
        found.setdefault((hour_of(row), next(one.product for one in row if one)), []).append(row)
    return {
        of: (len(rows), sum(other is None for _, other in rows), sum(one is None for one, _ in rows))
        for of, rows in found.items()
    }


def of_reordered(rows: list[Row]) -> dict[object, tuple[object, ...]]:
    """By hour, the measures of `reordered`."""
    hours = {hour_of(row): [one for one in rows if hour_of(one) == hour_of(row)] for row in rows}
    return {
        hour: (len(of), sum(other is None for _, other in of), sum(one is None for one, _ in of))
        for hour, of in hours.items()
    }


EXPECTED = {"ordered": of_ordered, "sold": of_sold, "reordered": of_reordered}
COLUMNS = {
    "ordered": "hour, rows, unpaid, amount, least, products",
    "sold": "hour, product, rows, unpaid, unordered",
    "reordered": "hour, rows, last, first",
}
SOURCES = ("of_orders", "of_both", "of_orders_alone")


def answer(project: Project, name: str) -> dict[object, tuple[object, ...]]:
    """By hour before END, or hour and product, the measures."""
    with serving_layer.connect(project) as connection:
        rows = connection.sql(f"SELECT {COLUMNS[name]} FROM {name} WHERE hour < '{iso_text(END)}'").fetchall()
    return {(row[:2] if name == "sold" else row[0]): row[2 if name == "sold" else 1 :] for row in rows}


def states(project: Project, name: str) -> dict[datetime, str]:
    with serving_layer.connect(project) as connection:
        asked = f"SELECT hour, state FROM hours WHERE name = '{name}' AND hour < '{iso_text(END)}'"
        return dict(connection.sql(asked).fetchall())


def assert_exact(shop: Shop, *, final: bool) -> set[str]:
    """Each hour that is not stale is exact. Returns the states of all."""
    for name, expected in EXPECTED.items():
        told, wanted, of_hours = answer(shop.project, name), expected(shop.rows(name)), states(shop.project, name)
        stale = {hour for hour, state in of_hours.items() if state == "stale"}

        def exact(rows: dict[object, tuple[object, ...]], stale: set[datetime] = stale) -> dict[object, object]:
            return {of: row for of, row in rows.items() if (of[0] if isinstance(of, tuple) else of) not in stale}

        assert exact(told) == exact(wanted), name
        assert not final or set(of_hours.values()) == {"final"}
    return {state for name in EXPECTED for state in states(shop.project, name).values()}


def emitted(shop: Shop, source: str) -> Counter[tuple[str, bool]]:
    """The number of times that each event without a partner was archived, and taken back."""
    with serving_layer.connect(shop.project) as connection:
        rows = connection.sql(
            f"SELECT unmatched, duplicate, count(*) FROM events_{source} WHERE unmatched IS NOT NULL GROUP BY ALL"
        ).fetchall()
    return Counter({(of, back): times for of, back, times in rows})


def test_events_without_a_partner_are_joined_and_taken_back(kafka: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, kafka, "outer")
    shop.send("orders", *shop.some("orders", 40, (0, 4)))
    shop.send("payments", *shop.some("payments", 5, (0, 4)))
    shop.move_clocks(BASE + timedelta(hours=5))
    shop.sent.drain()
    for source in ("of_orders", "of_both"):
        clock = max(row["clock"] for row in shop.sent.table("progress", source) if row["clock"])
        assert clock == BASE + timedelta(hours=5, seconds=5) - AFTER, "it is behind by the time that an event waits"
    shop.send("payments", *shop.some("payments", 8))
    shop.send("orders", *shop.some("orders", 10))
    shop.move_clocks(END + 2 * AFTER)
    shop.sent.drain()
    assert "stale" in assert_exact(shop, final=False), "nobody came late: choose other numbers"
    shop.sent.recompute()
    assert_exact(shop, final=True)

    # Partners of events that were joined without one, after the recompute.
    fig = Event("late", "lonely", 7, BASE + timedelta(hours=1, minutes=50))
    shop.send("orders", fig)
    shop.sent.drain()
    assert states(shop.project, "ordered")[fig.hour] == "revised"
    assert_exact(shop, final=False)
    shop.sent.recompute()
    shop.send("orders", Event("later", "lonely", 0, fig.at + timedelta(minutes=10)))
    shop.send("payments", Event("late", "lonely", 0, fig.at + timedelta(hours=1)))
    shop.sent.drain()
    for name in ("ordered", "reordered"):
        of_hours = states(shop.project, name)
        assert {hour: state for hour, state in of_hours.items() if state != "final"} == {
            fig.hour: "stale",
            fig.hour + timedelta(hours=1): "revised",
        }
    assert "events taken back" in shop.sent.command("plan")
    assert_exact(shop, final=False)
    shop.sent.recompute()
    assert_exact(shop, final=True)
    for source in SOURCES:
        assert set(emitted(shop, source).values()) == {1}
    for arguments in (["status"], ["check"], ["verify"], ["verify", "--recount"], ["drift"]):
        shop.sent.command(*arguments)
    explained = shop.sent.command("explain", "ordered", f"{fig.hour:%Y-%m-%dT%H}")
    assert "taken back" in explained


def test_a_kill_at_the_commits_joins_no_event_twice_without_a_partner(kafka: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, kafka, "outer_killed")
    shop.send("orders", *shop.some("orders", 30, (0, 3)))
    shop.send("payments", *shop.some("payments", 5, (0, 3)))
    shop.sent.drain()
    for number, place in enumerate(("after append events 2", "before append progress 3", "after append progress 3")):
        shop.send("payments", *shop.some("payments", 10))
        shop.send("orders", *shop.some("orders", 10))
        shop.move_clocks(BASE + timedelta(hours=4 + 2 * number))
        with SpeedProcess(shop.sent, "--drain", failpoint=f"kill {place}") as process:
            assert process.wait() == -signal.SIGKILL, process.lines
    leave_rows(Path(shop.project.tables) / "events" / "of_orders", shop.sent.last_sequence("of_orders") + 7)
    shop.move_clocks(END + 2 * AFTER)
    shop.sent.drain()
    assert_exact(shop, final=False)
    shop.sent.recompute()
    assert_exact(shop, final=True)
    for source in SOURCES:
        assert set(emitted(shop, source).values()) == {1}
