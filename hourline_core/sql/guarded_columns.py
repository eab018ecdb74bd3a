"""Views that hide columns from the statistics of their files, where these may be wrong.

DuckDB pushes a condition on a column into the scan, which leaves out rows by these statistics. A condition on an
expression reads all rows. Hourline's files have no such statistics (see storage/statistics.py), but those of older
versions have, and maintenance does not rewrite large files.
"""

import re

import duckdb

from hourline_core.sql.literals import identifier

_UNSAFE = re.compile(r"\b(FLOAT|DOUBLE|DECIMAL)\b")


def guard_columns(connection: duckdb.DuckDBPyConnection, view: str, rows: str) -> list[str]:
    """The statements that replace ``view``, which shows the query ``rows``, by one with guarded columns. None are
    needed if no column is a number with a fraction, or a struct with one.
    """
    columns = connection.execute(f"DESCRIBE {view}").fetchall()
    guarded = ", ".join(
        f"{sql} AS {identifier(name)}" for name, of, *_ in columns if (sql := _guard(identifier(name), of))
    )
    return [f"CREATE OR REPLACE VIEW {view} AS SELECT * REPLACE ({guarded}) FROM ({rows})"] if guarded else []


def _guard(column: str, of: str) -> str | None:
    """SQL for the values of a column of a type. None: no statistics of it are used, or they are right."""
    if of in ("FLOAT", "DOUBLE"):
        # Without this function, DuckDB would see that both branches are the column.
        return f"CASE WHEN isnan({column}) THEN 'nan'::{of} ELSE {column} END"
    if _UNSAFE.search(of) and not of.endswith("]") and not of.startswith("MAP("):
        return f"CASE WHEN {column} IS NULL THEN NULL ELSE {column} END"
    return None
