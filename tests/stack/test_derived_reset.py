"""Derived sources that are declared in another way: a reset makes them anew, wherever it was killed before."""

import random
from collections.abc import Iterator, Mapping, Set
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pytest

import serving_layer
from batch_layer.plan import plan
from hourline import load_project
from hourline_core.errors import SourceError, UsageError
from hourline_core.ledger.decodings import refuse_other_derivation
from hourline_core.ledger.layout import Layout
from hourline_core.model.hours import iso_text
from hourline_core.storage.opening import open_table
from serving_layer.change_feed import changed_hours
from speed_layer.reset import DerivedReset
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject

pytestmark = pytest.mark.heavy

BASE = datetime(2026, 3, 2, 8, tzinfo=UTC)
HOURS = 5
FILES = {
    "hourline.yaml": 'kafka: {bootstrap: "${KAFKA}"}\nspark: {master: "local[2]"}\n',
    "sources/orders.yaml": """
        topic: NAME_orders
        fields: {number: int, product: string, cents: int, note: json, at: timestamp}
        event_time: at
        grace: 0s
        """,
    "sources/payments.yaml": """
        topic: NAME_payments
        fields: {product: string, method: string, at: timestamp}
        event_time: at
        grace: 0s
        """,
    "sources/paid.yaml": """
        join: {left: orders, right: payments, on: product, within: {before: 20m, after: 100m}}
        grace: 0s
        """,
    "sources/again.yaml": """
        join: {left: paid, right: orders, on: {orders_number: number}, within: 3h}
        grace: 0s
        """,
    "sources/newest.yaml": "snapshot: {of: orders, key: product, columns: cents}\ngrace: 0s\n",
    "metrics/paid_orders.yaml": """
        source: paid
        dimensions: {method: payments_method}
        measures: {rows: count, cents: sum(orders_cents)}
        """,
    "metrics/taken_out.yaml": "source: newest\nmeasures: {rows: count}\n",
    "metrics/ordered_again.yaml": "source: again\nmeasures: {rows: count}\n",
    "metrics/ordered.yaml": "source: orders\nmeasures: {rows: count}\n",
    "metrics/newest_orders.yaml": "source: newest\nmeasures: {rows: count, cents: sum(cents)}\n",
}
DERIVED = ("paid_orders", "ordered_again", "newest_orders")
IN_ANOTHER_WAY = {
    "sources/paid.yaml": """
        join: {type: left, left: orders, right: payments, on: product, within: {before: 10m, after: 30m}}
        grace: 0s
        """,
    "sources/newest.yaml": """
        snapshot: {of: orders, key: product, columns: cents, deleted: cents < 30}
        grace: 0s
        """,
    # A field has another type in both of them, and some orders are rejected now.
    "sources/orders.yaml": FILES["sources/orders.yaml"].replace("cents: int, note: json", "cents: double, note: int"),
}

NOTES: list[int | str] = [1, 2, "x"]
LEFT_BEFORE, LEFT_AFTER = timedelta(minutes=10), timedelta(minutes=30)


class Order(NamedTuple):
    number: int
    product: str
    cents: int
    note: int | str
    at: datetime


class Payment(NamedTuple):
    product: str
    method: str
    at: datetime


Rows = list[tuple[object, ...]]


