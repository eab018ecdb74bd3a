"""Times and dates: a column of what was written becomes a column of moments in UTC, or of days."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.formats.arrow_types import MOMENT
from hourline_core.formats.columns.column import Column, convert_fitting, refuse_unless
from hourline_core.formats.columns.decimals import epoch_micros
from hourline_core.formats.time_grammar import ISO_DATE, ISO_LOCAL, ISO_WITH_OFFSET

_NAIVE = pa.timestamp("us")
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 (local times have no zone)
_MICROSECOND = timedelta(microseconds=1)
_DAY = 24 * 60 * 60 * 1_000_000
FIRST_MICROS, LAST_MICROS = (
    (datetime(year, 1, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // _MICROSECOND + day * _DAY - past
    for year, day, past in ((1, 0, 0), (9999, 365, 1))
)
"""The first and the last microsecond of the years 1 to 9999, which Python and Spark have."""
DIGITS_OF_UNIT = {"epoch_seconds": 6, "epoch_milliseconds": 3}
"""By encoding, how many digits a microsecond is behind the point."""
_LONGEST_EXACT = len("2013-01-05T14:30:00.123456")


def dates(texts: pa.Array) -> Column:
    """Days from texts of ISO_DATE."""
    return convert_fitting(texts, ISO_DATE, lambda fitting: fitting.cast(pa.date32()))


def moments(texts: pa.Array) -> Column:
    """Moments of the years 1 to 9999, from texts of ISO_WITH_OFFSET. Digits below a microsecond are cut off."""
    return _within_years(moments_of_any_year(texts))


def moments_of_any_year(texts: pa.Array) -> Column:
    """As ``moments``, with those that the offset moves before the year 1 or after 9999."""
    return convert_fitting(texts, ISO_WITH_OFFSET, lambda fitting: _cut(fitting).cast(MOMENT))


def local_moments(texts: pa.Array, zone: str) -> Column:
    """Moments of the years 1 to 9999, from texts of ISO_LOCAL, which are times in ``zone``.

    A time that a change of the clocks skips is read as if they had not changed yet, so it moves forward by the change.
    Of a time that there is twice, the earlier one is meant. So do Java and Spark's ``to_utc_timestamp``.
    """
    return _within_years(local_moments_of_any_year(texts, zone))


def local_moments_of_any_year(texts: pa.Array, zone: str) -> Column:
    """As ``local_moments``, with those that the zone moves before the year 1 or after 9999."""
    return convert_fitting(texts, ISO_LOCAL, lambda fitting: to_utc(_cut(fitting).cast(_NAIVE), zone))


def epochs(written: pa.Array, encoding: str) -> Column:
    """Moments of the years 1 to 9999, from the bytes of numbers of seconds or milliseconds since 1970."""
    micros = micros_since_1970(written, encoding)
    return _within_years(Column(micros.values.cast(MOMENT), micros.refused))


def micros_since_1970(written: pa.Array, encoding: str) -> Column:
    """Microseconds (bigint) from the bytes of numbers of seconds or milliseconds. What is below one is cut off,
    towards the earlier one. Numbers of more than 18 digits of microseconds are refused.
    """
    unit = DIGITS_OF_UNIT[encoding]
    factor = pa.scalar(Decimal(10**unit), pa.decimal128(unit + 1, 0))

    def convert(fitting: pa.Array) -> pa.Array:
        numbers = pc.ascii_trim(fitting.cast(pa.string()), characters='"').cast(pa.decimal128(27, 9))
        return pc.floor(pc.multiply(numbers, factor)).cast(pa.int64())

    # Up to this number of digits, the product is one that a bigint holds.
    fast = rf'\A"?-?[0-9]{{1,{18 - unit}}}(?:\.[0-9]{{1,9}})?"?\z'
    return convert_fitting(written, fast, convert, lambda one: epoch_micros(one, digits_of_unit=unit))


def _within_years(column: Column) -> Column:
    """``column`` without the moments before the year 1 or after 9999, which Python and Spark do not have."""
    micros = column.values.cast(pa.int64())
    return refuse_unless(column, pc.and_(pc.greater_equal(micros, FIRST_MICROS), pc.less_equal(micros, LAST_MICROS)))


def _cut(texts: pa.Array) -> pa.Array:
    """``texts`` with at most six digits of a second, which is what Arrow reads."""
    longest = pc.max(pc.binary_length(texts)).as_py()
    if longest is None or longest <= _LONGEST_EXACT:
        return texts
    return pc.replace_substring_regex(texts, r"(\.[0-9]{6})[0-9]+", r"\1")


def to_utc(local: pa.Array, name: str) -> pa.Array:
    """Moments from ``local``, times without a zone, which are times in the zone ``name``. See ``local_moments``."""
    zone = ZoneInfo(name)
    micros = local.cast(pa.int64())
    days = pc.dictionary_encode(local.cast(pa.date32()))
    # On most days the offset does not change, so it is looked up once a day.
    offsets = pa.array([_offset_of_day(day, zone) for day in days.dictionary.cast(pa.int32()).to_pylist()], pa.int64())
    found = offsets.take(days.indices)
    if offsets.null_count:
        changing = pc.and_(pc.is_null(found), pc.is_valid(micros))
        each = pc.unique(pc.filter(micros, changing))
        looked_up = pa.array([offset_of(one, zone) for one in each.to_pylist()], pa.int64())
        found = pc.coalesce(found, looked_up.take(pc.index_in(micros, value_set=each)))
    return pc.subtract(micros, found).cast(MOMENT)


def _offset_of_day(day: int, zone: ZoneInfo) -> int | None:
    """The offset from UTC in microseconds; None if it changes within ``day``, which counts from 1970."""
    first = offset_of(day * _DAY, zone)
    return first if first == offset_of((day + 1) * _DAY - 1, zone) else None


def offset_of(micros: int, zone: ZoneInfo) -> int:
    """The offset of a local time, before the change of the clocks if it is skipped, or there twice.

    Outside of the years 1 to 9999, which Python does not have, it is that of the nearest day within.
    """
    within = min(max(micros, FIRST_MICROS), LAST_MICROS)
    offset = (_EPOCH + timedelta(microseconds=within)).replace(tzinfo=zone).utcoffset()
    return (offset or timedelta(0)) // _MICROSECOND
