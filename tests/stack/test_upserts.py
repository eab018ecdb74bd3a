"""Corrections in both layers: of each payment, the newest version counts, beside a pass over all that was sent."""

import json
import random
import signal
from collections import Counter
from collections.abc import Iterable
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
HOUR = timedelta(hours=1)
HOURS = 6
END = BASE + HOURS * HOUR
WITHIN = 2 * HOUR
FILES = {
    "hourline.yaml": 'kafka: {bootstrap: "${KAFKA}"}\nspark: {master: "local[2]"}\n',
    "sources/payments.yaml": """
        topic: NAME_payments
        key_type: string
        fields: {payment: int, revision: int, shop: string, amount: int, at: timestamp}
        event_time: at
        """,
    "sources/newest.yaml": """
        upsert: {of: payments, version: revision, within: 2h, columns: [shop, amount], deleted: "shop = 'void'"}
        """,
    "sources/newest_by_number.yaml": """
        upsert: {of: payments, key: payment, version: revision, within: 2h, columns: amount}
        """,
    "metrics/sales.yaml": """
        source: newest
        dimensions: {shop: shop}
        measures: {payments: count, amount: sum(amount), least: min(amount)}
        """,
    "metrics/numbers.yaml": """
        source: newest_by_number
        measures: {payments: count, amount: sum(amount)}
        """,
}


class Payment(NamedTuple):
    """A version of a payment. Without a shop, it is a tombstone."""

    key: str | None
    payment: int | None
    revision: int
    shop: str | None
    amount: int
    at: datetime


class Till:
    """A project, and what was sent to it."""

    def __init__(self, folder: Path, kafka: str, name: str) -> None:
        files = {file: text.replace("NAME", name) for file, text in FILES.items()}
        self.sent = StackProject(write_project(folder / name, files), kafka, {})
        self.name, self.random = name, random.Random(name)  # noqa: S311 (the same numbers each time)
        self.payments: list[Payment] = []

    @property
    def project(self) -> Project:
        return self.sent.project

    def send(self, *payments: Payment) -> None:
        for one in payments:
            self.payments.append(one)
            value = None if one.shop is None else json.dumps({**one._asdict(), "at": iso_text(one.at)})
            milliseconds = int(one.at.timestamp() * 1000)
            self.sent.producer.produce(f"{self.name}_payments", value, one.key, partition=0, timestamp=milliseconds)
        self.sent.producer.flush()

    def some(self, number: int, hours: int = HOURS) -> list[Payment]:
        """Versions of few payments, at any time of the first hours: most are corrections of others."""
        chosen = self.random
        return [
            Payment(
                chosen.choice([*"abcdefgh", None]),
                chosen.choice([*range(12), None]),
                chosen.randrange(5),
                chosen.choice(["north", "south", "void", None]) if chosen.random() < 0.4 else "north",
                chosen.randrange(100),
                BASE + timedelta(seconds=chosen.randrange(3600 * hours)),
            )
            for _ in range(number)
        ]

    def move_clock(self, to: datetime) -> None:
        """Let the clock pass a time. A leap of a clock needs several records, which have no key."""
        self.send(*(Payment(None, None, 0, "clock", 0, to + timedelta(seconds=step)) for step in range(6)))

    def newest(self, *, by_number: bool) -> Iterable[Payment]:
        """The versions that count. A tombstone has no number."""
        known = [
            (one.payment if by_number else one.key, place, one)
            for place, one in enumerate(self.payments)
            if one.shop is not None or not by_number
        ]
        for key, place, one in known:
            if key is None or one.shop is None or (one.shop == "void" and not by_number):
                continue
            others = [(at, of) for of_key, at, of in known if of_key == key and abs(of.at - one.at) <= WITHIN]
            if not any(
                at > place if of.shop is None else (of.revision, -at) > (one.revision, -place) for at, of in others
            ):
                yield one

    def expected(self) -> dict[str, dict[tuple[object, ...], tuple[object, ...]]]:
        sales: dict[tuple[object, ...], list[int]] = {}
        numbers: dict[tuple[object, ...], list[int]] = {}
        for by_number, cells in ((False, sales), (True, numbers)):
            for one in self.newest(by_number=by_number):
                hour = one.at.replace(minute=0, second=0, microsecond=0)
                cells.setdefault((hour,) if by_number else (hour, one.shop), []).append(one.amount)
        return {
            "sales": {of: (len(amounts), sum(amounts), min(amounts)) for of, amounts in sales.items()},
            "numbers": {of: (len(amounts), sum(amounts)) for of, amounts in numbers.items()},
        }

    def states(self, metric: str = "sales") -> dict[datetime, str]:
        with serving_layer.connect(self.project) as connection:
            asked = f"SELECT hour, state FROM hours WHERE name = '{metric}' AND hour < '{iso_text(END)}'"
            return {hour: state for hour, state in connection.sql(asked).fetchall() if state != "open"}

    def assert_exact(self, *, final: bool = False) -> set[str]:
        """Each hour that is not stale is exact. Returns the states of all."""
        found = set()
        wanted = self.expected()
        for name, dimensions in (("sales", 2), ("numbers", 1)):
            with serving_layer.connect(self.project) as connection:
                rows = connection.sql(f"SELECT * EXCLUDE (state) FROM {name}").fetchall()
            states = self.states(name)
            stale = {hour for hour, state in states.items() if state == "stale"}
            told = {row[:dimensions]: row[dimensions:] for row in rows if row[0] not in stale}
            assert told == {of: row for of, row in wanted[name].items() if of[0] not in stale}, name
            assert not final or set(states.values()) <= {"final", "empty"}, name
            found |= set(states.values())
        return found

    def emitted(self) -> Counter[tuple[object, ...]]:
        """The number of times that each version was archived, and taken back."""
        with serving_layer.connect(self.project) as connection:
            rows = connection.sql("SELECT upsert_row, duplicate, count(*) FROM events_newest GROUP BY ALL").fetchall()
        return Counter({row[:-1]: row[-1] for row in rows})


