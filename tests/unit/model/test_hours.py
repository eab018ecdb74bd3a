"""Hours and ranges as people write them."""

from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.errors import UsageError
from hourline_core.model.hours import (
    HOUR,
    HourRange,
    hour_text,
    iso_text,
    moment_text,
    parse_hour,
    parse_range,
    parse_window_time,
    sql_timestamp,
    time_before,
    time_text,
)
from hourline_core.model.windows import HOURLY

moments = st.datetimes(timezones=st.timezones()).filter(lambda moment: 1970 < moment.year < 2200)


@pytest.mark.parametrize(
    "text",
    ["2013-01-05T14", "2013-01-05T14:00", "2013-01-05T14:00Z", "2013-01-05 14:00:00+00:00", "2013-01-05T19:30+05:30"],
)
def test_an_hour_may_be_written_in_many_ways(text: str) -> None:
    assert parse_hour(text) == datetime(2013, 1, 5, 14, tzinfo=UTC)


@given(moments)
def test_the_text_of_an_hour_is_read_back_as_that_hour(moment: datetime) -> None:
    hour = HOURLY.assign(moment.astimezone(UTC))
    assert parse_hour(hour_text(hour)) == hour
    assert timedelta(0) <= moment - hour < HOUR


def test_a_time_that_is_not_on_the_hour_is_refused_with_the_hours_beside_it() -> None:
    with pytest.raises(UsageError, match=r"not on the hour.*2013-01-05T14:00Z and 2013-01-05T15:00Z"):
        parse_hour("2013-01-05T14:30")


@pytest.mark.parametrize(
    "text", ["2013-01-05 14:30", "2013-01-05 14:30:01", "2013-01-05 14:30:01.000500", "0987-01-05 14:30"]
)
def test_the_time_of_a_window_is_read_back_from_its_text(text: str) -> None:
    assert moment_text(parse_window_time(text)) == text
    assert time_text(parse_window_time(text)) == f"{text.replace(' ', 'T')}Z"
    assert parse_window_time(time_text(parse_window_time(text))) == parse_window_time(text)


def test_a_year_has_four_digits_in_every_text() -> None:
    hour = datetime(987, 1, 5, 14, tzinfo=UTC)
    assert parse_hour(hour_text(hour)) == hour
    assert iso_text(hour) == "0987-01-05T14:00:00Z"
    assert iso_text(hour.replace(second=30, microsecond=500)) == "0987-01-05T14:00:30.000500Z"
    assert sql_timestamp(hour.astimezone(timezone(timedelta(hours=2)))) == "0987-01-05T14:00:00.000000Z"


def test_what_is_no_time_is_refused_with_an_example() -> None:
    with pytest.raises(UsageError, match="'yesterday' is not an hour; write it as 2013-01-05T14"):
        parse_hour("yesterday")


def test_a_range_is_half_open() -> None:
    hours = parse_range("2013-01-05T22", "2013-01-06T01")
    assert [hour.hour for hour in hours] == [22, 23, 0]
    assert datetime(2013, 1, 6, 1, tzinfo=UTC) not in hours


@given(st.sets(st.integers(0, 200), min_size=1), st.integers(1, 50))
def test_stretches_contain_all_hours_and_no_long_time_without_one(numbers: set[int], apart: int) -> None:
    hours = [datetime(2013, 1, 5, tzinfo=UTC) + number * HOUR for number in sorted(numbers)]
    stretches = HourRange.stretches(hours, apart * HOUR)
    assert [hour for stretch in stretches for hour in stretch if hour in hours] == hours
    for stretch in stretches:
        known = [hour for hour in hours if hour in stretch]
        assert (known[0], known[-1] + HOUR) == (stretch.start, stretch.end)
        assert all(later - earlier <= apart * HOUR for earlier, later in pairwise(known))
    assert all(after.start - before.end + HOUR > apart * HOUR for before, after in pairwise(stretches))


@pytest.mark.parametrize(
    ("start", "end", "reason"),
    [("2013-01-05T14", "2013-01-05T14", "contains no hour"), ("2013-01-05T15", "2013-01-05T14", "reversed")],
)
def test_an_empty_or_reversed_range_is_refused(start: str, end: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse_range(start, end)


@given(st.datetimes(timezones=st.just(UTC)), st.timedeltas(timedelta(0), timedelta(days=40_000)))
def test_a_time_before_all_times_is_the_first_one(moment: datetime, duration: timedelta) -> None:
    """A producer may send the year 1 for a time that it does not know."""
    first = datetime.min.replace(tzinfo=UTC)
    expected = first if moment - first < duration else moment - duration
    assert time_before(moment, duration) == expected
