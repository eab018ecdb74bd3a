"""The values of a source's event time become moments in UTC, as its encoding says."""

from decimal import ROUND_FLOOR, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.formats.arrow_types import MOMENT
from hourline_core.formats.columns.times import (
    DIGITS_OF_UNIT,
    local_moments_of_any_year,
    micros_since_1970,
    moments_of_any_year,
    to_utc,
)
from hourline_core.model import EventTime

_PLAIN_NUMBER = r"\A-?[0-9]{1,20}(?:\.[0-9]+)?\z"
_MOST_MICROS = 250_000_000_000_000_000
"""No number stands for a moment so far from 1970: it is a number of a smaller unit."""
_MOST_EXACT = {"epoch_seconds": 2.0**32, "epoch_milliseconds": 2.0**42}
"""Doubles below this are closer to each other than two microseconds are."""


def moments_of(values: pa.Array, time: EventTime) -> pa.Array:
    """The moment (UTC, microseconds) of each value of the event time. Null: there is none, or it cannot be read.

    What is below a microsecond is cut off, towards the earlier one.
    """
    kind = values.type
    if pa.types.is_timestamp(kind):
        micros = values.cast(pa.timestamp("us", kind.tz))
        return to_utc(micros, time.zone) if time.zone else micros.cast(MOMENT)
    if time.encoding == "iso":
        return moments_of_any_year(values).values
    if time.encoding == "local":
        assert time.zone, "a local encoding has a zone"
        return local_moments_of_any_year(values, time.zone).values
    return _micros(values, time.encoding).cast(MOMENT)


def _micros(numbers: pa.Array, encoding: str) -> pa.Array:
    """Microseconds since 1970 (bigint) from numbers of seconds or milliseconds, or from texts of them."""
    kind, unit = numbers.type, 10 ** DIGITS_OF_UNIT[encoding]
    if pa.types.is_integer(kind):
        return pc.multiply(_within(numbers.cast(pa.int64()), _MOST_MICROS // unit), unit)
    if pa.types.is_floating(kind):
        return _micros_of_doubles(numbers, encoding)
    if pa.types.is_decimal(kind):
        # This type has room for the bound, and for each product.
        exact = _within(numbers.cast(pa.decimal256(60, kind.scale)), Decimal(_MOST_MICROS // unit))
        return pc.floor(pc.multiply(exact, pa.scalar(Decimal(unit)))).cast(pa.int64())
    plain = pc.if_else(pc.match_substring_regex(numbers, _PLAIN_NUMBER), numbers, None)
    return _within(micros_since_1970(plain.cast(pa.binary()), encoding).values, _MOST_MICROS)


def _within(numbers: pa.Array, most: Any) -> pa.Array:
    """``numbers`` without those that are ``most`` or more, or minus that or less."""
    fits = pc.and_(pc.greater(numbers, -most), pc.less(numbers, most))
    return numbers if pc.all(fits).as_py() is not False else pc.if_else(fits, numbers, None)


def _micros_of_doubles(numbers: pa.Array, encoding: str) -> pa.Array:
    """Microseconds from doubles. Each stands for the shortest decimal number that it is the nearest double of."""
    unit = 10 ** DIGITS_OF_UNIT[encoding]
    doubles: npt.NDArray[np.float64] = numbers.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False)
    fits = np.abs(doubles) < _MOST_MICROS // unit
    scaled = np.rint(np.where(fits, doubles, 0) * unit)
    # There is at most one whole number of microseconds whose nearest double is this one.
    is_whole = (scaled / unit == doubles) & (np.abs(doubles) < _MOST_EXACT[encoding])
    micros = scaled.astype(np.int64)
    for row in np.flatnonzero(fits & ~is_whole).tolist():
        micros[row] = int((Decimal(repr(float(doubles[row]))) * unit).to_integral_value(ROUND_FLOOR))
    return pa.array(micros, pa.int64(), mask=~fits | numbers.is_null().to_numpy(zero_copy_only=False))
