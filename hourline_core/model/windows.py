"""Windows: the results that an event counts in, and the time when a result is complete.

The layers keep partial states by *pane*: a slice of event time that no window boundary divides. A result is the merge
of the panes of its window. All window arithmetic is here; Spark and DuckDB get its results as numbers or expressions.
Panes were introduced by "Semantics and Evaluation Techniques for Window Aggregates in Data Streams" (Li et al., SIGMOD
2005).

The windows here follow from the calendar alone. Sessions follow from the events, so ``touching`` cannot list them.
`model/session_window.py` declares them, and `sql/session_windows.py` finds them when they are read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from math import gcd
from typing import Literal, NamedTuple, Protocol
from zoneinfo import ZoneInfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_MICROSECOND, _MINUTE = timedelta(microseconds=1), timedelta(minutes=1)
_MONDAY = date(1969, 12, 29).toordinal()
"""Days are counted from a Monday, so that seven of them are a week."""


class Spans(NamedTuple):
    """The starts (inclusive) and ends (exclusive) of windows, in order, in microseconds since 1970 in UTC."""

    starts: Sequence[int]
    ends: Sequence[int]


class Window(Protocol):
    """The windows of a metric. All times are aware and in UTC. The start of a window or pane is its name."""

    @property
    def pane(self) -> timedelta:
        """The length of a pane."""

    @property
    def shortest(self) -> timedelta:
        """A length that no window is shorter than. Two panes that are no further apart share a window, or have windows
        that follow each other.
        """

    def touching(self, first: datetime, last: datetime) -> Spans:
        """The windows that contain a pane from ``first`` to ``last``."""


@dataclass(frozen=True)
class TumblingWindow:
    """Windows of one ``size`` without gaps or overlaps, aligned to 1970 in UTC. Each is a single pane."""

    size: timedelta

    @property
    def pane(self) -> timedelta:
        """The size of the window itself."""
        return self.size

    def assign(self, event_time: datetime) -> datetime:
        """The window with ``start <= event_time < start + size``."""
        return event_time - (event_time - _EPOCH) % self.size

    def complete_after(self, grace: timedelta) -> timedelta:
        """The time from a window's start to its close, which is ``grace`` past its end, by its source's clock."""
        return self.size + grace


HOURLY = TumblingWindow(timedelta(hours=1))
"""The hours of UTC: what is recomputed, audited and published. They are the panes of windows that begin on the hour."""


@dataclass(frozen=True)
class HoppingWindow:
    """Windows of whole minutes. One starts at each multiple of ``every`` since 1970 in UTC. ``every`` is at most the
    ``size``; if it is the size, they do not overlap.
    """

    size: timedelta
    every: timedelta

    @property
    def pane(self) -> timedelta:
        """The greatest part of an hour that divides all windows."""
        return gcd(self.size // _MINUTE, self.every // _MINUTE, HOURLY.size // _MINUTE) * _MINUTE

    @property
    def shortest(self) -> timedelta:
        """The size."""
        return self.size

    def touching(self, first: datetime, last: datetime) -> Spans:
        """See Window. Both are a ``range``, whatever their number."""
        size, every = self.size // _MICROSECOND, self.every // _MICROSECOND
        start = (_micros(first) - size) // every * every + every
        end = _micros(last) // every * every + 1
        return Spans(range(start, end, every), range(start + size, end + size, every))


@dataclass(frozen=True)
class CalendarWindow:
    """Windows of ``size`` days or months in a zone. One starts at each multiple of ``every``: of the days since a
    Monday, or of the months since a year divisible by 100.

    A day begins at the zone's midnight and may have 23 to 25 hours. Seven days are a week, twelve months are a year.
    """

    size: int
    every: int
    unit: Literal["day", "month"]
    zone: ZoneInfo
    pane: timedelta
    """A part of an hour that divides the zone's offsets from UTC."""

    @property
    def shortest(self) -> timedelta:
        """The size, with days of 23 hours and months of 28 days."""
        return self.size * timedelta(hours=23) if self.unit == "day" else self.size * timedelta(days=27)

    def touching(self, first: datetime, last: datetime) -> Spans:
        """See Window."""
        # One more at each side, since a boundary is moved to the start of a pane.
        earliest = (self._number(first) - self.size) // self.every
        latest = self._number(last) // self.every + 1
        starts = [number * self.every for number in range(earliest, latest + 1)]
        spans = [(self._boundary(start), self._boundary(start + self.size)) for start in starts]
        begin, end = _micros(first), _micros(last)
        # A zone that has moved over the date line has days without an hour.
        touched = [(start, after) for start, after in spans if begin < after and start <= end and start < after]
        return Spans([start for start, _ in touched], [after for _, after in touched])

    def _number(self, moment: datetime) -> int:
        local = moment.astimezone(self.zone)
        return local.toordinal() - _MONDAY if self.unit == "day" else local.year * 12 + local.month - 1

    def _boundary(self, number: int) -> int:
        try:
            day = date.fromordinal(_MONDAY + number) if self.unit == "day" else _month(number)
            return _midnight(self.zone, day, self.pane)
        except (ValueError, OverflowError):  # before the year 1, or after 9999
            return _micros(_FIRST if number < self._number(_EPOCH) else _LAST)


def _month(number: int) -> date:
    year, month = divmod(number, 12)
    return date(year, month + 1, 1)


@cache
def _midnight(zone: ZoneInfo, day: date, pane: timedelta) -> int:
    """When ``day`` begins in ``zone``. Long ago many zones were some minutes off: there it is the pane's start before.

    A midnight that the clocks skip gives the moment when they do, as zoneinfo takes it.
    """
    return _micros(TumblingWindow(pane).assign(datetime.combine(day, time(), zone).astimezone(UTC)))


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND
