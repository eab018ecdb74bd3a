"""Hours and ranges of hours: UTC, aware, half-open. All text that names an hour is parsed here."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hourline_core.errors import UsageError
from hourline_core.model.windows import HOURLY

HOUR = HOURLY.size
_FIRST, _LAST = datetime(2, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)

Clock = Callable[[], datetime]
"""Returns the current time, aware and in UTC. It is passed in wherever wall time is used, so that tests can set it."""


def wall_clock() -> datetime:
    """The machine's clock, in UTC."""
    return datetime.now(UTC)


def time_before(time: datetime, duration: timedelta) -> datetime:
    """The ``time`` less ``duration``, or the first time that Python has, if that is later."""
    return time - min(duration, time - datetime.min.replace(tzinfo=UTC))


@dataclass(frozen=True)
class HourRange:
    """The hours ``start <= hour < end``. Both ends are on the hour, in UTC."""

    start: datetime
    end: datetime

    @classmethod
    def spanning(cls, hours: Collection[datetime]) -> "HourRange":
        """The shortest range that contains all of ``hours``, which must not be empty."""
        return cls(min(hours), max(hours) + HOUR)

    @classmethod
    def stretches(cls, hours: Sequence[datetime], apart: timedelta) -> list["HourRange"]:
        """The shortest ranges that contain all of ``hours``, which are sorted and not empty. A new one begins with an
        hour that follows more than ``apart`` after the hour before.
        """
        begins = [0, *(place for place in range(1, len(hours)) if hours[place] - hours[place - 1] > apart), len(hours)]
        return [cls.spanning(hours[first:end]) for first, end in pairwise(begins)]

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
    # strftime would write the year 987 in three digits.
    return hour.astimezone(UTC).isoformat(timespec="minutes").replace("+00:00", "Z")


def moment_text(moment: datetime) -> str:
    """``2013-01-05 14:00``, with seconds and microseconds if it has some. ``moment`` is in UTC."""
    exactness = "microseconds" if moment.microsecond else "seconds" if moment.second else "minutes"
    return moment.replace(tzinfo=None).isoformat(" ", exactness)


def time_text(moment: datetime) -> str:
    """``2013-01-05T14:00Z``, with seconds and microseconds if it has some."""
    return f"{moment_text(moment.astimezone(UTC)).replace(' ', 'T')}Z"


def iso_text(moment: datetime) -> str:
    """``2013-01-05T14:00:00Z``, with microseconds if it has some. ``moment`` is in UTC."""
    exactness = "microseconds" if moment.microsecond else "seconds"
    return f"{moment.replace(tzinfo=None).isoformat(timespec=exactness)}Z"


def parse_hour(text: str) -> datetime:
    """Parse ISO text: ``2013-01-05T14``, ``2013-01-05T14:00Z`` or ``2013-01-05`` (midnight). The default zone is UTC.

    Raises UsageError when the text is no time, or not on the hour.
    """
    moment = _parse_allowed(text, "an hour", "2013-01-05T14 or 2013-01-05T14:00Z")
    before = HOURLY.assign(moment)
    if moment != before:
        raise UsageError(
            f"'{text}' is not on the hour (UTC); "
            f"the nearest hours are {hour_text(before)} and {hour_text(before + HOUR)}"
        )
    return moment


def parse_window_time(text: str) -> datetime:
    """Parse ISO text: ``2013-01-05T14:05``, ``2013-01-05T14:05:30.5``, or any that ``parse_hour`` reads. The default
    zone is UTC. Raises UsageError when the text is no time.
    """
    return _parse_allowed(text, "a time", "2013-01-05T14:05 or 2013-01-05T14:05Z")


def _parse_allowed(text: str, what: str, examples: str) -> datetime:
    moment = parse_moment(text)
    if moment is None:
        raise UsageError(f"'{text}' is not {what}; write it as {examples}")
    if not _FIRST <= moment < _LAST:
        raise UsageError(f"'{text}' is outside the allowed years, {_FIRST.year} to {_LAST.year - 1}")
    return moment


def parse_moment(text: str) -> datetime | None:
    """Parse ISO text to a time in UTC. The default zone is UTC.

    Returns None for text that is no time, and for times outside the years 1 to 9999 in UTC.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def parse_range(start: str, end: str) -> HourRange:
    """Parse the two ends of a range. Raises UsageError when one is no hour, or the range is reversed or empty."""
    return range_between(parse_hour(start), parse_hour(end))


def range_between(start: datetime, end: datetime) -> HourRange:
    """The hours from ``start`` to ``end``, which are on the hour. Raises UsageError when they are reversed or equal."""
    hours = HourRange(start, end)
    if end == start:
        raise UsageError(
            f"the range {hours} contains no hour, since its end is exclusive; "
            f"for that one hour, give {hour_text(end + HOUR)} as its end"
        )
    if end < start:
        raise UsageError(f"the range {hours} is reversed; give the earlier hour first")
    return hours


def sql_timestamp(moment: datetime) -> str:
    """An aware time as text that Spark, DuckDB and delta-rs all read as the same time in UTC."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
