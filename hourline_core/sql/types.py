"""DuckDB's types: of the columns of a table, and of a value given as text."""

import re

import duckdb

_WHOLE = ("BIGINT", "INTEGER", "SMALLINT", "TINYINT")


def column_types(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, str]:
    """By column of a table or view (its name as SQL), the name of its type."""
    return {name: kind for name, kind, *_ in connection.execute(f"DESCRIBE {table}").fetchall()}


def is_of_type(connection: duckdb.DuckDBPyConnection, text: str, kind: str) -> bool:
    """Whether ``text`` is a value of the type; 1.5 is no integer, though DuckDB would round it."""
    if kind in _WHOLE and not re.fullmatch(r"[-+]?\d+", text.strip()):
        return False
    return connection.execute(f"SELECT TRY_CAST(? AS {kind}) IS NOT NULL", [text]).fetchone() == (True,)
