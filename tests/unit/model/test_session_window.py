"""Which hours the sessions depend on that an event in some hours could join."""

from datetime import UTC, datetime

from hourline_core.model.hours import HOUR, HourRange
from hourline_core.model.session_window import SessionWindow


def test_only_hours_around_are_read_whatever_lies_between() -> None:
    start = datetime(2024, 5, 1, tzinfo=UTC)
    session = SessionWindow.model_validate({"gap": "30m", "max_length": "2h"})
    hours = [start + number * HOUR for number in (10, 11, 100, 101)]
    found = [session.around(stretch) for stretch in HourRange.stretches(hours, session.reach)]
    # 2 hours of a session, half an hour on either side, and an hour to be sure of a chain that is longer.
    wanted = ((6, 16), (96, 106))
    assert found == [HourRange(start + first * HOUR, start + end * HOUR) for first, end in wanted]


def test_the_hours_around_the_first_and_the_last_years_are_those_that_there_are() -> None:
    session = SessionWindow.model_validate({"gap": "30m", "max_length": "200000h"})
    for year in 2, 9998:
        hour = datetime(year, 6, 1, tzinfo=UTC)
        around = session.around(HourRange.spanning([hour]))
        assert hour in around and around.start >= datetime(1, 1, 1, tzinfo=UTC)