class Shop:
    """A project, and what was sent to it."""

    def __init__(self, folder: Path, kafka: str, name: str) -> None:
        self.name = name
        self.sent = StackProject(write_project(folder / "shop", self.named(FILES)), kafka, {})
        self.random = random.Random(7)  # noqa: S311 (the same numbers each time)
        self.orders: list[Order] = []
        self.payments: list[Payment] = []

    def trade(self, orders: int, payments: int) -> None:
        """Send orders and payments of any time."""
        chosen = self.random
        new = [
            Order(
                chosen.randrange(9),
                chosen.choice("abcd"),
                chosen.randrange(100),
                NOTES[chosen.randrange(3)],
                self._moment(),
            )
            for _ in range(orders)
        ]
        paid = [
            Payment(chosen.choice("abcd"), chosen.choice(["card", "cash"]), self._moment()) for _ in range(payments)
        ]
        self._send(new, paid)

    def close(self) -> None:
        """Let the clocks pass the hours. A leap of a clock needs several records."""
        ends = [BASE + timedelta(hours=HOURS + 3, seconds=second) for second in range(6)]
        self._send([Order(100, "none", 0, 1, end) for end in ends], [Payment("nothing", "card", end) for end in ends])

    def _send(self, orders: list[Order], payments: list[Payment]) -> None:
        self.orders += orders
        self.payments += payments
        self.sent.send("orders", ({**one._asdict(), "at": iso_text(one.at)} for one in orders))
        self.sent.send("payments", ({**one._asdict(), "at": iso_text(one.at)} for one in payments))

    def _moment(self) -> datetime:
        return BASE + timedelta(seconds=self.random.randrange(3600 * HOURS))

    def named(self, files: Mapping[str, str]) -> dict[str, str]:
        """The same files with the topics of this shop."""
        return {file: text.replace("NAME", self.name) for file, text in files.items()}

    def declare(self, files: Mapping[str, str]) -> None:
        """Declare these files in another way."""
        write_project(self.sent.root, self.named(files))
        self.sent.project = load_project(self.sent.root, {"KAFKA": self.sent.kafka})

    def left_joined(self) -> Rows:
        """The rows of ``paid_orders`` as it is declared last, by nested loops, for the hours that close."""
        found: dict[tuple[datetime, str | None], list[int]] = {}
        cells: list[tuple[datetime, str | None]]
        for order in (one for one in self.orders if one.note != "x"):
            partners = [
                one
                for one in self.payments
                if one.product == order.product and order.at - LEFT_BEFORE <= one.at <= order.at + LEFT_AFTER
            ]
            cells = [(max(order.at, one.at), one.method) for one in partners] or [(order.at, None)]
            for at, method in cells:
                found.setdefault((at.replace(minute=0, second=0), method), []).append(order.cents)
        rows: Rows = [(hour, method, len(of), sum(of)) for (hour, method), of in found.items() if hour < self.end]
        return sorted(rows, key=str)

    @property
    def end(self) -> datetime:
        return BASE + timedelta(hours=HOURS + 3)


class Answer(NamedTuple):
    """Of the hours that close."""

    rows: Rows
    states: dict[object, str]

    def without(self, hours: Set[object]) -> Rows:
        return [row for row in self.rows if row[0] not in hours]


def ask(sent: StackProject) -> dict[str, Answer]:
    """The answer for each metric."""
    until = f"hour < '{iso_text(BASE + timedelta(hours=HOURS + 3))}'"
    with serving_layer.connect(sent.project) as connection:

        def answer(metric: str) -> Answer:
            try:
                rows = connection.sql(f"SELECT * EXCLUDE (state) FROM {metric} WHERE {until}").fetchall()
            except UsageError as error:  # as of a new source
                assert str(error).startswith(f"metric '{metric}' has no tables yet"), error
                return Answer([], {})
            states = connection.sql(f"SELECT hour, state FROM hours WHERE name = '{metric}' AND {until}").fetchall()
            return Answer(sorted(rows, key=str), dict(states))

        return {metric: answer(metric) for metric in DERIVED}


def refuse(sent: StackProject, source: str) -> str:
    """Why the events of a source are not read. Empty: they are."""
    layout, declared = Layout.of(sent.project), sent.project.sources[source]
    try:
        refuse_other_derivation(open_table(layout.events(declared), layout.storage_options), declared)
    except SourceError as error:
        return str(error)
    return ""


class CrashError(Exception):
    pass


def crashes(sent: StackProject, source: str) -> Iterator[int]:
    """Reset ``source`` again and again. Each dies before one commit more, until one is done."""
    for survived in count():
        commits = count()

        def reached(place: str, survived: int = survived, commits: Iterator[int] = commits) -> None:
            if place.startswith("before") and next(commits) == survived:
                raise CrashError

        planned = DerivedReset(sent.project, sent.project.sources[source])
        try:
            with patch("hourline_core.runtime.failpoints.visit", reached):
                planned.apply(datetime.now(UTC))
        except CrashError:
            yield survived
        else:
            return


