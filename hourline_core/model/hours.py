"""Hours and ranges of hours: UTC, aware, half-open. The only place where text becomes an hour."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from hourline_core.errors import UsageError
from hourline_core.model.windows import HOURLY

HOUR = HOURLY.size
_FIRST, _LAST = datetime(2, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)

Clock = Callable[[], datetime]
"""Returns the present moment, aware and in UTC. Injected wherever wall time is used, so that tests hold it."""


def wall_clock() -> datetime:
    """The machine's clock, in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class HourRange:
    """The hours ``start <= hour < end``; both ends lie on the hour, in UTC."""

    start: datetime
    end: datetime

    @classmethod
    def spanning(cls, hours: Collection[datetime]) -> "HourRange":
        """The shortest range that holds all of ``hours``, which are not empty."""
        return cls(min(hours), max(hours) + HOUR)

    def __iter__(self) -> Iterator[datetime]:
        hour = self.start
        while hour < self.end:
            yield hour
            hour += HOUR

    def __contains__(self, hour: datetime) -> bool:
        return self.start <= hour < self.end

    def __str__(self) -> str:
        return f"{hour_text(self.start)} to {hour_text(self.end)}"


def hour_text(hour: datetime) -> str:
    """``2013-01-05T14:00Z``."""
    return hour.astimezone(UTC).strftime("%Y-%m-%dT%H:%MZ")


def parse_hour(text: str) -> datetime:
    """An hour from ISO text: ``2013-01-05T14``, ``2013-01-05T14:00Z``, ``2013-01-05`` (midnight); without an offset it
    is UTC.

    Raises UsageError when the text is no time, or not on the hour.
    """
    moment = parse_moment(text)
    if moment is None:
        raise UsageError(f"'{text}' is not an hour; write it as 2013-01-05T14 or 2013-01-05T14:00Z")
    if not _FIRST <= moment < _LAST:
        raise UsageError(f"'{text}' lies beyond the years that hours are kept of, {_FIRST.year} to {_LAST.year - 1}")
    if moment != HOURLY.assign(moment):
        raise UsageError(
            f"'{text}' is not on the hour (UTC); the hours beside it are {hour_text(HOURLY.assign(moment))} and {hour_text(HOURLY.assign(moment) + HOUR)}"
        )
    return moment


def parse_moment(text: str) -> datetime | None:
    """A moment from ISO text, in UTC unless it says otherwise; None: it is none, or lies beyond the years 1 to 9999 in
    UTC.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def parse_range(start: str, end: str) -> HourRange:
    """A range from two hours' texts. Raises UsageError when either is no hour, or the range is reversed or empty."""
    hours = HourRange(parse_hour(start), parse_hour(end))
    if hours.end == hours.start:
        raise UsageError(
            f"the range {hours} holds no hour; the end is exclusive: for that one hour, give --to {hour_text(hours.end + HOUR)}"
        )
    if hours.end < hours.start:
        raise UsageError(f"the range {hours} is reversed; give the earlier hour as --from")
    return hours


def sql_timestamp(moment: datetime) -> str:
    """An aware moment as text that Spark, DuckDB and delta-rs all read as the same UTC time."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
