"""After random records and declarations, and killed recomputes, history is what the last declaration makes of it."""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch
from zoneinfo import ZoneInfo

import pytest

from hourline_core.runtime import failpoints
from tests.support.changing_shop import START, Row, Shop, sale

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
_ITEMS = "items: 'array<struct<n: long, at: timestamp>>'"
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


@pytest.mark.long  # tests/protocol/test_decoding_anew.py kills decoding at each step, tests/stack one on the stack
@pytest.mark.parametrize(("seed", "steps"), [(1, 3), *((seed, 7) for seed in range(2, 8))])
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
