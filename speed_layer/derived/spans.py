"""Spans of successive hours: those of new events, and those in which these may have partners."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from hourline_core.model.windows import HOURLY

_HOUR = timedelta(hours=1)
FIRST_HOUR = datetime.min.replace(tzinfo=UTC)
"""The first hour that Python has."""
_LAST = HOURLY.assign(datetime.max.replace(tzinfo=UTC))

Span = tuple[datetime, datetime]
"""The first and the last of some successive hours (UTC)."""


def spans_of(hours: Iterable[datetime]) -> list[Span]:
    """The spans of ``hours`` (UTC), in order, with an hour or more between two of them."""
    return merge_spans((hour, hour) for hour in set(hours))


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """The same hours in as few spans as possible, in order."""
    merged: list[Span] = []
    for first, last in sorted(spans):
        if merged and first - merged[-1][1] <= _HOUR:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def spans_near(spans: Sequence[Span], earlier: timedelta, later: timedelta) -> list[Span]:
    """The hours of times that are at most ``earlier`` before, or ``later`` after, a time in ``spans``. They end where
    Python's times do.
    """
    later += _HOUR - timedelta.resolution  # to the last time of the hour
    return merge_spans((hour_at(first, -earlier), hour_at(last, later)) for first, last in spans)


def hour_at(hour: datetime, distance: timedelta) -> datetime:
    """The hour (UTC) of the time at a ``distance`` from ``hour``; the first or the last one there is, if
    that lies beyond Python's times.
    """
    try:
        return HOURLY.assign(hour + distance)
    except OverflowError:
        return FIRST_HOUR if distance < timedelta(0) else _LAST
