"""The bounds of event times are exact to the microsecond."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from hourline_core.formats.arrow_types import MOMENT
from hourline_core.model import EventTime, Field, Source
from hourline_core.validation.event_times import EventTimes
from hourline_core.validation.reasons import Reasons

EARLIEST, LATEST = datetime(2024, 3, 1, tzinfo=UTC), datetime(2024, 3, 2, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
SOURCE = Source(
    name="s",
    topic="t",
    fields={"at": Field(type="timestamp")},
    event_time=EventTime(expression="at"),
    earliest=EARLIEST,
    latest=LATEST,
    ahead=timedelta(hours=1),
)


def reasons_of(time: datetime, arrived: datetime) -> list[str | None]:
    reasons = Reasons(pa.array([True]))
    EventTimes(SOURCE).read(pa.array([time], MOMENT), pa.array([arrived], MOMENT), reasons)
    found: list[str | None] = reasons.to_arrow().to_pylist()
    return found


def test_the_earliest_time_is_within_bounds_and_the_latest_one_is_not() -> None:
    assert reasons_of(EARLIEST, LATEST) == reasons_of(LATEST - MICROSECOND, LATEST) == [None]
    assert reasons_of(EARLIEST - MICROSECOND, LATEST) == ["event time 2024-02-29T23:59:59Z is before 2024-03-01T00:00Z"]
    assert reasons_of(LATEST, LATEST) == ["event time 2024-03-02T00:00:00Z is not before 2024-03-02T00:00Z"]


def test_a_year_before_the_first_has_four_digits_in_a_reason() -> None:
    reasons, before = Reasons(pa.array([True])), pa.array([-62_167_219_200_000_001]).cast(MOMENT)
    EventTimes(SOURCE).read(before, pa.array([LATEST], MOMENT), reasons)
    assert reasons.to_arrow().to_pylist() == ["event time -0001-12-31T23:59:59Z is before 2024-03-01T00:00Z"]


def test_a_time_may_be_as_far_ahead_of_its_arrival_as_is_declared() -> None:
    ahead = EARLIEST + timedelta(hours=1)
    assert reasons_of(ahead, EARLIEST) == [None]
    assert reasons_of(ahead + MICROSECOND, EARLIEST) == [
        "event time 2024-03-01T01:00:00Z is more than 1 h ahead of its arrival"
    ]
