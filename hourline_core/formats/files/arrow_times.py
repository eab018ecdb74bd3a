"""Arrow's timestamps, dates and times of day as texts."""

from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

_EPOCH = date(1970, 1, 1)
_FIRST_DAY = (date.min - _EPOCH).days
_LAST_DAY = (date.max - _EPOCH).days
_DAY = 86_400
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_INT64 = (-(2**63), 2**63 - 1)


def time_texts(array: pa.Array) -> pa.Array:
    """The texts of an array of timestamps, dates or times of day, with all digits of the array's unit.

    A timestamp with a zone is in UTC with Z, one without a zone has no offset. The years 1 to 9999 have a text. Arrow
    has no true one for others, so they are the number that is stored, as in ``2932897 days since 1970``. It is no time,
    so that a record with it is rejected.
    """
    kind = array.type
    if types.is_date(kind):
        days = array.cast(pa.date32())
        return _within(days.cast(pa.int32()), days.cast(pa.string()), (_FIRST_DAY, _LAST_DAY), "days since 1970")
    per_second, unit = _PER_SECOND[kind.unit], _UNITS[kind.unit]
    if types.is_time(kind):
        number = pa.int32() if types.is_time32(kind) else pa.int64()
        bounds = (0, _DAY * per_second - 1)
        return _within(array.cast(number), array.cast(pa.string()), bounds, f"{unit} since midnight")
    if kind.tz is not None:
        array = array.cast(pa.timestamp(kind.unit, "UTC"))
    texts = pc.replace_substring(array.cast(pa.string()), " ", "T", max_replacements=1)
    first, last = _FIRST_DAY * _DAY * per_second, (_LAST_DAY + 1) * _DAY * per_second - 1
    return _within(array.cast(pa.int64()), texts, (max(first, _INT64[0]), min(last, _INT64[1])), f"{unit} since 1970")


def _within(numbers: pa.Array, texts: pa.Array, bounds: tuple[int, int], words: str) -> pa.Array:
    """``texts`` where ``numbers`` are within the inclusive ``bounds``, and otherwise the number and ``words``."""
    is_within = pc.and_(pc.greater_equal(numbers, bounds[0]), pc.less_equal(numbers, bounds[1]))
    if pc.all(is_within).as_py() is not False:
        return texts
    return pc.if_else(is_within, texts, pc.binary_join_element_wise(numbers.cast(pa.string()), words, " "))
