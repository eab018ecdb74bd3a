"""Runs DuckDB's SQL over what is read of an archive."""

from collections.abc import Iterator

import duckdb
import pyarrow as pa

from hourline_core.storage.file_slices import join_tables

_AT_ONCE = 256
"""The rows that DuckDB gives at once. The texts of one Arrow array have at most 2 GB: 8 MB for each of these rows."""
_ROWS = 20_000


def run_sql(connection: duckdb.DuckDBPyConnection, sql: str, archived: pa.Table | None = None) -> list[tuple[int, ...]]:
    """The rows that ``sql`` gives, over the table ``archived`` if one is given."""
    if archived is None:
        return connection.execute(sql).fetchall()
    connection.register("archived", archived)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.unregister("archived")


def read_sql(connection: duckdb.DuckDBPyConnection, sql: str) -> Iterator[pa.Table]:
    """The rows that ``sql`` gives, in tables of a bounded number of rows and bytes."""
    batches = connection.execute(sql).to_arrow_reader(_AT_ONCE)
    for rows in join_tables((pa.Table.from_batches([batch]) for batch in batches), _ROWS):
        yield rows.combine_chunks()
