"""Durations, and their text."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.model.times import duration_text, parse_duration


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("30s", timedelta(seconds=30)),
        ("90m", timedelta(minutes=90)),
        ("2h", timedelta(hours=2)),
        ("1d", timedelta(days=1)),
        ("1d 2h 3m 4s 5ms", timedelta(days=1, hours=2, minutes=3, seconds=4, milliseconds=5)),
        ("500ms", timedelta(milliseconds=500)),
        ("0s", timedelta(0)),
        ("PT2H", timedelta(hours=2)),
        ("P1DT30M", timedelta(days=1, minutes=30)),
    ],
)
def test_durations(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@given(st.timedeltas(timedelta(0), timedelta(days=36_500)).map(lambda time: time - time % timedelta(milliseconds=1)))
def test_the_text_of_a_duration_is_read_as_the_same_duration(duration: timedelta) -> None:
    assert parse_duration(duration_text(duration)) == duration


def test_the_text_of_a_duration_is_short() -> None:
    assert [duration_text(timedelta(minutes=minutes)) for minutes in (0, 90, 1440)] == ["0s", "1h 30m", "1d"]
