"""Validates the records of a source in Arrow columns. Each is accepted, or rejected with a reason.

A record without a value is a tombstone. The decision depends on the record and on ARRIVED alone, so no clock is read.
Spark calls the same steps for the sources that only it can validate, see `compute/validation.py`.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.formats.arrow_types import MOMENT
from hourline_core.model import Source
from hourline_core.model.expressions import named_column
from hourline_core.model.scratch_columns import (
    ARRIVED,
    EVENT_TIME,
    HEADERS,
    HOUR,
    KEY,
    OFFSET,
    OUTCOME,
    PARTITION,
    PLACE,
    REASON,
    RECORD,
    RECORD_TIMESTAMP,
    RECORD_TIMESTAMP_TYPE,
    TOPIC,
    VALUE,
)
from hourline_core.validation.event_times import EventTimes
from hourline_core.validation.keys import reject_undecodable
from hourline_core.validation.reasons import Reasons
from hourline_core.validation.value_decoder import ValueDecoder, Values, values_of

_MICROS_OF_HOUR = 3_600_000_000
_TIMESTAMP = f"{RECORD}.timestamp"


def event_time_column(source: Source) -> str | None:
    """The declared field that the source's event time merely names, or RECORD_TIMESTAMP. None: it is an expression, or
    ``explode`` may change what it names.
    """
    if source.explode:
        return None
    if source.event_time.expression.strip().lower() == _TIMESTAMP:
        return RECORD_TIMESTAMP
    name = named_column(source.event_time.expression)
    return next((field for field in source.fields if field.lower() == name), None)


def is_validated_natively(source: Source) -> bool:
    """Whether ``Validator.validate`` takes the records of ``source``: it needs no Spark SQL."""
    return source.branch is None and event_time_column(source) is not None


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Columns of a batch of records, which decide on it."""

    values: Values
    keys: pa.Array | None = None
    """binary. None: all are null, or they are not checked since the source's ``key_type`` is binary."""
    unreadable: pa.Array | None = None
    """string: why the conditions of the branches could not be evaluated; null if they could."""


class Validator:
    """Validates the records of ``source``. What its declaration needs is prepared once, in about a millisecond."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._decoder = ValueDecoder(source.format, source.fields)
        self._required = [name for name, field in source.fields.items() if field.required]
        self._times = EventTimes(source)

    def validate(self, records: pa.Table) -> pa.Table:
        """Validate the Kafka records of ``read_topics``: KEY, VALUE, HEADERS, RECORD_TIMESTAMP, RECORD_TIMESTAMP_TYPE,
        TOPIC, PARTITION, OFFSET and ARRIVED. ``is_validated_natively`` says for which sources it can.

        Returns one row for each record, in the same order, with PLACE (0) and OUTCOME. Rejected ones have REASON.
        Accepted ones have EVENT_TIME, HOUR (UTC) and the fields of an event. VALUE is on the rows that keep it. All
        else is null. Never raises, whatever the records hold.
        """
        batches = records.to_batches() or [pa.RecordBatch.from_pylist([], records.schema)]
        return pa.Table.from_batches([self._validate(batch) for batch in batches])

    def read_records(self, records: RecordColumns) -> tuple[dict[str, pa.Array], Reasons]:
        """The fields of ``records`` by name, and why records as a whole are rejected. Their fields may be anything."""
        values = records.values.values
        reasons = Reasons(values.is_valid())
        decoded = self._decoder.decode(records.values)
        reasons.reject(self._decoder.are_empty(records.values), "empty value")
        reasons.reject_for(decoded.reasons)
        if records.keys is not None:
            reject_undecodable(records.keys, self._source.key_type, reasons)
        if records.unreadable is not None:
            reasons.reject_for(records.unreadable)
        for name in self._required:
            reasons.reject(decoded.columns[name].is_null(), f"required field '{name}' is missing or null")
        return decoded.columns, reasons

    def read_times(self, values: pa.Array, arrived: pa.Array, reasons: Reasons) -> pa.Array:
        """The moments (UTC) of the event times ``values``. Rejects the rows that have none, or one out of bounds.

        ``arrived`` (UTC) says when the records arrived. The moments of rejected rows may be anything.
        """
        return self._times.read(values, arrived, reasons)

    def _validate(self, records: pa.RecordBatch) -> pa.RecordBatch:
        time = event_time_column(self._source)
        assert time, "is_validated_natively"
        values = records[VALUE]
        fields, reasons = self.read_records(RecordColumns(values_of(records, self._source.format), records[KEY]))
        values_of_time = records[RECORD_TIMESTAMP] if time == RECORD_TIMESTAMP else fields[time]
        times = self.read_times(values_of_time, records[ARRIVED], reasons)
        # What was neither rejected nor without a value from the start is still undecided.
        accepted = pa.array(reasons.undecided)
        why = reasons.to_arrow()
        outcome = pc.if_else(accepted, "accepted", pc.if_else(why.is_valid(), "rejected", "tombstone"))
        is_kept = pc.or_(accepted, why.is_valid()) if self._source.raw else why.is_valid()
        columns = {
            **{name: records[name] for name in (TOPIC, PARTITION, OFFSET)},
            PLACE: pa.array(np.zeros(len(values), np.int32)),
            **{name: records[name] for name in (RECORD_TIMESTAMP, RECORD_TIMESTAMP_TYPE, ARRIVED, KEY, HEADERS)},
            OUTCOME: outcome,
            REASON: why,
            VALUE: _where(is_kept, values),
            EVENT_TIME: _where(accepted, times),
            HOUR: _where(accepted, _hours(times)),
            **{name: _where(accepted, fields[name]) for name in self._source.event_fields},
        }
        return pa.RecordBatch.from_pydict(columns)


def _where(rows: pa.Array, column: pa.Array) -> pa.Array:
    """``column`` with null in all but ``rows`` (boolean)."""
    if pc.all(rows).as_py() is not False:
        return column
    kept: np.ndarray[tuple[int], np.dtype[np.bool_]] = rows.to_numpy(zero_copy_only=False)
    return column.take(pa.array(np.arange(len(kept)), mask=~kept))


def _hours(moments: pa.Array) -> pa.Array:
    """The start of the hour (UTC) of each moment."""
    micros = moments.cast(pa.int64()).fill_null(0).to_numpy()
    return pa.array(micros - micros % _MICROS_OF_HOUR, mask=moments.is_null().to_numpy(zero_copy_only=False)).cast(
        MOMENT
    )
