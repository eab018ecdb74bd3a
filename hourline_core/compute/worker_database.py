"""The DuckDB in which a process evaluates and folds records. A database takes 4 MB, so all sources share one."""

from functools import cache

import duckdb

from hourline_core.sql.sketches import install_sketch_functions


@cache
def database() -> duckdb.DuckDBPyConnection:
    """The database, in memory. Work in a task is too short for several threads. Of its answers, the rows are in the
    order of those that it is asked about.
    """
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    install_sketch_functions(connection)
    return connection


def connect() -> duckdb.DuckDBPyConnection:
    """A connection to it, for one thread. What is registered on it is not seen by others."""
    connection = database().cursor()
    connection.execute("SET TimeZone = 'UTC'")  # which a cursor does not inherit
    return connection
