"""Computes when each record of a replay is due, and waits for that time."""

from collections.abc import Callable
from itertools import count

from hourline_core.errors import UsageError
from hourline_core.formats.files.record import Record, moment_of

Pace = Callable[[Record], float]
"""Returns the seconds from the start of the replay to a record. Called once for each record, in order."""

# Long enough to cost little CPU time, and short enough to react to Ctrl-C at once.
_LONGEST_WAIT = 0.1
# Shorter waits are less precise than no wait.
_SHORTEST_WAIT = 0.001


def choose_pace(rate: float | None, speed: float | None, order_by: str | None) -> Pace | None:
    """The requested pace, or None for as fast as possible.

    Raises UsageError for both ``rate`` and ``speed``, a value that is not above zero, and ``speed`` without
    ``order_by``.
    """
    if rate is not None and speed is not None:
        raise UsageError(f"got both --rate {rate:g} and --speed {speed:g}; give one of them")
    for name, value in (("--rate", rate), ("--speed", speed)):
        if value is not None and not 0 < value < float("inf"):
            raise UsageError(f"got {name} {value:g}; allowed are numbers above zero")
    if rate is not None:
        return at_rate(rate)
    if speed is None:
        return None
    if order_by is None:
        raise UsageError("--speed needs the time of each record; name its column, as in --order-by sent_at")
    return at_speed(speed, order_by)


def at_rate(events_per_second: float) -> Pace:
    """A constant pace of ``events_per_second``."""
    number = count()
    return lambda record: next(number) / events_per_second


def at_speed(times_faster: float, column: str) -> Pace:
    """The pace of the times in ``column``, the order column, divided by ``times_faster``.

    The first record is due at once. A record without a time is due together with the one before it. The pace raises
    UsageError when the first record has no time.
    """
    first: int | None = None
    due = 0.0

    def pace(record: Record) -> float:
        nonlocal first, due
        moment = moment_of(record.rank) if record.rank else None
        if moment is None:
            if first is None:
                raise UsageError(
                    f"--speed needs times, but line {record.line} has none in the column '{column}'; "
                    "allowed are ISO 8601 texts and seconds or milliseconds since 1970"
                )
            return due
        if first is None:
            first = moment
        due = (moment - first) / 1_000_000 / times_faster
        return due

    return pace


def wait_until(
    moment: float, clock: Callable[[], float], wait: Callable[[float], object], stopped: Callable[[], bool]
) -> None:
    """Return when ``clock`` has reached ``moment``, or ``stopped``. ``wait`` must take at most the given seconds."""
    while not stopped():
        remaining = moment - clock()
        if remaining < _SHORTEST_WAIT:
            return
        wait(min(remaining, _LONGEST_WAIT))
