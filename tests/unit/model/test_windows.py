"""Window arithmetic against counting by hand."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hourline_core.model.metric_window import MetricWindow
from hourline_core.model.windows import HOURLY, TumblingWindow, Window
from tests.support.window_oracle import DECLARED, HOUR, WITH_PANES, Declared, parse_window, windows_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
moments = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 (zone added)
sizes = st.sampled_from([timedelta(minutes=m) for m in (1, 5, 15, 60, 180, 1440)])


@given(moments, sizes)
def test_an_event_lies_in_the_one_window_that_holds_its_time(moment: datetime, size: timedelta) -> None:
    window = TumblingWindow(size)
    start = window.assign(moment)
    assert start <= moment < start + size
    assert window.assign(start) == start
    assert window.assign(start + size) == start + size


@given(moments)
def test_the_hourly_window_is_the_hour_of_utc(moment: datetime) -> None:
    assert HOURLY.assign(moment) == moment.replace(minute=0, second=0, microsecond=0)


@pytest.mark.parametrize(("grace", "closed"), [(timedelta(0), "15:00"), (timedelta(minutes=30), "15:30")])
def test_a_window_is_closed_a_grace_past_its_end(grace: timedelta, closed: str) -> None:
    start = datetime(2013, 1, 5, 14, tzinfo=UTC)
    assert f"{start + HOURLY.complete_after(grace):%H:%M}" == closed


# The clocks of New York and Paris change in March, those of Sao Paulo did at midnight in October and November, and
# Samoa had no 30 December 2011.
ODD = [
    datetime(*day, tzinfo=UTC) for day in ((2024, 3, 9), (2018, 11, 3), (2018, 2, 17), (2011, 12, 28), (1971, 4, 24))
]


def windows(yaml: str) -> Window:
    """The arithmetic of the windows that are declared so."""
    declared = parse_window(yaml)
    assert isinstance(declared, MetricWindow)
    return declared.windows


def spans_of(declared: Declared, first: datetime, last: datetime) -> dict[datetime, datetime]:
    spans = windows(declared.yaml).touching(first, last)
    moments = [[EPOCH + timedelta(microseconds=number) for number in numbers] for numbers in spans]
    return dict(zip(*moments, strict=True))


@pytest.mark.parametrize("declared", [*DECLARED, *WITH_PANES], ids=lambda declared: declared.yaml)
@settings(max_examples=10)
@given(day=st.sampled_from(ODD), offset=st.integers(-30, 60), length=st.integers(0, 90))
def test_the_windows_of_hours_are_those_that_contain_one(
    declared: Declared, day: datetime, offset: int, length: int
) -> None:
    first = day + HOUR * offset
    hours = [first + HOUR * number for number in range(length + 1)]
    assert spans_of(declared, first, hours[-1] + HOUR - declared.step) == windows_of(declared, hours)


@pytest.mark.parametrize("declared", [*DECLARED, *WITH_PANES], ids=lambda declared: declared.yaml)
def test_a_pane_is_the_greatest_part_of_an_hour_that_no_boundary_divides(declared: Declared) -> None:
    assert parse_window(declared.yaml).pane == declared.step


def test_one_hour_is_the_hour_however_it_is_written() -> None:
    assert all(parse_window(text).is_hour for text in ("1h", "60 minutes", "{size: 1 hour, every: 60m}"))
    assert not any(parse_window(text).is_hour for text in ("30m", "2h", "{size: 1h, every: 20m}", "1 day"))


@pytest.mark.parametrize(
    ("window", "year", "month", "day"), [("1 year", 9999, 12, 31), ("100 years", 3, 1, 1), ("1 week", 1, 1, 1)]
)
def test_a_window_at_the_end_of_time_ends_there(window: str, year: int, month: int, day: int) -> None:
    hour = datetime(year, month, day, 23, tzinfo=UTC)
    ((start, end),) = zip(*windows(window).touching(hour, hour), strict=True)
    assert EPOCH + timedelta(microseconds=start) <= hour < EPOCH + timedelta(microseconds=end)


@pytest.mark.parametrize(("day", "length"), [((2024, 3, 10), 23), ((2024, 11, 3), 25), ((2024, 6, 1), 24)])
def test_a_day_of_new_york_has_23_to_25_hours(day: tuple[int, int, int], length: int) -> None:
    noon = datetime(*day, 17, tzinfo=UTC)
    ((start, end),) = spans_of(DECLARED[5], noon, noon).items()
    assert end - start == HOUR * length


def test_windows_at_the_ends_of_time_have_bounds() -> None:
    for year in (2, 9998):
        for declared in [*DECLARED, *WITH_PANES]:
            moment = datetime(year, 6, 1, tzinfo=UTC)
            assert all(start <= moment < end for start, end in spans_of(declared, moment, moment).items())
