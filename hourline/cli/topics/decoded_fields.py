"""The fields of records as a source reads them, beside the bytes."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from math import isfinite
from typing import Any

import pyarrow as pa

from hourline.cli.topics.record_lines import json_of_bytes
from hourline_core.formats.arrow_types import MOMENT
from hourline_core.model import Source
from hourline_core.model.hours import iso_text
from hourline_core.model.scratch_columns import HEADERS, KEY, RECORD_TIMESTAMP, RECORD_TIMESTAMP_TYPE, VALUE
from hourline_core.runtime.topic_reader import TopicRecord
from hourline_core.validation.validator import RecordColumns, Validator, event_time_column
from hourline_core.validation.value_decoder import values_of

_MOST_MILLISECONDS = (2**63 - 1) // 1000


class DecodedFields:
    """Reads records by the declaration of ``source``."""

    def __init__(self, source: Source) -> None:
        self._source, self._validator = source, Validator(source)

    def of(self, records: Sequence[TopicRecord], now: datetime) -> list[dict[str, Any]]:
        """For each record, ``fields`` by name, or ``rejected`` with the reason. A tombstone has neither. ``now`` (UTC)
        is when they arrived.

        An event time that is an expression is not looked at, nor is the condition of a branch. Raises RegistryError.
        """
        batch = _batch(records)
        columns, reasons = self._validator.read_records(
            RecordColumns(values_of(batch, self._source.format), batch[KEY])
        )
        if time := event_time_column(self._source):
            times = batch[RECORD_TIMESTAMP] if time == RECORD_TIMESTAMP else columns[time]
            self._validator.read_times(times, pa.repeat(pa.scalar(now, MOMENT), len(records)), reasons)
        accepted, why = reasons.undecided.tolist(), reasons.to_arrow().to_pylist()
        fields = {name: columns[name].to_pylist(maps_as_pydicts="lossy") for name in self._source.fields}
        return [
            {"rejected": why[row]}
            if why[row] is not None
            else {"fields": {name: _as_json(values[row]) for name, values in fields.items()}}
            if accepted[row]
            else {}
            for row in range(len(records))
        ]


def _batch(records: Sequence[TopicRecord]) -> pa.RecordBatch:
    milliseconds = pa.array([_moment(record.timestamp) for record in records], pa.timestamp("ms", tz="UTC"))
    columns = {
        KEY: pa.array([record.key for record in records], pa.binary()),
        VALUE: pa.array([record.value for record in records], pa.binary()),
        # Of several with one name, the last.
        HEADERS: pa.array(
            [list(dict(record.headers).items()) for record in records], pa.map_(pa.string(), pa.binary())
        ),
        RECORD_TIMESTAMP: milliseconds.cast(MOMENT),
        # A record of a topic always has a type: one without is a row of a file.
        RECORD_TIMESTAMP_TYPE: pa.array([record.timestamp_type or "create" for record in records], pa.string()),
    }
    return pa.RecordBatch.from_pydict(columns)


def _moment(milliseconds: int | None) -> int | None:
    """None: Kafka allows any number, such as one in nanoseconds, and ``MOMENT`` does not hold it."""
    return None if milliseconds is None or abs(milliseconds) > _MOST_MILLISECONDS else milliseconds


def _as_json(value: Any) -> Any:
    """``value`` of a field: moments are ISO text in UTC, decimals, dates and times are text, bytes as in a record."""
    match value:
        case Mapping():
            return {str(name): _as_json(one) for name, one in value.items()}
        case list() | tuple():
            return [_as_json(one) for one in value]
        case bytes():
            return json_of_bytes(value)
        case datetime():
            return iso_text(value)
    is_number = isinstance(value, float) and isfinite(value)
    return value if value is None or is_number or isinstance(value, bool | int | str) else _text(value)


def _text(value: object) -> str | None:
    """None: JSON has no NaN, and no infinity."""
    return None if isinstance(value, float) else str(value)
