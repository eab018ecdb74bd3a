"""Between which bounds an hour is expected to lie, going by past days: by hand, and by the properties that make the
bounds trustworthy.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from math import isclose, sqrt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_layer.audit import history_bounds
from hourline_core.model import History

HOUR = datetime(2024, 5, 6, 20, tzinfo=UTC)
MANY = 10_000
COUNTS = st.lists(st.integers(0, 10_000), min_size=21, max_size=28)
AMOUNTS = st.lists(st.floats(0, 1e6), min_size=21, max_size=28)
ANY = st.lists(st.floats(-1e6, 1e6), min_size=21, max_size=28)


def past(*values: float | None) -> dict[datetime, dict[str, float | None]]:
    """The first value is yesterday's."""
    return {HOUR - timedelta(days=day): {"n": value} for day, value in enumerate(values, start=1)}


def bounds(
    known: Mapping[datetime, Mapping[str, Any]],
    history: History | None = None,
    events: int = MANY,
    adds_up: bool = True,
) -> tuple[float, float] | None:
    rows = dict.fromkeys(known, events)
    return history_bounds.compute_bounds(known, rows, HOUR, "n", history or History(learning=7), adds_up)


def test_bounds_by_hand() -> None:
    # The median of the roots is 11, and their distances from it are 0, 1, 1, 2, 2, 3, 89: the median of these is 2.
    values = [root**2 for root in (10.0, 9.0, 11.0, 8.0, 12.0, 13.0, 100.0)]
    found = bounds(past(*values), History(learning=7, width=3))
    assert found == pytest.approx(((11 - 3 * 1.4826 * 2) ** 2, (11 + 3 * 1.4826 * 2) ** 2))
    assert bounds(past(*values), History(learning=7, width=5)) == pytest.approx((0, (11 + 5 * 1.4826 * 2) ** 2))


@pytest.mark.parametrize("count", [10, 18, 36, 1_000])
def test_equal_counts_leave_room_for_chance(count: int) -> None:
    lower, upper = bounds(past(*[count] * 7)) or (0, 0)
    root = 2 * sqrt(count)
    assert (lower, upper) == pytest.approx((((root - 3.5) / 2) ** 2, ((root + 3.5) / 2) ** 2))
    assert lower > 0, "an emptied hour is found from 10 rows on"
    assert (2 * count > upper) is (count >= 18), "a doubled one from 18"
    assert (count / 2 < lower) is (count >= 36), "a halved one from 36"


def test_an_amount_has_room_for_the_chance_of_its_rows() -> None:
    miles = past(*[60_000] * 7)
    assert bounds(miles, events=60) == pytest.approx([1_000 * bound for bound in bounds(past(*[60] * 7)) or ()])
    assert bounds(past(*[2.5] * 7), events=9) is None, "a few rides have any tips"


def test_hours_that_hardly_vary_have_about_a_tenth_to_spare() -> None:
    assert bounds(past(*[1e6] * 7), events=10**6) == pytest.approx((0.95**2 * 1e6, 1.05**2 * 1e6))


def test_hours_of_few_rows_are_not_compared() -> None:
    assert bounds(past(*[9] * 7)) is None
    assert bounds(past(*[10] * 7)) is not None
    assert bounds(past(*[10] * 7), events=9) is None
    assert bounds(past(*[0] * 7)) is None, "where most past days had none, a few are no fault"


def test_while_too_few_days_are_known_there_are_none() -> None:
    assert bounds(past(*[50] * 6)) is None
    assert bounds(past(*[50] * 6, None)) is None
    assert bounds(past(*[50] * 7)) is not None
    assert bounds(past(*[50] * 20), History()) is None
    assert bounds(past(*[50] * 21), History()) is not None
    assert bounds(past(*[50] * 14), History(days=14)) is not None, "all of the days are known"


def test_other_hours_of_the_day_and_days_too_long_ago_do_not_count() -> None:
    usual = bounds(past(*[50] * 7))
    known = past(*[50] * 20) | {HOUR - timedelta(hours=number): {"n": 7.0} for number in range(1, 24)}
    assert bounds(known, History(days=10)) == usual
    assert bounds(past(*[50] * 3, *[80] * 10), History(days=3, learning=2)) == usual


