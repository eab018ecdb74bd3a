"""Between which bounds an hour is expected to lie, going by past days: by hand, and by the properties that make the
bounds trustworthy.
"""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_layer.audit.history_bounds import bounds
from hourline_core.model import History

HOUR = datetime(2024, 5, 6, 20, tzinfo=UTC)


def past(*values: float | None) -> dict[datetime, dict[str, float | None]]:
    """The first value is yesterday's."""
    return {HOUR - timedelta(days=day): {"n": value} for day, value in enumerate(values, start=1)}


def test_bounds_by_hand() -> None:
    # The median is 101, and the distances from it are 0, 1, 1, 2, 2, 3, 899: their median is 2.
    found = bounds(past(100, 101, 99, 102, 98, 103, 1000), HOUR, "n", History(width=5))
    assert found == pytest.approx((101 - 5 * 1.4826 * 2, 101 + 5 * 1.4826 * 2))


def test_hours_that_hardly_vary_have_a_tenth_to_spare() -> None:
    assert bounds(past(*[50] * 7), HOUR, "n", History()) == (45, 55)


def test_while_too_few_days_are_known_there_are_none() -> None:
    assert bounds(past(*[50] * 6), HOUR, "n", History(learning=7)) is None
    assert bounds(past(*[50] * 6, None), HOUR, "n", History(learning=7)) is None
    assert bounds(past(*[50] * 7), HOUR, "n", History(learning=7)) is not None


def test_other_hours_of_the_day_and_days_too_long_ago_do_not_count() -> None:
    known = past(*[50] * 20) | {HOUR - timedelta(hours=number): {"n": 7.0} for number in range(1, 24)}
    assert bounds(known, HOUR, "n", History(days=10)) == (45, 55)
    assert bounds(past(*[50] * 3, *[80] * 10), HOUR, "n", History(days=3, learning=2)) == (45, 55)


@given(values=st.lists(st.floats(-1e6, 1e6), min_size=7, max_size=28), outlier=st.floats(-1e12, 1e12))
def test_one_wild_day_hardly_moves_them(values: list[float], outlier: float) -> None:
    lower, upper = bounds(past(*values), HOUR, "n", History()) or (0.0, 0.0)
    assert lower <= sorted(values)[len(values) // 2] <= upper
    wild = bounds(past(*values[:-1], outlier), HOUR, "n", History()) or (0.0, 0.0)
    spread = max(values) - min(values)
    reach = 5 * 1.4826 * 2 * spread + spread + 0.1 * max(map(abs, values)) + 1e-6
    assert wild[0] >= min(values) - reach and wild[1] <= max(values) + reach
