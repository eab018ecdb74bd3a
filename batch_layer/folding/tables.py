"""Arrow tables of events, as tasks hand them on: in chunks, and queried by DuckDB."""

from collections.abc import Iterable, Iterator

import duckdb
import pyarrow as pa

_ROWS = 400_000
_BYTES = 256 << 20
"""A chunk, which is folded at once, ends when it has reached one of both."""


def join_tables(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows of ``tables`` in chunks."""
    waiting: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        waiting.append(table)
        rows, size = rows + table.num_rows, size + table.nbytes
        if rows >= _ROWS or size >= _BYTES:
            yield pa.concat_tables(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_tables(waiting)


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
