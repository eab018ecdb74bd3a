"""Quotes names and values for DuckDB SQL. No other file does."""

from datetime import datetime

from hourline_core.model.hours import sql_timestamp


def identifier(name: str) -> str:
    """The quoted name of a column, table or view. A dimension may be called `order` or `group`."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: str | datetime) -> str:
    """A text (VARCHAR), or an aware moment (TIMESTAMPTZ)."""
    if isinstance(value, datetime):
        return f"TIMESTAMPTZ '{sql_timestamp(value)}'"
    return "'" + value.replace("'", "''") + "'"
