"""One record of a replay, and where its value of the order column ranks."""

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
    """What a value of the order column is; kinds are ordered among themselves as here."""

    NUMBER = 0
    TIME = 1
    TEXT = 2
    NOTHING = 3


class Rank(NamedTuple):
    """Where a value of the order column stands: ranks compare as their values are to be ordered."""

    kind: Kind
    number: float = 0.0
    exact: int = 0
    """The whole number, which a float may not tell from its neighbours; of a time, the microseconds since 1970 in UTC.
    """
    text: bytes = b""


class Record(NamedTuple):
    """One record to send."""

    line: int
    """Its line in the file (of a Parquet file: its row), from 1."""
    payload: bytes
    key: bytes | None
    partition: int | None
    """-1 leaves the choice to the producer; None: the record was to name one itself, and names none."""
    rank: Rank | None
    """None in a replay that goes in the file's order."""


def rank_of(value: object) -> Rank:
    """The rank of a JSON value. Text counts as a time when it is ISO 8601 (``2013-01-05T14:00``, ``2013-01-05``), in
    UTC unless it has an offset.
    """
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
    """The time a rank stands for, in microseconds since 1970 in UTC, or None. A number counts as seconds, or as
    milliseconds where seconds would lie beyond the year 5000.
    """
    if rank.kind == Kind.TIME:
        return rank.exact
    if rank.kind == Kind.NUMBER and math.isfinite(rank.number):
        return int(rank.number * (1_000 if abs(rank.number) >= _LEAST_MILLISECONDS else 1_000_000))
    return None


def moment_text(moment: int | None) -> str:
    """``2013-01-05 14:00:07`` for microseconds since 1970, empty where there is no such date."""
    try:
        return "" if moment is None else f"{_EPOCH + moment * _MICROSECOND:%Y-%m-%d %H:%M:%S}"
    except OverflowError:
        return ""


def _iso(text: str) -> datetime | None:
    if (
        text[4:5] != "-" or text[7:8] != "-"
    ):  # fromisoformat also reads 20130105 and 2013-W01, which are as likely to be codes
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