@pytest.mark.parametrize("has_more", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_reset_makes_anew_what_is_declared_in_another_way(kafka: str, tmp_path: Path, has_more: bool) -> None:
    shop = Shop(tmp_path, kafka, f"anew_{has_more}".lower())
    sent = shop.sent
    shop.trade(30, 20)
    shop.close()
    sent.drain()
    sent.recompute()
    shop.trade(5, 5)
    sent.drain()
    before = see_it_refused(shop)
    token = reset_newest(sent)
    reset_paid(sent, before, asked_after=1 if has_more else 4)
    with serving_layer.connect(sent.project, as_of=token) as then:
        assert then.token == token
        assert then.sql("SELECT sum(rows) FROM ordered").fetchall() == [(len(shop.orders),)], "others are as they were"

    shop.declare({"metrics/taken_out.yaml": FILES["metrics/taken_out.yaml"]})
    sent.drain()
    anew = ask(sent)
    assert anew["paid_orders"].rows == shop.left_joined(), "provisional"
    fresh = StackProject(write_project(tmp_path / "fresh", shop.named(FILES | IN_ANOTHER_WAY)), kafka, {})
    fresh.drain()
    assert anew == ask(fresh), "as if it had never been declared in another way"
    assert all(anew[metric].rows != before[metric].rows for metric in DERIVED)
    see_all_replaced(sent, token)
    assert {item.metric for item in plan(sent.project)} >= {*DERIVED, "taken_out"}
    if has_more:
        see_it_recomputed(sent, anew)


def see_it_recomputed(sent: StackProject, anew: Mapping[str, Answer]) -> None:
    """The final results are the provisional ones."""
    sent.recompute()
    assert {metric: one.rows for metric, one in ask(sent).items()} == {of: one.rows for of, one in anew.items()}
    assert {state for one in ask(sent).values() for state in one.states.values()} == {"final"}
    for arguments in (["verify"], ["verify", "--recount"], ["check"], ["status"]):
        sent.command(*arguments)


def see_it_refused(shop: Shop) -> dict[str, Answer]:
    """Declare all in another way. Returns the answer, which stays until something is reset."""
    sent = shop.sent
    shop.declare({"sources/paid.yaml": FILES["sources/paid.yaml"].replace("100m", "101m")})
    with pytest.raises(SourceError, match=r"changed is join.*; declare that again as .* `hourline reset again`"):
        sent.recompute()
    (sent.root / "metrics" / "taken_out.yaml").unlink()
    shop.declare(IN_ANOTHER_WAY)
    with pytest.raises(SourceError, match=r"is snapshot, fields of source 'orders'; .* `hourline reset newest`"):
        sent.drain()
    before = ask(sent)
    assert all(one.rows for one in before.values())
    listed = sent.command("reset", "paid", "--dry-run")
    for touched in ("progress/again", "progress/paid", "events/paid", "row(s) of source paid are deleted"):
        assert touched in listed

    earliest = IN_ANOTHER_WAY["sources/orders.yaml"].replace("grace:", "earliest: 2020-01-01T00:00:00Z\n        grace:")
    shop.declare({"sources/orders.yaml": earliest})
    with pytest.raises(SourceError, match=r"source 'again' cannot read 'orders', .* declare it under another name"):
        DerivedReset(sent.project, sent.project.sources["paid"])
    shop.declare(IN_ANOTHER_WAY)
    assert ask(sent) == before, "nothing has changed"
    return before


def reset_newest(sent: StackProject) -> str:
    """Returns the token of the answer before."""
    with serving_layer.connect(sent.project) as old:
        sent.command("reset", "newest", "--yes")
        with serving_layer.connect(sent.project) as new:
            assert changed_hours(old, new) is None, "a client has to forget hours"
        return old.token


def reset_paid(sent: StackProject, before: dict[str, Answer], asked_after: int) -> None:
    """Reset it, with what is made of it, after it has died before each commit. Each ``asked_after`` times, look at all
    answers.
    """
    survived, refused = 0, set[str]()
    for survived in crashes(sent, "paid"):
        refused |= {refuse(sent, source) for source in ("again", "paid")}
        if survived % asked_after:
            continue
        now = ask(sent)
        assert now["newest_orders"].rows == []
        for metric in ("paid_orders", "ordered_again"):
            # What a reset has begun to delete is there as it was, missing, or not there at all.
            missing = {hour for hour, state in now[metric].states.items() if state == "missing"}
            gone = before[metric].states.keys() - now[metric].states.keys()
            assert now[metric].without(missing) == before[metric].without(missing | gone), (survived, metric)
    assert survived > 15
    for source in ("again", "paid"):
        assert f"a reset of source '{source}' was interrupted; let it finish: `hourline reset {source}`" in refused
    assert all(one.rows == [] for one in ask(sent).values())


def see_all_replaced(sent: StackProject, token: str) -> None:
    """All results since ``token`` are new ones."""
    with serving_layer.connect(sent.project, since=token) as connection:
        replaced = connection.sql("SELECT DISTINCT metric FROM changes WHERE change = 'replace'").fetchall()
        counted = "SELECT count(*) FROM changes WHERE metric = 'paid_orders' AND change = 'insert' AND measure = 'rows'"
        assert connection.sql(counted).fetchall() == connection.sql("SELECT count(*) FROM paid_orders").fetchall()
        causes = connection.sql("SELECT DISTINCT unnest(causes) FROM changes WHERE metric = 'paid_orders'").fetchall()
    assert {metric for (metric,) in replaced} == {*DERIVED, "taken_out"}
    assert causes == [("reset",)]
