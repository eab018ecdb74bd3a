"""The event time of each record: the moment that it stands for, or why the record is rejected for it."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.model import EventTime, Source
from hourline_core.validation.moments import moments_of
from hourline_core.validation.reasons import Reasons

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST_TIME = datetime(2, 1, 1, tzinfo=UTC)
"""No event is earlier. Times a year before it can still be computed with."""
_LONGEST_GOT = 80


class EventTimes:
    """Reads the event times of a source, and checks them against its bounds."""

    def __init__(self, source: Source) -> None:
        self._time = source.event_time
        self._first = source.first_time or _FIRST_TIME
        self._latest = source.latest
        self._ahead = source.ahead

    def read(self, values: pa.Array, arrived: pa.Array, reasons: Reasons) -> pa.Array:
        """The moments (UTC) of ``values``, the event time as declared, of records that arrived at ``arrived`` (UTC).

        Rejects the rows whose value is no moment, or a moment out of bounds. Their moments may be anything.
        """
        moments = moments_of(values, self._time)
        want = describe_encoding(self._time)
        reasons.reject(values.is_null(), f"event time: {self._time.expression} is null")
        reasons.reject(moments.is_null(), lambda row: f"event time: got {_got(values[row])}, want {want}")
        micros = moments.cast(pa.int64())

        def describe(row: int, fault: str) -> str:
            return f"event time {_second(micros[row].as_py())} is {fault}"

        hours = self._ahead / timedelta(hours=1)
        latest_now = pc.add(arrived.cast(pa.int64()), self._ahead // _MICROSECOND)
        is_ahead = pc.greater(micros, latest_now)
        reasons.reject(is_ahead, lambda row: describe(row, f"more than {hours:g} h ahead of its arrival"))
        is_early = pc.less(micros, _micros(self._first))
        reasons.reject(is_early, lambda row: describe(row, f"before {_minute(self._first)}"))
        if latest := self._latest:
            is_late = pc.greater_equal(micros, _micros(latest))
            reasons.reject(is_late, lambda row: describe(row, f"not before {_minute(latest)}"))
        return moments


def describe_encoding(time: EventTime) -> str:
    """What an event time is to be, for a reason."""
    return {
        "iso": "ISO text with seconds and an offset, such as 2013-01-05T14:30:00Z "
        "(without an offset: declare encoding: local and a zone)",
        "local": "ISO text without an offset, such as 2013-01-05T14:30:00",
        "epoch_seconds": "seconds since 1970",
        "epoch_milliseconds": "milliseconds since 1970",
    }[time.encoding]


def _got(value: pa.Scalar) -> str:
    """A value for a reason, at most _LONGEST_GOT characters of it."""
    got = value.as_py()
    return (f"{got:f}" if isinstance(got, Decimal) else str(got))[:_LONGEST_GOT]


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def _minute(moment: datetime) -> str:
    return f"{moment.isoformat()[:16]}Z"


def _second(micros: int) -> str:
    """A moment to the second. Its year may be one that a datetime does not have."""
    text = str(np.datetime64(micros // 1_000_000, "s"))
    if text.startswith("-"):  # numpy writes -1 as -001.
        year, _, rest = text[1:].partition("-")
        text = f"-{year:0>4}-{rest}"
    return f"{text}Z"
