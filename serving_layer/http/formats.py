"""Writes rows as JSON, CSV or Arrow IPC. In JSON and CSV, moments are ISO text in UTC, numbers have all their
digits, and NaN and infinities are null, at every depth.

Lists and structs are arrays and objects in JSON, and JSON in a cell of CSV.
"""

import json
import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

import duckdb
import pyarrow as pa
import pyarrow.csv as pa_csv
from pydantic import BaseModel

from hourline_core.model.hours import iso_text
from hourline_core.sql.literals import identifier, literal
from hourline_core.sql.types import column_types
from serving_layer.http.error_responses import TooLargeError
from serving_layer.json_values import value_sql

Format = Literal["json", "csv", "arrow"]

MEDIA_TYPES: dict[Format, str] = {
    "json": "application/json",
    "csv": "text/csv",
    "arrow": "application/vnd.apache.arrow.stream",
}


def format_of(accept: str, asked: Format | None) -> Format:
    """The parameter ``format``, or else the first known format of the Accept header. JSON if it names none."""
    if asked:
        return asked
    named = [part.partition(";")[0].strip().casefold() for part in accept.split(",")]
    return next((form for name in named for form, media_type in MEDIA_TYPES.items() if name == media_type), "json")


def fetch(database: duckdb.DuckDBPyConnection, query: str, values: Iterable[object], most_bytes: int) -> pa.Table:
    """The rows of a query with bound ``values``. Raises TooLargeError as soon as they have more than ``most_bytes``."""
    reader = database.execute(query, list(values)).to_arrow_reader(8_192)
    batches, size = [], 0
    for batch in reader:
        batches.append(batch)
        size += batch.nbytes
        if size > most_bytes:
            raise TooLargeError(
                f"the answer has more than {most_bytes:,} bytes, which are allowed (serve.bytes); ask for fewer hours "
                "or rows"
            )
    return pa.Table.from_batches(batches, reader.schema)


def columns_of(
    database: duckdb.DuckDBPyConnection, rows: pa.Table, errors: Mapping[str, str]
) -> list[dict[str, str | None]]:
    """Name and DuckDB's type of each column, and how near its values are to the truth."""
    database.register("_rows", rows)
    types = column_types(database, "_rows")
    return [{"name": name, "type": kind, "error": errors.get(name)} for name, kind in types.items()]


def rows_json(database: duckdb.DuckDBPyConnection, rows: pa.Table, *, integers_as_text: bool = False) -> bytes:
    """The rows as an array of objects. 64-bit integers and decimals are JSON numbers with all their digits, or texts
    with ``integers_as_text``.
    """
    parts = [f"{literal(field.name)}, {_column_sql(field, integers_as_text)}" for field in rows.schema]
    database.register("_rows", rows)  # Computed by DuckDB, during which other threads can use Python.
    objects = database.execute(f"SELECT json_object({', '.join(parts)})::VARCHAR FROM _rows").to_arrow_table()
    return f"[{','.join(objects.column(0).to_pylist())}]".encode()


def rows_csv(database: duckdb.DuckDBPyConnection, rows: pa.Table) -> bytes:
    """The rows as CSV with a line of names. Null is nothing, and an empty text is ``""``."""
    database.register("_rows", rows)
    cells = [
        f"to_json({value})::VARCHAR AS {name}" if pa.types.is_nested(field.type) else f"{value} AS {name}"
        for field in rows.schema
        for value, name in [(_column_sql(field), identifier(field.name))]
    ]
    plain = database.execute(f"SELECT {', '.join(cells)} FROM _rows").to_arrow_table()
    sink = pa.BufferOutputStream()
    pa_csv.write_csv(plain, sink)
    return bytes(sink.getvalue().to_pybytes())


def rows_arrow(rows: pa.Table, about: dict[str, str]) -> bytes:
    """The rows as an Arrow IPC stream, with ``about`` in its schema's metadata."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema.with_metadata(about)) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue().to_pybytes())


def _column_sql(field: pa.Field, integers_as_text: bool = False) -> str:
    """SQL for a column's value in JSON and CSV."""
    name = identifier(field.name)
    if pa.types.is_timestamp(field.type) and field.name == "hour":
        # An hour is written as one. A column of that name in free SQL may be no hour.
        whole = f"strftime({name}, '%Y-%m-%dT%H:%M:%SZ')"
        return f"CASE WHEN date_trunc('second', {name}) = {name} THEN {whole} ELSE {value_sql(name, field.type)} END"
    return value_sql(name, field.type, integers_as_text)


def json_bytes(value: Any) -> bytes:
    """A report as JSON: pydantic models, mappings, lists and what they hold."""
    return json.dumps(_jsonable(value), allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()


def _jsonable(value: Any) -> Any:
    match value:
        case BaseModel():
            plain: Any = _jsonable(value.model_dump())
        case dict():
            plain = {str(key): _jsonable(item) for key, item in value.items()}
        case list() | tuple():
            plain = [_jsonable(item) for item in value]
        case float():
            plain = value if math.isfinite(value) else None
        case Decimal():
            plain = int(value) if value == value.to_integral_value() else float(value)
        case datetime():
            plain = iso_text(value)
        case None | bool() | int() | str():
            plain = value
        case _:  # a date, say
            plain = str(value)
    return plain
