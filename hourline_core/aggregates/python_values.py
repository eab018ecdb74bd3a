"""The values of Arrow columns as those of Python, which the classes of a project are given."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from hourline_core.aggregates.user_code import fail_at_event
from hourline_core.model import UserMeasure


def read_events(measure: UserMeasure, method: str, events: pa.StructArray) -> list[tuple[Any, ...]]:
    """The fields of each event, which has at least ``topic``, ``partition`` and ``offset``. Times are in UTC.

    Raises MeasureError, which names the event, for a date or time that Python does not have. ``method`` of the class
    would be given it.
    """
    columns = [in_utc(events.field(place)) for place in range(events.type.num_fields)]
    try:
        return list(zip(*(column.to_pylist() for column in columns), strict=True))
    except (OverflowError, ValueError):
        for place in range(len(events)):
            _read(measure, method, columns, events, place)
        raise


def _read(measure: UserMeasure, method: str, columns: Sequence[pa.Array], events: pa.StructArray, place: int) -> None:
    """Raise MeasureError if the event at ``place`` cannot be read."""
    try:
        _ = [column[place].as_py() for column in columns]
    except (OverflowError, ValueError):
        topic, partition, offset = (events.field(name)[place].as_py() for name in ("topic", "partition", "offset"))
        error = ValueError("an argument has a date or time beyond the years 1 to 9999, which Python does not have")
        fail_at_event(measure, method, error, topic, partition, offset)


def in_utc(values: pa.Array) -> pa.Array:
    """The same values, with times in UTC: DuckDB gives them in the zone that a connection is set to."""
    of = _type_in_utc(values.type)
    return values if of == values.type else values.cast(of)


def _type_in_utc(of: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_timestamp(of) and of.tz:
        return pa.timestamp(of.unit, "UTC")
    if types.is_list(of):
        return pa.list_(of.value_field.with_type(_type_in_utc(of.value_type)))
    if types.is_map(of):
        return pa.map_(
            of.key_field.with_type(_type_in_utc(of.key_type)), of.item_field.with_type(_type_in_utc(of.item_type))
        )
    if types.is_struct(of):
        return pa.struct([field.with_type(_type_in_utc(field.type)) for field in of])
    return of
