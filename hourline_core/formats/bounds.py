"""Bounds of numbers, and times in microseconds, of values of a schema's types."""

from collections.abc import Callable

from hourline_core.formats.columns.times import FIRST_MICROS, LAST_MICROS
from hourline_core.formats.unfit import UnfitError

UNITS = {"seconds": (1_000_000, 1), "millis": (1000, 1), "micros": (1, 1), "nanos": (1, 1000)}
"""By unit, what a number of them is multiplied with, and divided by, to be one of microseconds."""

_MICROS_OF_DAY = 24 * 60 * 60 * 1_000_000
_FIRST_DAY, _LAST_DAY = (micros // _MICROS_OF_DAY for micros in (FIRST_MICROS, LAST_MICROS))


def within(first: int, last: int, want: str) -> Callable[[int], int]:
    """What gives a number from ``first`` to ``last``, and raises UnfitError for another one."""

    def check(value: int) -> int:
        if first <= value <= last:
            return value
        raise UnfitError(str(value), want)

    return check


check_day = within(_FIRST_DAY, _LAST_DAY, "a date of the years 1 to 9999")
"""Gives a number of days since 1970."""
check_time_of_day = within(0, _MICROS_OF_DAY - 1, "a time of day")
"""Gives a number of microseconds since midnight."""


def moment_of(unit: str) -> Callable[[int], int]:
    """What gives the microseconds since 1970 of a number in ``unit``. What is below one is cut off, towards the earlier
    one. Raises UnfitError for a moment outside of the years 1 to 9999.
    """
    factor, divisor = UNITS[unit]

    def convert(value: int) -> int:
        micros = value * factor // divisor
        if FIRST_MICROS <= micros <= LAST_MICROS:
            return micros
        raise UnfitError(str(value), "a timestamp of the years 1 to 9999")

    return convert
