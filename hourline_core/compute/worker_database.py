"""The DuckDB in which a process evaluates and folds records. A database takes 4 MB, so all sources share one."""

import os
from functools import cache
from pathlib import Path
from tempfile import gettempdir
from uuid import uuid4

import duckdb

from hourline_core.child_environment import WORKER_MEMORY
from hourline_core.model.settings import bytes_of
from hourline_core.sql.sketches import install_sketch_functions

_OF_WORKERS = 0.5
"""The part of DuckDB's default limit, 80 % of a machine's memory, that all workers of a machine share, unless the
setting ``spark.worker_memory`` says what they do.
"""


def open_database() -> duckdb.DuckDBPyConnection:
    """A DuckDB in memory, with one thread: work in a task is too short for several. Of its answers, the rows are in the
    order of those that it is asked about.

    What does not fit into memory goes to a folder of files, which DuckDB deletes with the database. A worker takes one
    in Spark's folder for such files: in the workspace, or where an executor has its own. Spark deletes that at its end,
    also when the worker was killed.
    """
    folders = os.environ.get("SPARK_LOCAL_DIRS")  # Spark tells it to its Python workers.
    spilled = Path(folders.split(",")[0] if folders else gettempdir()) / f"hourline-{uuid4()}"  # for this one alone
    # Each file is read once. The cache would hold some KB for each page of it, which nothing frees.
    connection = duckdb.connect(
        config={"threads": 1, "temp_directory": str(spilled), "enable_external_file_cache": False}
    )
    connection.execute("SET TimeZone = 'UTC'")
    if folders:
        connection.execute(f"SET memory_limit = '{_limit_of_worker(connection)}'")
    return connection


@cache
def database() -> duckdb.DuckDBPyConnection:
    """The database of this process, with the functions that folds need."""
    connection = open_database()
    install_sketch_functions(connection)
    return connection


def connect() -> duckdb.DuckDBPyConnection:
    """A connection to it, for one thread. What is registered on it is not seen by others."""
    connection = database().cursor()
    connection.execute("SET TimeZone = 'UTC'")  # which a cursor does not inherit
    return connection


def _limit_of_worker(connection: duckdb.DuckDBPyConnection) -> str:
    cores = os.cpu_count() or 1
    if declared := os.environ.get(WORKER_MEMORY):
        return f"{(bytes_of(declared) >> 10) // cores}KiB"
    row = connection.execute("SELECT current_setting('memory_limit')").fetchone()
    assert row
    number, unit = row[0].split()
    return f"{float(number) * _OF_WORKERS / cores:.3f}{unit}"
