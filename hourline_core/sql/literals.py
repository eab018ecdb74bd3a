"""Names and values in DuckDB SQL: the one place that quotes them."""

from collections.abc import Iterable
from datetime import datetime

from hourline_core.model.hours import sql_timestamp


def identifier(name: str) -> str:
    """A name of a column, table or view; `order` and `group` are fine names for a dimension."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(text: str) -> str:
    """A text (VARCHAR)."""
    return "'" + text.replace("'", "''") + "'"


def time_literal(moment: datetime) -> str:
    """A moment (TIMESTAMPTZ); ``moment`` is aware."""
    return f"TIMESTAMPTZ '{sql_timestamp(moment)}'"


def text_list(texts: Iterable[str]) -> str:
    """A list of texts (VARCHAR[])."""
    return f"[{', '.join(map(text_literal, texts))}]::VARCHAR[]"
