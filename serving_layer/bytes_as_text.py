"""Shows bytes as text where they are text: most records are."""

# Tabs and ends of lines are text.
_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x{9f}]"


def bytes_as_text(column: str) -> str:
    """DuckDB SQL for a column of bytes as text.

    UTF-8 without control characters is itself. All else is DuckDB's text of bytes, in which ``\\xHH`` stands for each
    byte that is no printable ASCII.
    """
    text = f"TRY(decode({column}))"
    return f"CASE WHEN NOT regexp_matches({text}, '{_CONTROL}') THEN {text} ELSE CAST({column} AS VARCHAR) END"
