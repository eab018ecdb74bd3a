"""Window arithmetic against counting by hand."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.model.windows import HOURLY, TumblingWindow

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
