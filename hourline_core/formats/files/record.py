"""One record of a replay, and the rank of its value in the order column."""

import math
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import NamedTuple

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_INT64 = range(-(2**63), 2**63)
# The year 5138 in seconds, 1973 in milliseconds.
_LEAST_MILLISECONDS = 1e11


class Kind(IntEnum):
    """The kind of a value in the order column. Kinds sort by their numbers."""

    NUMBER = 0
    TIME = 1
    TEXT = 2
    NOTHING = 3


class Rank(NamedTuple):
    """The sort key of a value in the order column."""

    kind: Kind
    number: float = 0.0
    exact: int = 0
    """An integer exactly, since a float may round it. For a time, the microseconds since 1970 in UTC."""
    text: bytes = b""


class Record(NamedTuple):
    """One record to send."""

    line: int
    """Its line in the file, from 1. In a Parquet file, its row."""
    payload: bytes | None
    """None: it is a tombstone."""
    key: bytes | None
    partition: int | None
    """-1 leaves the choice to the producer. None if the record should name its partition, but does not."""
    rank: Rank | None
    """None in a replay in the file's order."""
    timestamp: int = 0
    """In milliseconds since 1970 in UTC. 0: that of the moment at which it is sent."""
    headers: tuple[tuple[str, bytes | None], ...] = ()


def rank_of(value: object) -> Rank:
    """The rank of a JSON value. ISO 8601 text (``2013-01-05T14:00``, ``2013-01-05``) is a time, by default in UTC."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        exact = value if isinstance(value, int) and value in _INT64 else 0
        try:
            return Rank(Kind.NUMBER, float(value), exact)
        except OverflowError:
            return Rank(Kind.NUMBER, math.inf if value > 0 else -math.inf)
    if isinstance(value, str):
        moment = _iso(value)
        if moment is not None:
            return Rank(Kind.TIME, exact=(moment - _EPOCH) // _MICROSECOND)
        return Rank(Kind.TEXT, text=value.encode("utf-8", "surrogatepass"))
    return Rank(Kind.NOTHING)


def moment_of(rank: Rank) -> int | None:
    """The time of a rank in microseconds since 1970 in UTC, or None.

    Numbers are seconds, or milliseconds if seconds would be after the year 5000.
    """
    if rank.kind == Kind.TIME:
        return rank.exact
    if rank.kind == Kind.NUMBER and math.isfinite(rank.number):
        return int(rank.number * (1_000 if abs(rank.number) >= _LEAST_MILLISECONDS else 1_000_000))
    return None


def moment_text(moment: int | None) -> str:
    """``2013-01-05 14:00:07`` for microseconds since 1970. Empty for None, and for times outside the calendar."""
    try:
        return "" if moment is None else f"{_EPOCH + moment * _MICROSECOND:%Y-%m-%d %H:%M:%S}"
    except OverflowError:
        return ""


def _iso(text: str) -> datetime | None:
    # fromisoformat also reads 20130105 and 2013-W01, which may just as well be codes.
    if text[4:5] != "-" or text[7:8] != "-":
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
