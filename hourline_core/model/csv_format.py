"""Records that are one row of CSV each."""

import json
from collections.abc import Mapping
from typing import Annotated

import pydantic
from pydantic import AfterValidator

from hourline_core.model.base import Declaration, refuse

MARK = "\ufeff"
"""The byte order mark."""
_NO_DELIMITER = ('"', "\r", "\n", "\0")


def _delimiter(text: str) -> str:
    if len(text) != 1 or not text.isascii() or text in _NO_DELIMITER:
        raise refuse(
            f'got {_quote(text)}, allowed is one character of ASCII that is no quote and no line end, such as ";"'
        )
    return text


def _columns(names: tuple[str, ...]) -> tuple[str, ...]:
    for place, name in enumerate(names):
        if name != name.strip() or not name:
            raise refuse(f"got {_quote(name)}, allowed is a name without blanks around it", str(place))
        if name in names[:place]:
            raise refuse(f"got the column {_quote(name)} again, allowed is each name once", str(place))
    return names


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


class CsvFormat(Declaration):
    """One row of CSV, as RFC 4180 has it, with at most one line end behind it."""

    columns: Annotated[tuple[str, ...], pydantic.Field(min_length=1), AfterValidator(_columns)]
    """The names of the columns, in the order of the cells. Each record has a cell for each of them. A column whose
    name is no field name needs `fields` with `key`.
    """

    delimiter: Annotated[str, AfterValidator(_delimiter)] = ","
    """The character between two cells, which is one of ASCII. A tab is `"\\t"`, in double quotes."""

    null_text: str | None = None
    """A text that stands for null where it is a whole cell, with or without quotes, such as `NA`. An empty cell without
    quotes is null anyway.
    """

    @property
    def fields(self) -> Mapping[str, str]:
        """The declared type of each column, if it is not declared otherwise."""
        return dict.fromkeys(self.columns, "string")
