"""Runs DuckDB's SQL over what is read of an archive."""

import duckdb
import pyarrow as pa


def run_sql(connection: duckdb.DuckDBPyConnection, sql: str, archived: pa.Table | None = None) -> list[tuple[int, ...]]:
    """The rows that ``sql`` gives, over the table ``archived`` if one is given."""
    if archived is None:
        return connection.execute(sql).fetchall()
    connection.register("archived", archived)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.unregister("archived")
