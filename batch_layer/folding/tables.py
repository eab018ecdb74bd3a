"""Arrow tables of events, as tasks hand them on: in chunks, and queried by DuckDB."""

from collections.abc import Iterable, Iterator

import duckdb
import pyarrow as pa

from hourline_core.storage.file_slices import join_tables

_ROWS = 400_000
_BYTES = 256 << 20
"""A chunk, which is folded at once, ends when it has reached one of both."""


def join_chunks(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows of ``tables`` in chunks."""
    return join_tables(tables, _ROWS, _BYTES)


def split_table(table: pa.Table) -> Iterator[pa.Table]:
    """The rows of ``table`` in chunks."""
    return (table.slice(first, _ROWS) for first in range(0, len(table), _ROWS))


def query(connection: duckdb.DuckDBPyConnection, sql: str, rows: pa.Table) -> pa.Table:
    """What ``sql`` gives, in which ``rows`` are a table of that name."""
    connection.register("rows", rows)
    try:
        return connection.execute(sql).to_arrow_table()
    finally:
        connection.unregister("rows")
