"""Writes the results of a query: as rows for a table on the terminal, or in a format that programs read."""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from hourline_core.errors import UsageError
from hourline_core.machine import require_folder_of
from hourline_core.sql.literals import identifier
from serving_layer.bytes_as_text import bytes_as_text
from serving_layer.connection import Connection

# Moments as ISO text in UTC, the zone of every connection.
_MOMENTS = "TIMESTAMPFORMAT '%Y-%m-%dT%H:%M:%S.%fZ'"
_COPY_OPTIONS = {
    "csv": f"FORMAT csv, HEADER, {_MOMENTS}",
    "json": f"FORMAT json, ARRAY true, {_MOMENTS}",
    "jsonl": f"FORMAT json, {_MOMENTS}",
    "parquet": "FORMAT parquet",
}
_NESTED = ("struct", "map", "list", "array", "union")


@dataclass(frozen=True)
class Result:
    """All rows of a result."""

    columns: list[str]
    numbers: list[str]
    """The columns that hold numbers."""
    rows: list[tuple[object, ...]]


def fetch(connection: Connection, query: str) -> Result:
    """All rows of ``query``. Moments are aware and in UTC. Nested values are DuckDB's text, and bytes are as
    ``bytes_as_text`` shows them. Raises UsageError.
    """
    with connection.explaining(query):
        answer = connection.sql(query)
        columns = [
            f"{_shown(f'#{number}', kind.id)} AS {identifier(name)}"
            for number, (name, kind) in enumerate(zip(answer.columns, answer.types, strict=True), start=1)
        ]
        result = answer.bare.project(", ".join(columns))
        result.execute()  # which Ctrl-C can interrupt
        table = result.to_arrow_table()
    kinds = {field.name: str(field.type) for field in table.schema}
    numbers = [name for name, kind in kinds.items() if kind.startswith(("int", "uint", "float", "double", "decimal"))]
    values = [_to_python(name, column) for name, column in zip(table.column_names, table.columns, strict=True)]
    return Result(table.column_names, numbers, list(zip(*values, strict=True)))


def _shown(column: str, kind: str) -> str:
    """DuckDB SQL for a column of the type ``kind`` as it is shown in a table."""
    if kind == "blob":
        return bytes_as_text(column)
    return f"CAST({column} AS VARCHAR)" if kind in _NESTED else column


def _to_python(name: str, column: pa.ChunkedArray) -> list[object]:
    try:
        values: list[object] = column.to_pylist()
    except (OverflowError, ValueError):
        if not (pa.types.is_temporal(column.type) or pa.types.is_nested(column.type)):
            raise
        raise UsageError(
            f"column '{name}' has a time outside the years 1 to 9999, which Python cannot hold; cast it to VARCHAR"
        ) from None
    return values


def write(connection: Connection, query: str, form: str, target: Path | None) -> None:
    """Write the result of ``query`` as csv, json (one array), jsonl or parquet to ``target``, or to standard output.
    Bytes are as ``bytes_as_text`` shows them, and as they are in parquet. Raises UsageError.
    """
    if target:
        require_folder_of(target)
    # DuckDB writes to files only. Opening /dev/stdout again would truncate a file that standard output is appended to.
    with TemporaryDirectory() as folder:
        path = target or Path(folder) / "result"
        connection.copy(query, str(path), _COPY_OPTIONS[form], as_text=form != "parquet")
        if target is None:
            with path.open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.flush()
