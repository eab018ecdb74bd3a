"""The hours that a join reads: as many as may have partners, and as few spans as possible, up to the ends of time."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from speed_layer.derived.passed import Passed
from speed_layer.derived.spans import FIRST_HOUR, merge_spans, spans_near, spans_of

HOUR = timedelta(hours=1)
START = datetime(2024, 5, 6, tzinfo=UTC)
HOURS = st.sets(st.integers(0, 40), max_size=8)
REACH = st.integers(0, 300).map(lambda minutes: timedelta(minutes=minutes))
FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, tzinfo=UTC)


def hours_in(spans: list[tuple[datetime, datetime]]) -> set[datetime]:
    return {first + HOUR * number for first, last in spans for number in range((last - first) // HOUR + 1)}


@given(HOURS, REACH, REACH)
def test_the_spans_have_the_hours_of_all_times_within_reach_and_no_others(
    numbers: set[int], earlier: timedelta, later: timedelta
) -> None:
    hours = {START + HOUR * number for number in numbers}
    expected = {
        START + HOUR * number
        for number in range(-10, 60)
        for hour in hours
        # The last time of an hour is less than an hour after its start.
        if START + HOUR * (number + 1) > hour - earlier and START + HOUR * number < hour + HOUR + later
    }
    near = spans_near(spans_of(hours), earlier, later)
    assert hours_in(near) == expected
    assert hours_in(spans_of(hours)) == hours
    assert hours_in(merge_spans([*spans_of(hours), *near])) == hours | expected
    assert all(other[0] - one[1] > HOUR for one, other in pairwise(near)), "as few as possible"


def test_the_spans_end_where_times_end() -> None:
    far = timedelta(days=36_500)
    assert spans_near([(FIRST, FIRST), (LAST, LAST)], far, far) == [
        (FIRST, FIRST + far),
        (LAST - far, LAST),
    ]
    assert spans_near([(FIRST, LAST)], timedelta(0), timedelta(0)) == [(FIRST, LAST)]


def test_a_clock_passes_the_hours_from_that_before_to_its_own() -> None:
    eight = datetime(2026, 3, 2, 8, tzinfo=UTC)
    half_past, later = eight + timedelta(minutes=30), eight + timedelta(hours=2, minutes=1)
    assert Passed(half_past, later).hours == [(eight, eight + timedelta(hours=2))]
    assert Passed(half_past, half_past).hours == ()
    assert Passed(None, None).hours == ()
    assert Passed(None, later).hours == [(FIRST_HOUR, eight + timedelta(hours=2))]


def test_what_the_clock_has_not_entered_needs_no_partners() -> None:
    eight = datetime(2026, 3, 2, 8, tzinfo=UTC)
    hour = timedelta(hours=1)
    spans = [(eight - hour, eight + hour), (eight + 3 * hour, eight + 4 * hour)]
    assert Passed(None, eight + timedelta(minutes=1)).up_to_now(spans) == [(eight - hour, eight)]
    assert Passed(None, None).up_to_now(spans) == ()
