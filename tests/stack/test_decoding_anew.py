"""After a recompute, an hour is what it would be if today's declaration had been there from the first record."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch
from zoneinfo import ZoneInfo

import pytest
from deltalake import DeltaTable

import serving_layer
from batch_layer.plan import plan
from hourline import load_project
from hourline.exit_status import BLOCKED
from hourline_core.errors import UsageError
from hourline_core.ledger.raw_records import notes_on_raw_records
from hourline_core.model import Project
from hourline_core.model.hours import parse_hour
from hourline_core.runtime import failpoints
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject

START = datetime(2026, 3, 2, 8, tzinfo=UTC)
FILES = {
    "hourline.yaml": """\
        kafka: {bootstrap: "${KAFKA}"}
        spark: {master: "local[2]"}
        """,
    "sources/sales.yaml": """\
        topic: TOPIC
        fields: {id: string, at: timestamp, amount: long}
        event_time: at
        id: id
        """,
    "metrics/revenue.yaml": "{source: sales, measures: {sales: count, amount: sum(amount)}}",
}
Row = dict[str, Any]
Answer = dict[tuple[Any, ...], tuple[Any, ...]]


def sale(number: int, **more: Any) -> Row:
    """One record. Some fields of it are not declared at first."""
    at = START + timedelta(minutes=number)
    return {
        "id": f"s{number}",
        "at": at.isoformat(),
        "sent_at": (at + timedelta(minutes=45)).isoformat(),
        "amount": number,
        "shop": "north" if number % 3 else "south",
        "tip": number / 4,
        **more,
    }


class Shop:
    """A project whose declarations change while its records stay."""

    def __init__(self, folder: Path, kafka: str, topic: str) -> None:
        files = {name: text.replace("TOPIC", topic) for name, text in FILES.items()}
        self._stack = StackProject(write_project(folder, files), kafka, {})
        self._folder, self._kafka, self._topic = folder, kafka, topic

    def declare(self, source: str, metric: str) -> None:
        """Declare the source and its metric in another way. The speed layer takes it up with the next ``drain``."""
        files = {"sources/sales.yaml": f"topic: {self._topic}\n{source}\n", "metrics/revenue.yaml": metric}
        for name, text in files.items():
            (self._folder / name).write_text(text)
        self._stack.project = load_project(self._folder, {"KAFKA": self._kafka})

    @property
    def project(self) -> Project:
        """The declarations of now."""
        return self._stack.project

    def send(self, records: Iterable[Row | bytes], older: Project | None = None) -> None:
        """Send ``records``, and read them by the declarations of now, or by those of a speed layer that is ``older``."""
        values = [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records]
        self._stack.send_refused("sales", values)
        now = self.project
        self._stack.project = older or now
        self._stack.drain()
        self._stack.project = now

    def drain(self) -> None:
        self._stack.drain()

    def plan(self) -> dict[str, set[str]]:
        """By reason, the hours to recompute."""
        reasons = defaultdict(set)
        for item in plan(self._stack.project):
            reasons[item.reason].add(f"{item.hour:%H}")
        return dict(reasons)

    def command(self, *arguments: str, status: int | None = 0) -> str:
        return self._stack.command(*arguments, status=status)

    def killed(self, *arguments: str, failpoint: str) -> int:
        """The status of a command of another process, which a failpoint kills, or a Python worker of it."""
        fired = self._folder / "fired"
        fired.unlink(missing_ok=True)
        further = {"KAFKA": self._kafka, "HOURLINE_FAILPOINT": failpoint, "HOURLINE_FAILPOINT_FIRED": str(fired)}
        command = [sys.executable, "-m", "hourline", *arguments, "--project", str(self._folder)]
        done = subprocess.run(command, env={**os.environ, **further}, capture_output=True, text=True, check=False)
        assert fired.exists(), done.stderr
        return done.returncode

    def decoded_rows(self) -> list[int]:
        """By decoding, the number of rows that are decoded anew."""
        tables = Path(self.project.tables).glob("decoded/sales/*")
        return [rows for table in tables if (rows := DeltaTable(table).to_pyarrow_table().num_rows)]

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with serving_layer.connect(self._stack.project) as connection:
            return connection.sql(sql).fetchall()


def by_hour(records: Iterable[Row], time: str, keys: Callable[[Row], tuple[Any, ...]], value: str) -> Answer:
    """A naive pass over all records: by hour and keys, the number of the records and the sum of ``value``."""
    groups: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for record in {record["id"]: record for record in records}.values():
        hour = datetime.fromisoformat(record[time]).replace(minute=0, second=0, microsecond=0)
        groups[hour, *keys(record)].append(record[value])
    return {group: (len(values), sum(values)) for group, values in groups.items()}


def test_fields_that_are_declared_later_count_in_all_of_history(kafka: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, kafka, "later_fields")
    shop.declare(
        "fields: {id: string, at: timestamp, amount: {type: long, required: true}}\nevent_time: at\nid: id",
        FILES["metrics/revenue.yaml"],
    )
    # In an hour before all others, which has no event at first.
    rejected = sale(-60, amount=None)
    records = [sale(number) for number in range(300)]
    shop.send([*records, rejected, b'{"id": "x", "at": 5}'])
    shop.command("recompute", "--from", "2026-03-02T08", "--to", "2026-03-02T11")
    shop.declare(
        "fields: {id: string, at: timestamp, amount: long, shop: string, tip: double}\nevent_time: at\nid: id",
        "{source: sales, dimensions: {shop: shop}, measures: {sales: count, tips: sum(tip)}}",
    )
    more = [sale(number) for number in range(300, 330)]
    shop.send(more)
    (reason,) = [words for words in shop.plan() if "tip" in words]
    assert reason.startswith("field 'shop' is declared since 20")
    assert "field 'tip' is declared since 20" in reason
    shop.command("recompute", "--from", "2026-03-02T08", "--to", "2026-03-02T14", "--include-open")
    # The rejected record counts by this declaration, and its hour is not covered yet.
    assert shop.query("SELECT sum(sales) FROM revenue") == [(330,)]
    assert [row[0] for row in shop.query("DESCRIBE revenue") if row[0] == "shop"] == []
    shop.command("backfill", "--from", "2026-03-02T05", "--to", "2026-03-02T14", "--include-open")
    answer = shop.query("SELECT hour, shop, sales, tips FROM revenue WHERE state = 'final'")
    assert {tuple(row[:2]): tuple(row[2:]) for row in answer} == by_hour(
        [*records, rejected, *more], "at", lambda record: (record["shop"],), "tip"
    )
    assert shop.query("SELECT DISTINCT cause FROM drift WHERE cause IN ('unexplained')") == []
    assert shop.plan() == {}


def test_explain_shows_which_records_are_rejected_now(kafka: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, kafka, "rejected_now")
    shop.send([sale(number, tip="much" if number % 20 == 7 else 1) for number in range(120)])
    shop.declare(
        "fields: {id: string, at: timestamp, amount: long, shop: string, tip: double}\nevent_time: at\nid: id",
        "{source: sales, dimensions: {shop: shop}, measures: {sales: count, tips: sum(tip)}}",
    )
    shop.drain()
    shop.command("recompute", "--from", "2026-03-02T08", "--to", "2026-03-02T10", "--include-open")
    explained = shop.command("explain", "revenue", "2026-03-02T09", "shop=north")
    assert "60 accepted of the hour (before shop)" in explained
    assert "decoded anew by today's declaration: 57 of the hour, none moved to other hours, 3 rejected" in explained
    assert "3 rejected, the first at rejected_now[0] offset 67: field 'tip': got \"much\", want double" in explained


def test_events_move_to_other_hours_at_once(kafka: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, kafka, "moved_events")
    records = [sale(number) for number in range(240)]
    shop.send(records)
    shop.command("recompute")
    shop.declare(
        "fields: {id: string, at: timestamp, sent_at: timestamp, amount: long}\nevent_time: sent_at\nid: id",
        FILES["metrics/revenue.yaml"],
    )
    more = [sale(number) for number in range(240, 260)]
    shop.send(more)
    before = shop.query("SELECT sum(sales), sum(amount) FROM revenue")
    assert before == [(260, sum(range(260)))]
    # One hour alone cannot be published: its events come from the one before, and go to the one after.
    shop.command("recompute", "--from", "2026-03-02T09", "--to", "2026-03-02T10")
    answer = shop.query("SELECT hour, sales, amount FROM revenue")
    assert {tuple(row[:1]): tuple(row[1:]) for row in answer} == by_hour(
        [*records, *more], "sent_at", lambda record: (), "amount"
    )
    assert shop.query("SELECT sum(sales), sum(amount) FROM revenue") == before
    # The hours have as many events as count in them, also those in which none has arrived.
    listed = shop.query("SELECT hour, events FROM hours WHERE events > 0")
    assert dict(listed) == {hour: sales for hour, sales, _ in answer}


def test_decoding_anew_is_killed_in_the_driver_and_in_a_task(kafka: str, tmp_path: Path) -> None:
    """``tests/protocol/test_decoding_anew.py`` kills it everywhere, without Spark."""
    shop = Shop(tmp_path, kafka, "killed_decoding")
    records = [sale(number) for number in range(240)]
    shop.send(records)
    times = "fields: {id: string, at: timestamp, sent_at: timestamp, amount: long}"
    shop.declare(f"{times}\nevent_time: sent_at\nid: id", FILES["metrics/revenue.yaml"])
    shop.drain()
    whole = ("recompute", "--from=2026-03-02T08", "--to=2026-03-02T13", "--include-open")
    assert shop.killed(*whole, failpoint="kill before append decoded") == -signal.SIGKILL
    assert shop.decoded_rows() == []
    assert shop.killed(*whole, failpoint="kill after append decoded") == -signal.SIGKILL
    assert shop.decoded_rows() == [240]
    # Spark evaluates this event time, and writes in other tasks.
    shop.declare(f"{times}\nevent_time: coalesce(sent_at, at)\nid: id", FILES["metrics/revenue.yaml"])
    assert shop.killed(*whole, failpoint="kill after write decoded") == 0, "Spark runs the task again"
    assert shop.decoded_rows() == [240, 240]
    answer = shop.query("SELECT hour, sales, amount FROM revenue WHERE state = 'final'")
    assert {tuple(row[:1]): tuple(row[1:]) for row in answer} == by_hour(
        records, "sent_at", lambda record: (), "amount"
    )


Events = list[tuple[datetime, Any]] | None
"""The times and values of the events that a record is. None: it is rejected."""
Rule = Callable[[Row], Events]


def _at(record: Row) -> datetime:
    return datetime.fromisoformat(record["at"])


def _amount(record: Row, name: str = "amount") -> Events:
    return [(_at(record), record[name])] if isinstance(record[name], int) else None


def _sent(record: Row) -> Events:
    amount = _amount(record)
    return amount and [(datetime.fromisoformat(record["sent_at"]), amount[0][1])]


def _text(record: Row) -> Events:
    return [(_at(record), len(record["amount"]))] if isinstance(record["amount"], str) else None


def _any_json(record: Row) -> Events:
    return [(_at(record), len(json.dumps(record["amount"])))]


def _items(record: Row, least: int = 0) -> Events:
    return [(_at(record), item["n"]) for item in record["items"] if item["n"] >= least]


def _items_at_their_times(record: Row) -> Events:
    return [(datetime.fromisoformat(item["at"]), item["n"]) for item in record["items"]]


def _with_shop(record: Row) -> Events:
    return _amount(record) if record["shop"] else None


def _in_zone(zone: str) -> Rule:
    return lambda record: [(datetime.fromisoformat(record["local"]).replace(tzinfo=ZoneInfo(zone)), 1)]


def _stamp(unit: int) -> Rule:
    """A stamp of the other unit is a time in 1970, or after the year 50,000."""

    def read(record: Row) -> Events:
        moment = _at(record)
        return [(moment, 1)] if record["stamp"] == int(moment.timestamp()) * unit else None

    return read


def _price(*, rounds: bool) -> Rule:
    def read(record: Row) -> Events:
        if record["price"] == "x":
            return None
        price = Decimal(str(record["price"]))
        held = price.quantize(Decimal("0.1"), ROUND_HALF_UP)
        return [(_at(record), held)] if rounds or held == price else None

    return read


_TIMES = "id: string, at: timestamp, sent_at: timestamp"
_ITEMS = "items: array<struct<n: long, at: timestamp>>"
_OF_AT = "\nevent_time: at"
DECLARATIONS: list[tuple[str, str, Rule]] = [
    (f"fields: {{{_TIMES}, amount: long}}{_OF_AT}", "amount", _amount),
    (f"fields: {{{_TIMES}, amount: long}}\nevent_time: sent_at", "amount", _sent),
    (f"fields: {{{_TIMES}, amount: string}}{_OF_AT}", "length(amount)", _text),
    (f"fields: {{{_TIMES}, amount: json}}{_OF_AT}", "length(amount)", _any_json),
    (
        f"fields: {{{_TIMES}, amount: {{type: long, key: paid}}}}{_OF_AT}",
        "amount",
        lambda record: _amount(record, "paid"),
    ),
    (f"fields: {{{_TIMES}, {_ITEMS}}}\nexplode: {{item: items}}{_OF_AT}", "item.n", _items),
    (
        f"fields: {{{_TIMES}, {_ITEMS}}}\nexplode: {{item: 'filter(items, x -> x.n >= 4)'}}{_OF_AT}",
        "item.n",
        lambda record: _items(record, least=4),
    ),
    (
        f"fields: {{{_TIMES}, {_ITEMS}}}\nexplode: {{item: items}}\nevent_time: item.at",
        "item.n",
        _items_at_their_times,
    ),
    (f"fields: {{{_TIMES}, amount: long, shop: {{type: string, required: true}}}}{_OF_AT}", "amount", _with_shop),
    *(
        (
            f"fields: {{local: {{type: timestamp, encoding: local, zone: {zone}}}}}\nevent_time: local",
            "1",
            _in_zone(zone),
        )
        for zone in ("Asia/Kolkata", "America/New_York")
    ),
    (
        "fields: {local: string}\nevent_time: {expression: local, encoding: local, zone: Asia/Tokyo}",
        "1",
        _in_zone("Asia/Tokyo"),
    ),
    *(
        (f"fields: {{stamp: {{type: timestamp, encoding: epoch_{unit}}}}}\nevent_time: stamp", "1", _stamp(size))
        for unit, size in (("seconds", 1), ("milliseconds", 1000))
    ),
    *(
        (
            f"fields: {{{_TIMES}, price: {{type: 'decimal(6,1)', round: {str(rounds).lower()}}}}}{_OF_AT}",
            "price",
            _price(rounds=rounds),
        )
        for rounds in (False, True)
    ),
]
PLACES = [
    *(f"{side} append decoded" for side in ("before", "after")),
    *(f"{side} overwrite {table}" for table in ("staged", "final", "coverage") for side in ("before", "after")),
]
"""Where a recompute is killed."""
WHOLE = ("--from", "2026-03-01T12", "--to", "2026-03-03T00", "--include-open")


class Killed(BaseException):
    """Ends a command at a failpoint. Nothing that Hourline does on an error is done."""


def any_sale(rand: random.Random) -> Row:
    """A record in which each field may be what some declaration rejects."""
    number = rand.randrange(300)
    at = START + timedelta(minutes=number)
    items = [
        {"n": rand.randrange(9), "at": (at + timedelta(minutes=rand.randrange(90))).isoformat()}
        for _ in range(rand.randrange(3))
    ]
    return sale(
        number,
        amount=rand.choice([rand.randrange(100), str(rand.randrange(100))]),
        paid=rand.choice([rand.randrange(100), "5", 1.5]),
        shop=rand.choice(["north", None]),
        local=f"{at:%Y-%m-%dT%H:%M:%S}",
        stamp=int(at.timestamp()) * rand.choice([1, 1000]),
        price=rand.choice([7, 1.5, 1.25, "-0.35", "2.05", "x"]),
        items=items,
    )


@pytest.mark.parametrize(
    ("seed", "steps"), [(1, 4), *(pytest.param(seed, 7, marks=pytest.mark.long) for seed in range(2, 8))]
)
def test_history_is_what_the_last_declaration_makes_of_it(kafka: str, tmp_path: Path, seed: int, steps: int) -> None:
    """Random records and declarations. After some of them, some hours are recomputed, which may be killed."""
    rand = random.Random(seed)  # noqa: S311 (the same numbers each time)
    shop = Shop(tmp_path, kafka, f"any_declaration_{seed}")
    records: list[Row] = []
    chosen = [*rand.sample(DECLARATIONS, steps - 1), rand.choice(DECLARATIONS)]
    for source, value, _ in chosen:
        shop.declare(source, f"{{source: sales, measures: {{sales: count, amount: sum({value})}}}}")
        batch = [any_sale(rand) for _ in range(60)]
        records += batch
        shop.send(batch)
        if rand.random() < 0.7:
            first, last = sorted(rand.sample(range(24), 2))
            hours = [f"{START - timedelta(hours=12 - hour):%Y-%m-%dT%H}" for hour in (first, last)]
            place, visit = rand.choice(PLACES), rand.choice([1, 1, 2])
            with killed_at(f"{place} {visit}" if rand.random() < 0.5 else "nowhere"):
                shop.command("recompute", "--from", hours[0], "--to", hours[1], "--include-open", status=None)
    shop.command("recompute", *WHOLE)
    _, _, rule = chosen[-1]
    expected: dict[datetime, list[Any]] = defaultdict(list)
    for record in records:
        for moment, number in rule(record) or []:
            expected[moment.astimezone(UTC).replace(minute=0, second=0)].append(number)
    answer = shop.query("SELECT hour, sales, amount, state FROM revenue WHERE sales > 0 ORDER BY hour")
    assert answer == [(hour, len(of), sum(of), "final") for hour, of in sorted(expected.items())]
    assert shop.query("SELECT count(*) FROM drift WHERE cause = 'unexplained'") == [(0,)]


@contextmanager
def killed_at(place: str) -> Iterator[None]:
    """End the command within the block at its visit of a failpoint, given with the number of the visit. Records are
    decoded anew in chunks of one or two micro-batches.
    """
    visits: Counter[str] = Counter()

    def visit(name: str) -> None:
        visits[name] += 1
        if f"{name} {visits[name]}" == place:
            raise Killed

    small_chunks = patch("batch_layer.decoding.chunks._MOST_ROWS", 100)
    with suppress(Killed), patch.object(failpoints, "visit", visit), small_chunks:
        yield


@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "not kept"])
def test_a_field_gets_another_type(kafka: str, tmp_path: Path, is_kept: bool) -> None:
    shop = Shop(tmp_path, kafka, f"other_types_{is_kept}".lower())
    raw = "" if is_kept else "\nraw: false"
    shop.declare(
        f"fields: {{id: string, at: timestamp, amount: string}}\nevent_time: at{raw}",
        "{source: sales, measures: {sales: count, longest: max(length(amount))}}",
    )
    texts = [sale(number, amount="many" if number % 10 == 0 else str(number)) for number in range(60)]
    numbers = [sale(number) for number in range(60, 120)]
    shop.send([*texts, *numbers])
    shop.command("recompute", "--from", "2026-03-02T08", "--to", "2026-03-02T10", "--include-open")
    assert shop.query("SELECT sum(sales) FROM revenue") == [(60,)]
    shop.declare(
        f"fields: {{id: string, at: timestamp, amount: long}}\nevent_time: at{raw}",
        "{source: sales, measures: {sales: count, amount: sum(amount)}}",
    )
    shop.send([sale(number) for number in range(120, 130)])
    if is_kept:
        shop.command("recompute", "--from", "2026-03-02T08", "--to", "2026-03-02T11", "--include-open")
        answer = shop.query("SELECT hour, sales, amount FROM revenue WHERE state = 'final' ORDER BY hour")
        ten = parse_hour("2026-03-02T10")
        assert [row for row in answer if row[0] < ten] == [(parse_hour("2026-03-02T09"), 60, sum(range(60, 120)))]
        reasons = dict(shop.query("SELECT reason, count(*) FROM rejected_sales GROUP BY ALL"))
        assert reasons["field 'amount': got 60, want string"] == 1
    else:
        assert set(shop.plan()) <= {"never covered"}


def test_events_count_that_a_speed_layer_rejects_by_an_older_declaration(kafka: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, kafka, "older_speed_layer")
    metric, source = "{source: sales, measures: {sales: count}}", "fields: {id: string, at: timestamp, amount: TYPE}"
    shop.declare(f"{source.replace('TYPE', 'long')}\nevent_time: at\nid: id", metric)
    shop.send([sale(number) for number in range(240)])
    older = shop.project
    shop.declare(f"{source.replace('TYPE', 'double')}\nevent_time: at\nid: id", metric)
    shop.command("recompute")
    assert shop.plan() == {}
    # The speed layer has not started again. s7 has counted before.
    shop.send([sale(number, amount=0.5, id=f"s{id}") for number, id in [(7, 7), *enumerate(range(300, 310))]], older)
    results = tmp_path / "results.json"
    shop.command("plan", "--results", str(results))
    assert json.loads(results.read_text()) == {"planned": 0, "hours": 0, "to_decode": 1, "findings": True}
    shop.command("recompute")
    exact = [(parse_hour("2026-03-02T08"), 70, "final"), (parse_hour("2026-03-02T09"), 60, "final")]
    assert shop.query("SELECT hour, sales, state FROM revenue ORDER BY hour LIMIT 2") == exact
    # Read again, a record is the one whose bytes have been decoded anew.
    shop.command("reset", "sales", "--yes")
    shop.drain()
    assert shop.query("SELECT hour, sales, state FROM revenue ORDER BY hour LIMIT 2") == exact


def test_a_person_accepts_all_hours_between_which_events_move(kafka: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, kafka, "accepted_moves")
    records = [sale(number) for number in range(240)]
    shop.send(records)
    shop.command("recompute", "--from", "2026-03-02T08", "--to", "2026-03-02T12", "--include-open")
    before = shop.query("SELECT hour, sales, amount FROM revenue ORDER BY hour")
    moved = "fields: {id: string, at: timestamp, sent_at: timestamp, amount: long}\nevent_time: sent_at\nid: id"
    metric = (
        "{source: sales, measures: {sales: count, amount: sum(amount)}, "
        "expectations: [{expect_column_values_to_be_between: {column: sales, min_value: 20}}]}"
    )
    shop.declare(moved, metric)
    shop.command("recompute", status=BLOCKED)
    assert shop.query("SELECT hour, sales, amount FROM revenue ORDER BY hour") == before
    found = shop.command("quality", "--blocked", status=None)
    assert "it passed, but events move between it and an hour that did not" in found
    # What was audited is not what another declaration makes of the records.
    shop.declare(moved.replace("amount: long", "amount: long, shop: string"), metric)
    assert shop.plan() == {"blocked": {"08", "09"}}
    words = ("--reason", "few are right")
    with pytest.raises(UsageError, match="the declaration of source 'sales' has changed since 2026-03-02T08:00Z"):
        shop.command("publish", "--accept", "revenue", "2026-03-02T08", *words)
    shop.declare(moved, metric)
    with pytest.raises(UsageError, match="events move between 2026-03-02T08:00Z and 2026-03-02T12:00Z"):
        shop.command("publish", "--accept", "revenue", "2026-03-02T09", *words)
    assert shop.query("SELECT hour, sales, amount FROM revenue ORDER BY hour") == before
    shop.command("publish", "--accept", "revenue", "2026-03-02T08", *words)
    answer = shop.query("SELECT hour, sales, amount FROM revenue ORDER BY hour")
    assert {row[:1]: row[1:] for row in answer} == by_hour(records, "sent_at", lambda record: (), "amount")
    assert shop.query("SELECT DISTINCT cause FROM drift WHERE cause = 'unexplained'") == []
    assert shop.plan() == {}


def test_a_corrected_type_gives_results_of_records_that_were_all_rejected(kafka: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, kafka, "all_rejected")
    source = "fields: {id: string, at: timestamp, amount: TYPE}\nevent_time: at\nid: id"
    shop.declare(source.replace("TYPE", "boolean"), "{source: sales, measures: {sales: count}}")
    records = [sale(number) for number in range(120)]
    shop.send(records)
    shop.declare(source.replace("TYPE", "long"), FILES["metrics/revenue.yaml"])
    hours = ("--from", "2026-03-02T08", "--to", "2026-03-02T10", "--include-open")
    # The metric has another declaration, which begins with the next start of the speed layer.
    assert "nothing to recompute" in shop.command("recompute", *hours)
    assert shop.query("FROM revenue") == []
    shop.drain()
    shop.command("backfill", *hours)
    answer = shop.query("SELECT hour, sales, amount FROM revenue WHERE state = 'final'")
    assert {row[:1]: row[1:] for row in answer} == by_hour(records, "at", lambda record: (), "amount")
    # No event has arrived that gives the source a clock.
    assert shop.query("SELECT DISTINCT closed FROM hours") == [(False,)]
    assert "final" in shop.command("status")
    assert "2026-03-02 09:00 UTC: final" in shop.command("explain", "revenue", "2026-03-02T09")


def test_hours_lack_the_bytes_of_their_own_records_only(kafka: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, kafka, "kept_again")
    source = "fields: {id: string, at: timestamp, amount: long}\nevent_time: at\nid: id"
    shop.declare(source, FILES["metrics/revenue.yaml"])
    shop.send([sale(number) for number in range(60)])
    shop.declare(f"{source}\nraw: false", FILES["metrics/revenue.yaml"])
    shop.send([sale(number) for number in range(60, 120)])
    shop.declare(
        source.replace("long", "long, tip: double"), "{source: sales, measures: {sales: count, amount: sum(tip)}}"
    )
    shop.send([sale(number) for number in range(120, 180)])
    (words,) = notes_on_raw_records(shop.project)
    assert "the bytes of the records from sequence 2 up to sequence 2 were not kept" in words
    shop.command("recompute", "--from", "2026-03-02T08", "--to", "2026-03-02T11", "--include-open")
    answer = shop.query("SELECT hour, sales, amount, state FROM revenue ORDER BY hour")
    assert answer == [
        (parse_hour("2026-03-02T08"), 60, sum(range(60)) / 4, "final"),
        (parse_hour("2026-03-02T10"), 60, sum(range(120, 180)) / 4, "final"),
    ]
    assert shop.query("SELECT hour FROM hours WHERE kind = 'metric' AND state = 'missing'") == [
        (parse_hour("2026-03-02T09"),)
    ]


def test_rejected_events_of_a_record_count_once_it_is_decoded_anew(kafka: str, tmp_path: Path) -> None:
    """The bytes of a record are with the first of its rejected events. With ``raw: false``, the others stand."""
    shop = Shop(tmp_path, kafka, "rejected_events")
    fields = "fields: {items: 'array<struct<at: string, n: long>>'}\nexplode: {item: items}\n"
    metric = "{source: sales, measures: {sales: count, amount: sum(item.n)}}"

    def orders(numbers: range) -> list[Row]:
        texts = ("2026-03-02T08:10:00Z", "at 2026-03-02T08:20:00Z", "at 2026-03-02T09:10:00Z")
        return [{"items": [{"at": at, "n": number} for at in texts]} for number in numbers]

    for raw, numbers in (("\nraw: false", range(5)), ("", range(5, 10))):
        shop.declare(f"{fields}event_time: item.at{raw}", metric)
        shop.send(orders(numbers))
    assert shop.query("SELECT sales, amount FROM revenue") == [(10, 45)]
    bodies = [json.loads(value) for (value,) in shop.query("SELECT value FROM rejected_sales")]
    assert sorted(body["items"][0]["n"] for body in bodies) == sorted([*range(10)] * 2)
    shop.declare(f"{fields}event_time: \"replace(item.at, 'at ', '')\"", metric)
    shop.send(orders(range(10, 12)))
    shop.command("recompute", "--from", "2026-03-02T08", "--to", "2026-03-02T10", "--include-open")
    answer = shop.query("SELECT hour, sales, amount, state FROM revenue ORDER BY hour")
    total = sum(range(12))
    assert answer == [
        (parse_hour("2026-03-02T08"), 24, 2 * total, "final"),
        (parse_hour("2026-03-02T09"), 12, total, "final"),
    ]