def test_of_each_payment_the_newest_version_counts(kafka: str, tmp_path: Path) -> None:
    till = Till(tmp_path, kafka, "upserts")
    till.send(*sorted(till.some(60, 4), key=lambda one: one.at))
    till.sent.drain()
    till.assert_exact()
    new = Payment("new", 50, 1, "north", 7, BASE + timedelta(minutes=30))
    till.send(*till.some(60), new)
    till.move_clock(END + 3 * HOUR)
    till.sent.drain()
    assert "stale" in till.assert_exact(), "no version was replaced: choose other numbers"
    till.sent.recompute()
    till.assert_exact(final=True)

    # A correction moves a payment to another hour.
    till.send(new._replace(revision=2, amount=9, at=BASE + timedelta(minutes=90)))
    till.sent.drain()
    states = till.states()
    assert [states[BASE + number * HOUR] for number in range(3)] == ["stale", "revised", "final"]
    assert "events taken back" in till.sent.command("plan")
    till.sent.recompute()
    till.assert_exact(final=True)
    assert set(till.emitted().values()) == {1}, "a version comes once, and is taken back once"
    till.sent.command("verify", "--recount")
    assert "taken back" in till.sent.command("explain", "sales", f"{BASE:%Y-%m-%dT%H}")


@pytest.mark.long  # The commits are those of a join: test_joins_of_joins.py kills it there.
def test_a_kill_at_the_commits_replaces_no_version_twice(kafka: str, tmp_path: Path) -> None:
    till = Till(tmp_path, kafka, "upsertskilled")
    till.send(*till.some(40))
    till.sent.drain()
    for place in ("after append events 2", "before append progress 2", "after append progress 2"):
        till.send(*till.some(20))
        with SpeedProcess(till.sent, "--drain", failpoint=f"kill {place}") as process:
            assert process.wait() == -signal.SIGKILL, process.lines
    leave_rows(Path(till.project.tables) / "events" / "newest", till.sent.last_sequence("newest") + 7)
    till.move_clock(END + 3 * HOUR)
    till.sent.drain()
    till.assert_exact()
    till.sent.recompute()
    till.assert_exact(final=True)
    assert set(till.emitted().values()) == {1}
