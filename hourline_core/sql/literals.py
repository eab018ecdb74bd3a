"""Names and values in DuckDB SQL: the one place that quotes them."""

from datetime import UTC, datetime

from hourline_core.model.hours import sql_timestamp


def identifier(name: str) -> str:
    """A name of a column, table or view; `order` and `group` are fine names for a dimension."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: str | datetime) -> str:
    """A text (VARCHAR), or an aware moment (TIMESTAMPTZ)."""
    if isinstance(value, datetime):
        return f"TIMESTAMPTZ '{sql_timestamp(value.astimezone(UTC))}'"
    return "'" + value.replace("'", "''") + "'"
