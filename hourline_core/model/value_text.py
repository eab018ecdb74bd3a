"""A value of the data as people read it, in every sentence, table and page."""


def value_text(value: object) -> str:
    """``value`` as text. None is null; a text that looks like null, like nothing or like a quoted one is in quotes."""
    if not isinstance(value, str):
        return "null" if value is None else str(value)
    is_clear = value == value.strip() and value.casefold() not in ("", "null") and not value.startswith("'")
    return value if is_clear else f"'{value}'"
