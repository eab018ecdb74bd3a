"""Joins of sources that explode their records: one with itself, and one with a source of records; by keys that are
computed.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

import serving_layer
from hourline import Project
from hourline_core.model.hours import iso_text
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject

BASE = datetime(2026, 3, 2, 8, tzinfo=UTC)
FILES = {
    "hourline.yaml": 'kafka: {bootstrap: "${KAFKA}"}\nspark: {master: "local[2]"}\n',
    "sources/baskets.yaml": """
        topic: exploded_baskets
        fields: {basket: string, skus: array<string>, at: timestamp}
        explode: {sku: skus}
        event_time: at
        derived: {order: "concat('no. ', basket)"}
        grace: 0s
        """,
    "sources/restocks.yaml": """
        topic: exploded_restocks
        fields: {code: string, at: timestamp}
        event_time: at
        grace: 0s
        """,
    "sources/known.yaml": """
        topic: exploded_known
        fields: {basket: string, skus: array<string>, at: timestamp}
        explode: {sku: skus}
        event_time: at
        id: concat(basket, '/', sku)
        where: sku IS NULL OR sku <> 'bag'
        grace: 0s
        """,
    "sources/together.yaml": """
        join: {left: {source: baskets, as: one}, right: {source: baskets, as: other}, on: order, within: 0s}
        grace: 0s
        """,
    "sources/restocked.yaml": """
        join: {left: known, right: restocks, on: {trim(sku): "trim(code)"}, within: {after: 1h}, type: left}
        grace: 0s
        """,
    "metrics/bought_together.yaml": """
        source: together
        dimensions: {one: one_sku, other: other_sku}
        measures: {baskets: count}
        """,
    "metrics/of_sku.yaml": """
        source: restocked
        dimensions: {sku: known_sku}
        measures: {rows: count, without: count where restocks_at IS NULL}
        """,
}


BOTH = ("baskets", "known")
"""The sources that get the baskets."""
METRICS = ("bought_together", "of_sku")


class Basket(NamedTuple):
    basket: str
    skus: tuple[str | None, ...]
    at: datetime


class Restock(NamedTuple):
    code: str
    at: datetime


BASKETS = [
    Basket("b1", ("apple", "pear", "apple"), BASE + timedelta(minutes=5)),
    Basket("b1", ("fig",), BASE + timedelta(minutes=5)),
    Basket("b1", ("fig",), BASE + timedelta(minutes=6)),
    Basket("b2", ("pear", None, "bag", "fig", None), BASE + timedelta(minutes=30)),
    Basket("b3", (), BASE + timedelta(minutes=40)),
    Basket("b4", ("apple", "plum"), BASE + timedelta(minutes=50)),
]
RESTOCKS = [
    Restock(" apple", BASE + timedelta(minutes=50)),
    Restock("fig ", BASE + timedelta(minutes=5)),
    Restock("pear", BASE + timedelta(minutes=91)),
]
LATE = Restock(" plum", BASE + timedelta(minutes=110))
ITEMS = [(basket, place, sku) for basket in BASKETS for place, sku in enumerate(basket.skus)]
KNOWN = [
    (basket, sku)
    for number, (basket, _, sku) in enumerate(ITEMS)
    if sku != "bag"
    and (sku is None or (basket.basket, sku) not in [(one.basket, other) for one, _, other in ITEMS[:number]])
]
"""All are in one hour, in which an item counts once in its basket. One without a name has no id."""


def bought_together() -> Counter[tuple[str | None, str | None]]:
    """The pairs of two items of a basket at one time, each order of them."""
    return Counter(
        (sku, other_sku)
        for (one, place, sku), (other, other_place, other_sku) in product(ITEMS, repeat=2)
        if (one.basket, one.at) == (other.basket, other.at) and not (one is other and place == other_place)
    )


def of_sku(restocks: list[Restock]) -> dict[str | None, tuple[int, int]]:
    """By item, the rows, and those without a restock within an hour from it."""
    rows: dict[str | None, Counter[bool]] = {}
    for basket, sku in KNOWN:
        met = [
            one
            for one in restocks
            if one.code.strip() == sku and timedelta(0) <= one.at - basket.at <= timedelta(hours=1)
        ]
        rows.setdefault(sku, Counter()).update([True] * len(met) or [False])
    return {sku: (met.total(), met[False]) for sku, met in rows.items()}


def answer(project: Project, asked: str) -> Iterator[tuple[object, ...]]:
    with serving_layer.connect(project) as connection:
        yield from connection.sql(asked).fetchall()


def assert_exact(project: Project, restocks: list[Restock]) -> None:
    """What is asked leaves out what moves the clocks."""
    end = iso_text(BASE + timedelta(hours=4))
    together = answer(project, f"SELECT one, other, baskets FROM bought_together WHERE hour < '{end}'")
    assert {(one, other): number for one, other, number in together} == bought_together()
    by_sku = answer(
        project,
        f"SELECT sku, sum(rows), sum(without) FROM of_sku WHERE hour < '{end}' AND sku IS DISTINCT FROM 'none' GROUP BY sku",
    )
    assert {sku: numbers for sku, *numbers in by_sku} == {sku: list(of) for sku, of in of_sku(restocks).items()}


@pytest.mark.long  # test_explode.py shows an explosion, test_joins.py a join, and tests/unit their expressions.
def test_elements_of_one_record_are_partners_and_each_is_decided_alone(kafka: str, tmp_path: Path) -> None:
    sent = StackProject(write_project(tmp_path, FILES), kafka, {})
    for source in BOTH:
        sent.send(source, ({**one._asdict(), "at": iso_text(one.at)} for one in BASKETS[:3]))
    sent.drain()
    for source in BOTH:
        sent.send(source, ({**one._asdict(), "at": iso_text(one.at)} for one in BASKETS[3:]))
    sent.send("restocks", ({**one._asdict(), "at": iso_text(one.at)} for one in RESTOCKS))
    times = [iso_text(BASE + timedelta(hours=6, seconds=second)) for second in range(6)]
    for source in BOTH:
        sent.send(source, ({"basket": "none", "skus": ["none"], "at": at} for at in times))
    sent.send("restocks", ({"code": "nothing", "at": at} for at in times))
    sent.drain()
    assert_exact(sent.project, RESTOCKS)
    sent.recompute()
    assert_exact(sent.project, RESTOCKS)
    # Of two elements of one record, one is taken back.
    sent.send("restocks", [{**LATE._asdict(), "at": iso_text(LATE.at)}])
    sent.drain()
    sent.recompute()
    assert_exact(sent.project, [*RESTOCKS, LATE])
    asked = (
        f"SELECT DISTINCT state FROM hours WHERE name IN {METRICS} AND hour < '{iso_text(BASE + timedelta(hours=3))}'"
    )
    states = answer(sent.project, asked)
    assert set(states) == {("final",)}
    sent.command("check")
