"""Records of an input that Kafka deletes before they are read, or that a reset skips and another one brings: sources that are
derived of it are exact, or their hours say that they are incomplete.
"""

from pathlib import Path

import pytest

import serving_layer
from serving_layer.reports.gaps import list_gaps
from tests.stack.test_joins import delete_records
from tests.support.derived_shop import BASE, DERIVED, HOUR, HOURS, Order, Payment, Shop, leave_out

# Each kind has unit tests of both in CI.
pytestmark = [pytest.mark.heavy, pytest.mark.long]

CLOCK = 3
"""The hour of the clocks when records are lost, as a number from BASE on."""
FIRST_INCOMPLETE = {
    "orders": {
        "paid": CLOCK,
        "placed": CLOCK,
        "half": CLOCK,
        "whole": 2,
        "following": CLOCK,
        "newest": CLOCK,
        "settled": CLOCK,
    },
    "payments": {"paid": CLOCK, "placed": 1, "half": 1, "whole": 1, "corrected": 1, "settled": -1},
}
"""By input, the first hour of each source that may lack what is lost. An event without a partner is up to 20 minutes before a
lost order, or 100 minutes before a lost payment. A version is up to two hours before another one.
"""


@pytest.mark.parametrize("side", FIRST_INCOMPLETE)
def test_hours_that_may_lack_lost_records_of_an_input_are_incomplete_and_all_others_exact(
    kafka: str, tmp_path: Path, side: str
) -> None:
    shop = Shop(tmp_path, kafka, f"lost_{side}")
    shop.trade(20, hours=(0, CLOCK + 1))
    shop.move_clocks(BASE + CLOCK * HOUR)
    shop.sent.drain()
    shop.send(*of_side(side, shop.some(8, hours=(CLOCK + 1, HOURS))))
    delete_records(kafka, f"{shop.name}_{side}")
    shop.close()
    shop.trade(6)
    losses: list[str] = []
    shop.sent.drain(losses)
    assert len(losses) == 1
    check_incomplete(shop, side)
    shop.sent.recompute()
    check_incomplete(shop, side)
    assert {name: shop.ask(name).cells for name in DERIVED} == {name: shop.read.cells(name) for name in DERIVED}
    confirmed = confirm_gaps(shop)
    assert confirmed == {side, *FIRST_INCOMPLETE[side]}
    assert shop.check() <= {"final", "empty"}


@pytest.mark.parametrize("side", FIRST_INCOMPLETE)
def test_what_a_reset_of_an_input_skips_and_another_one_brings_is_counted_once(
    kafka: str, tmp_path: Path, side: str
) -> None:
    shop = Shop(tmp_path, kafka, f"skipped_{side}")
    shop.trade(15)
    shop.sent.drain()
    skipped = of_side(side, shop.some(8))
    shop.send(*skipped)
    shop.sent.command("reset", side, "--to", "latest", "--yes")
    shop.trade(6)
    shop.close()
    shop.sent.drain()
    shop.check()
    shop.sent.recompute()
    assert shop.check() <= {"final", "empty"}
    shop.sent.command("reset", side, "--yes")
    shop.read.add(*skipped)
    shop.sent.drain()
    assert shop.check() >= {"stale", "revised"}, "it brought nothing: choose other numbers"
    shop.sent.recompute()
    assert shop.check() <= {"final", "empty"}
    shop.sent.command("verify", "--recount")


def of_side(side: str, records: tuple[list[Order], list[Payment]]) -> tuple[list[Order], list[Payment]]:
    orders, payments = records
    return (orders, []) if side == "orders" else ([], payments)


def check_incomplete(shop: Shop, side: str) -> None:
    """The hours from the first one on that may lack what is lost are incomplete. All others are as if it had been read."""
    for name in DERIVED:
        told, first = shop.ask(name), FIRST_INCOMPLETE[side].get(name, HOURS)
        incomplete = {hour for hour, state in told.states.items() if state == "incomplete"}
        assert incomplete == {hour for hour in told.states if hour >= BASE + first * HOUR}, name
        other = {hour for hour, state in told.states.items() if state in ("incomplete", "stale")}
        assert told.without("incomplete", "stale") == leave_out(shop.everything.cells(name), other), name


def confirm_gaps(shop: Shop) -> set[str]:
    """Confirm all gaps. Returns the sources that had them."""
    with serving_layer.connect(shop.sent.project) as connection:
        gaps = {name: list_gaps(connection, name) for name in shop.sent.project.sources}
    for gap in {gap.gap for of in gaps.values() for gap in of}:
        shop.sent.command("gaps", "--confirm", gap, "--reason", "counted elsewhere")
    return {name for name, of in gaps.items() if of}
