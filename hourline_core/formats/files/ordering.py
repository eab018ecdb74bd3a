"""Sorts the records of a replay by a column: numbers, then times, other text, and records without a value.

Records with equal values keep the file's order.
"""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import duckdb
import pyarrow as pa

from hourline_core.errors import UsageError, first_line
from hourline_core.formats.files.record import Kind, Rank, Record

_RECORDS_AT_ONCE = 10_000
_SCHEMA = pa.schema(
    {
        "line": pa.int64(),
        "payload": pa.binary(),
        "key": pa.binary(),
        "partition": pa.int64(),
        "kind": pa.int8(),
        "number": pa.float64(),
        "exact": pa.int64(),
        "text": pa.binary(),
    }
)


@contextmanager
def sort_records(records: Iterable[Record]) -> Iterator[Iterator[Record]]:
    """The records, sorted by rank. Each must have one. Within the block, they are stored in the system's temporary
    folder.

    Raises UsageError when the disk is full, and the errors of ``records``.
    """
    with tempfile.TemporaryDirectory(prefix="hourline-replay-") as folder:
        # Sorting a large file must leave memory for the layers. Beyond the limit, DuckDB sorts on disk.
        settings: dict[str, str | bool | int | float | list[str]] = {"memory_limit": "512MB", "temp_directory": folder}
        with duckdb.connect(Path(folder) / "records.duckdb", config=settings) as database:
            try:
                _store(records, database)
                yield _sort(database)
            except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
                raise UsageError(
                    f"there is no space to sort the records in {folder} ({first_line(error)}); "
                    "set TMPDIR to a folder with space"
                ) from None


def _store(records: Iterable[Record], database: duckdb.DuckDBPyConnection) -> None:
    database.register("batch", _SCHEMA.empty_table())
    database.execute("CREATE TABLE records AS FROM batch")
    remaining = iter(records)
    while batch := list(islice(remaining, _RECORDS_AT_ONCE)):
        columns = zip(*((*record[:4], *(record.rank or Rank(Kind.NOTHING))) for record in batch), strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
        database.register("batch", pa.table(arrays, schema=_SCHEMA))
        database.execute("INSERT INTO records FROM batch")
    database.unregister("batch")


def _sort(database: duckdb.DuckDBPyConnection) -> Iterator[Record]:
    rows = database.execute("FROM records ORDER BY kind, number, exact, text, line")
    while batch := rows.fetchmany(_RECORDS_AT_ONCE):
        for line, payload, key, partition, kind, number, exact, text in batch:
            yield Record(line, payload, key, partition, Rank(Kind(kind), number, exact, text))
