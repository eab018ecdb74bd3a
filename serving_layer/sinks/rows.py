"""The results that a sink sends, read from the merged view of its metric."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa

from hourline_core.model import Metric
from hourline_core.sql.literals import identifier, literal
from serving_layer.connection import Connection
from serving_layer.json_values import value_sql

ROWS_AT_ONCE = 10_000
"""The number of rows that are handed on at once. A transaction of Kafka has no more."""


class Span(NamedTuple):
    """A time with its end (exclusive), in UTC."""

    start: datetime
    end: datetime


def read_rows(
    connection: Connection, metric: Metric, spans: Sequence[Span] | None, condition: str = "true"
) -> pa.RecordBatchReader:
    """The results of ``metric`` whose windows share time with one of ``spans`` (None: all), and that fulfil
    ``condition``: key and value (JSON texts, see ``Result``), window_start and window_end (TIMESTAMPTZ in UTC). The
    state of a result counts as a part of its value. Raises TableError.
    """
    name = identifier(metric.name)
    types = {column.name: column.type for column in read_columns(connection, metric)}
    start, end = "window_start", "window_end"
    if metric.window.is_hour:
        start, end = "hour", "hour + INTERVAL 1 HOUR"
    key = [("window_start", _moment(start)), ("window_end", _moment(end))]
    key += [(one, _key_value(identifier(one), types[one])) for one in metric.dimensions]
    value = [(one, value_sql(identifier(one), types[one])) for one in metric.measures] + [("state", "state")]
    among = [condition]
    if spans is not None:
        # DuckDB reads fewer files by the bounds.
        first, last = min(span.start for span in spans), max(span.end for span in spans)
        among += [_shares_time(metric, first, last), f"({_within(metric, spans)})"]
    query = f"""
        SELECT {_json(key)} AS key, {_json(value)} AS value, {start} AS window_start, {end} AS window_end
        FROM {name} WHERE {" AND ".join(among)}"""
    return connection.sql(query).to_arrow_reader(ROWS_AT_ONCE)


def read_columns(connection: Connection, metric: Metric) -> pa.Schema:
    """The columns of the view of ``metric``. Raises TableError."""
    return connection.sql(f"FROM {identifier(metric.name)} LIMIT 0").to_arrow_table().schema


def _shares_time(metric: Metric, start: datetime, end: datetime) -> str:
    if metric.window.is_hour:
        return f"hour >= {literal(start)} AND hour < {literal(end)}"
    return f"window_start < {literal(end)} AND window_end > {literal(start)}"


def _within(metric: Metric, spans: Sequence[Span]) -> str:
    return " OR ".join(f"({_shares_time(metric, *span)})" for span in spans)


def _json(parts: Sequence[tuple[str, str]]) -> str:
    return f"json_object({', '.join(f'{literal(name)}, {value}' for name, value in parts)})::VARCHAR"


def _moment(value: str) -> str:
    """An ISO text. It has a fraction only if it needs one: windows begin at whole seconds, and sessions do not."""
    whole, exact = (f"strftime({value}, '{form}')" for form in ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%fZ"))
    return f"CASE WHEN date_trunc('second', {value}) = {value} THEN {whole} ELSE {exact} END"


def _key_value(value: str, kind: pa.DataType) -> str:
    """NaN and infinities are texts: a group of them is another one than that of null."""
    if pa.types.is_floating(kind):
        # NaN has a sign that says nothing.
        text = f"CASE WHEN isnan({value}) THEN 'nan' ELSE {value}::VARCHAR END"
        return f"CASE WHEN isfinite({value}) THEN to_json({value}) ELSE to_json({text}) END"
    return value_sql(value, kind)
