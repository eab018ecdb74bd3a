"""The states of days in New York around long silences are those of a naive walk over events: silences of hours to
years, late events into them, a wrong date of 1970, and a day of 23 hours.
"""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import serving_layer
from tests.support.bare_tables import BASE, SHOP, BareTables, hour
from tests.support.examples import examples
from tests.support.project_files import write_project

ZONE = ZoneInfo("America/New_York")
LISTED = 31 * 24
IN_1970 = (datetime(1970, 1, 2, tzinfo=UTC) - BASE) // timedelta(hours=1)
GAPS = st.lists(st.sampled_from([2, 40, LISTED, LISTED + 4, LISTED + 60, 3_000, 30_000]), min_size=1, max_size=3)
LATE = st.lists(st.one_of(st.just(IN_1970), st.integers(0, 4_000)), min_size=1, max_size=2)


@settings(max_examples=examples(2))
@given(gaps=GAPS, late=LATE)
@example(gaps=[LISTED + 4], late=[0])  # It begins as a day in New York ends.
@example(gaps=[3_000, 30_000], late=[IN_1970, 800])
def test_the_states_of_days_are_those_of_a_naive_walk(
    tmp_path_factory: pytest.TempPathFactory, gaps: list[int], late: list[int]
) -> None:
    first = [0, *accumulate(gaps)]
    tables = BareTables(write_project(tmp_path_factory.mktemp("days"), SHOP), [*first, *late])
    tables.start()
    tables.micro_batch(len(first))
    published = closed_hours(first)
    tables.publish(*published, metrics=["totals"])
    assert found(tables) == expected(first, published, [])
    tables.micro_batch(len(late))
    assert found(tables) == expected([*first, *late], published, late)
    published = closed_hours([*first, *late])
    tables.publish(*published, metrics=["totals"])
    assert found(tables) == expected([*first, *late], published, [])


def found(tables: BareTables) -> dict[datetime, str]:
    with serving_layer.connect(tables.project.root) as connection:
        query = "SELECT window_start, state FROM windows WHERE metric = 'by_day' ORDER BY ALL"
        return dict(connection.sql(query).fetchall())


def expected(events: list[int], published: Collection[int], revised: Collection[int]) -> dict[datetime, str]:
    """By start of each day with a listed hour, its state."""
    listed, clock, known = listed_hours(events), hour(max(events)), set(published)
    days: dict[datetime, set[str]] = {}
    for number in listed:
        day = hour(number).astimezone(ZONE).date()
        start, end = (
            datetime(one.year, one.month, one.day, tzinfo=ZONE).astimezone(UTC)
            for one in (day, day + timedelta(days=1))
        )
        is_over = end <= clock and (
            (end - BASE) // timedelta(hours=1) - 1 in listed or end + timedelta(hours=1) <= clock
        )
        state = "provisional" if number not in known else "revised" if number in revised else "final"
        days.setdefault(start, {"final" if is_over else "provisional"}).add(state)
    return {start: next(one for one in ("provisional", "revised", "final") if one in of) for start, of in days.items()}


def listed_hours(events: list[int]) -> set[int]:
    """Each hour with events, and up to 31 days after it."""
    ended = range(min(events), max(events))
    after = (number for event in set(events) for number in range(event, event + LISTED + 1) if number in ended)
    return {*events, *after}


def closed_hours(events: list[int]) -> list[int]:
    return sorted(number for number in listed_hours(events) if number + 2 <= max(events))
