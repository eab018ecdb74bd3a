"""A gap of an input, as the joined source passes it on."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from hourline_core.ledger.progress_rows import Gap, Position, ProgressRow, RecordCounts
from speed_layer.derived.gaps import gap_row
from speed_layer.joins.derivation import reach_of_gap

EIGHT = datetime(2026, 3, 2, 8, tzinfo=UTC)
HOUR = timedelta(hours=1)
BEFORE, AFTER, NONE = timedelta(minutes=10), timedelta(minutes=30), timedelta(0)


@pytest.mark.parametrize(
    ("sources", "outer", "timed_by", "of_a"),
    [
        # A lost event of `left` may have had a partner up to AFTER later, and one of `right` up to BEFORE later.
        (("a", "b"), (False, False), "", (NONE, AFTER)),
        (("b", "a"), (False, False), "", (NONE, BEFORE)),
        # An event of the other side may be without a partner: up to BEFORE earlier than a lost one of `left`.
        (("a", "b"), (True, True), "", (BEFORE, AFTER)),
        (("a", "b"), (True, False), "", (NONE, AFTER)),
        (("b", "a"), (True, False), "", (AFTER, BEFORE)),
        # A pair is as old as its left event, which may be AFTER earlier than a lost right one, and BEFORE later.
        (("a", "b"), (False, False), "left", (NONE, NONE)),
        (("b", "a"), (False, False), "left", (AFTER, BEFORE)),
        (("a", "b"), (False, False), "right", (BEFORE, AFTER)),
        (("a", "b"), (True, True), "left", (BEFORE, AFTER)),
        # A lost event of both sides is each of these.
        (("a", "a"), (False, False), "", (NONE, AFTER)),
        (("a", "a"), (True, False), "", (AFTER, AFTER)),
    ],
)
def test_a_gap_reaches_as_far_as_lost_events_may_have_had_partners(
    sources: tuple[str, str], outer: tuple[bool, bool], timed_by: str, of_a: tuple[timedelta, timedelta]
) -> None:
    sides = [SimpleNamespace(source=name) for name in sources]
    timed = (timed_by == "left", timed_by == "right")
    plan: Any = SimpleNamespace(before=BEFORE, after=AFTER, outer=outer, timed_by=timed, sides=sides)
    assert reach_of_gap(plan, "a") == of_a


@pytest.mark.parametrize(
    ("earlier", "later", "hours"),
    [
        (timedelta(0), timedelta(0), (EIGHT, EIGHT)),
        (timedelta(0), timedelta(minutes=1), (EIGHT, EIGHT + HOUR)),
        (timedelta(minutes=1), timedelta(0), (EIGHT - HOUR, EIGHT)),
        (3 * HOUR, 2 * HOUR, (EIGHT - 3 * HOUR, EIGHT + 2 * HOUR)),
    ],
)
def test_the_hours_of_a_gap_are_those_in_which_pairs_or_partners_may_lack(
    earlier: timedelta, later: timedelta, hours: tuple[datetime, datetime]
) -> None:
    lost = Gap(2, 70, 80, None, None, EIGHT, EIGHT)
    row = ProgressRow(5, "id", "payments", (), RecordCounts(), (), (), EIGHT, EIGHT, EIGHT, gaps=(lost,))
    passed = gap_row(None, 9, ("id", "payments"), [row], (earlier, later), EIGHT)
    assert passed.gaps == (Gap(0, 5, 6, None, None, *hours),)
    assert passed.position == (Position(0, 5, 6),)