def test_a_weekday_that_is_always_different_is_no_fault_once_three_of_it_are_known() -> None:
    three = past(*[30 if day % 7 == 0 else 100 for day in range(1, 22)])
    assert bounds(three) == pytest.approx(((sqrt(30) - 1.75) ** 2, (sqrt(100) + 1.75) ** 2))
    two = past(*[30 if day % 7 == 0 else 100 for day in range(1, 21)])
    assert bounds(two) == pytest.approx(((sqrt(100) - 1.75) ** 2, (sqrt(100) + 1.75) ** 2))


def test_bounds_of_means_and_extremes_are_twice_as_far_and_may_lie_below_zero() -> None:
    delays = past(*[-4.0, 1.0, 9.0, -1.0, 4.0, 1.0, 0.0])
    lower, upper = bounds(delays, adds_up=False) or (0.0, 0.0)
    # The roots are -2, 1, 3, -1, 2, 1, 0: their median is 1, and the median of the distances 0, 0, 1, 1, 2, 2, 3 is 1.
    assert (lower, upper) == pytest.approx((-((2 * 5 * 1.4826 - 1) ** 2), (1 + 2 * 5 * 1.4826) ** 2))


@given(values=AMOUNTS | COUNTS, adds_up=st.booleans())
def test_no_bound_lies_below_zero_where_no_value_does(values: list[float], adds_up: bool) -> None:
    found = bounds(past(*values), adds_up=adds_up)
    assert found is None or 0 <= found[0] <= found[1]


@given(values=ANY, adds_up=st.booleans())
def test_the_usual_value_lies_within(values: list[float], adds_up: bool) -> None:
    lower, upper = bounds(past(*values), adds_up=adds_up) or (0.0, 0.0)
    middle = sorted(values)[len(values) // 2]
    assert lower <= middle or isclose(lower, middle)
    assert upper >= middle or isclose(upper, middle)


@given(value=st.floats(0, 1e9) | st.integers(0, 10**12), days=st.integers(7, 28), adds_up=st.booleans())
def test_a_history_that_never_changes_does_not_warn_of_itself(value: float, days: int, adds_up: bool) -> None:
    found = bounds(past(*[value] * days), adds_up=adds_up)
    assert found is None or found[0] <= value <= found[1]


@given(values=ANY, unit=st.sampled_from([0.01, 3.7, 1000.0]), adds_up=st.booleans())
def test_amounts_in_another_unit_have_the_same_bounds_in_that_unit(
    values: list[float], unit: float, adds_up: bool
) -> None:
    values = [value + 0.5 if value.is_integer() else value for value in values]  # Whole numbers may be counts.
    found = bounds(past(*values), adds_up=adds_up) or (0.0, 0.0)
    scaled = bounds(past(*(unit * value for value in values)), adds_up=adds_up) or (0.0, 0.0)
    size = max(map(abs, found)) * unit * 1e-6
    assert scaled == pytest.approx([unit * bound for bound in found], rel=1e-6, abs=size)


@given(values=ANY, days=st.randoms())
def test_values_of_the_other_weekdays_count_whatever_their_order(values: list[float], days: Any) -> None:
    others = [place for place in range(len(values)) if (place + 1) % 7]
    order = days.sample(others, len(others))
    shuffled = list(values)
    for place, other in zip(others, order, strict=True):
        shuffled[place] = values[other]
    assert bounds(past(*shuffled)) == pytest.approx(bounds(past(*values)))


@given(values=AMOUNTS, outlier=st.floats(0, 1e12), place=st.integers(0, 20))
def test_one_wild_day_hardly_moves_them(values: list[float], outlier: float, place: int) -> None:
    wild = [*values[:place], outlier, *values[place + 1 :]]
    _, upper = bounds(past(*wild)) or (0.0, 0.0)
    root = sqrt(max(values))
    # Median and spread of the other days are at most the root of the highest. Chance and a tenth add less than that.
    assert upper <= (2 * root + 5 * 1.4826 * root) ** 2 + 1e-6


@given(values=COUNTS, infinite=st.sampled_from([float("inf"), float("nan")]))
def test_what_is_no_number_does_not_count(values: list[int], infinite: float) -> None:
    known: dict[datetime, Any] = {**past(*values)}
    with_one = {**known, HOUR - timedelta(days=len(values)): {"n": infinite}}
    assert bounds(with_one) == bounds({day: known[day] for day in list(known)[:-1]})
