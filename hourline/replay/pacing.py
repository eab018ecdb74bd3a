"""When each record of a replay is due, and waiting for that moment."""

from collections.abc import Callable
from itertools import count

from hourline_core.errors import UsageError
from hourline_core.formats.files.record import Record, moment_of

Pace = Callable[[Record], float]
"""The seconds after the start of the replay at which a record is due; asked once for each record, in their order."""

# Long enough to cost nothing, short enough that Ctrl-C is answered at once.
_LONGEST_WAIT = 0.1
# Below this, waiting costs more than it keeps apart.
_SHORTEST_WAIT = 0.001


def choose_pace(rate: float | None, speed: float | None, order_by: str | None) -> Pace | None:
    """The pace asked for; None is as fast as it goes. Raises UsageError for both at once, a pace not above zero, or
    ``speed`` without ``order_by``.
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
        raise UsageError("--speed needs to know each record's time; name its column, as in --order-by sent_at")
    return at_speed(speed, order_by)


def at_rate(events_per_second: float) -> Pace:
    """Evenly, ``events_per_second``."""
    number = count()
    return lambda record: next(number) / events_per_second


def at_speed(times_faster: float, column: str) -> Pace:
    """As far apart as their times in ``column``, which is the order column, divided by ``times_faster``.

    The first record is due at once, and one without a time together with the one before it. Asking raises UsageError
    when the first value is no time.
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
    """Return when ``clock`` has reached ``moment``, or ``stopped``. ``wait`` is to pass at most the seconds it is
    given.
    """
    while not stopped():
        remaining = moment - clock()
        if remaining < _SHORTEST_WAIT:
            return
        wait(min(remaining, _LONGEST_WAIT))
