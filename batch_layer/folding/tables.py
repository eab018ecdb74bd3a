"""Arrow tables of events, as tasks hand them on: in chunks, and queried by DuckDB."""

from collections.abc import Iterable, Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from hourline_core.model.scratch_columns import HOUR, ID
from hourline_core.storage.file_slices import join_tables

Hashes = np.ndarray[Any, np.dtype[np.uint64]]
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


def hash_ids(connection: duckdb.DuckDBPyConnection, events: pa.Table) -> Hashes:
    """A hash of the id and hour of each of ``events``."""
    rows = events.select([HOUR, ID])
    hashes: Hashes = query(connection, f"SELECT hash({ID}, {HOUR}) AS hash FROM rows", rows)["hash"].to_numpy()
    return hashes
