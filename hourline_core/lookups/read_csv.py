"""Reads the CSV files of a lookup by the rules of imported ones.

Each cell has the form of its declared type, or the file is refused. Arrow's own conversion takes hexadecimal numbers,
blanks around them, and infinity for what is too large.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.errors import TableError, UsageError
from hourline_core.formats.arrow_types import arrow_type
from hourline_core.formats.files.csv_rows import read_header, read_rows
from hourline_core.formats.files.data_file import find_data_file
from hourline_core.lookups.rows import refuse_missing
from hourline_core.model.lookup import Lookup, LookupColumn

_CHUNK = 50_000
"""The number of rows whose texts are held at once."""
_SHOWN = 60
"""The maximum number of characters of a cell that a message shows."""
_WHOLE = "-?(?:0|[1-9][0-9]*)"
_YEAR = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"  # Python has no year 0.
_DAY = rf"{_YEAR}-[0-9]{{2}}-[0-9]{{2}}"
_TIME = r"[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?"


class _Form(NamedTuple):
    text: str
    """A regular expression of RE2."""
    example: str


_FORMS = {
    "whole": _Form(_WHOLE, "such as 7"),
    "number": _Form(rf"{_WHOLE}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", "such as 1.5"),
    "decimal": _Form(rf"{_WHOLE}(?:\.[0-9]+)?", "such as 1.5"),
    "boolean": _Form("true|True|TRUE|false|False|FALSE", "true or false"),
    "date": _Form(_DAY, "such as 2024-03-01"),
    "timestamp": _Form(rf"{_DAY}{_TIME}(?:Z|[+-][0-9]{{2}}:?[0-9]{{2}})", "such as 2024-03-01T10:00:00Z"),
    "string": _Form("(?s:.*)", "which is UTF-8"),
}
_FORM_OF = {"int": "whole", "long": "whole", "float": "number", "double": "number"}


def read_csv(lookup: Lookup, path: str) -> Iterator[pa.Table]:
    """The declared columns of a file, with their names in it and their declared types, in parts. A cell that is empty,
    without quotes, or equal to one of ``nulls`` is null.

    Raises TableError, with the line, for what an import of the file would refuse, a column that is not there, and a
    cell that is not of the declared type.
    """
    try:
        file = find_data_file(path, "csv")
        header = read_header(file)
        named = lookup.names_in_table
        refuse_missing(lookup, header)
        places = [header.index(named[name]) for name in lookup.columns]
        rows = read_rows(file, header)
        while chunk := list(islice(rows, _CHUNK)):
            lines = [line for line, _ in chunk]
            columns = {}
            for place, (name, column) in zip(places, lookup.columns.items(), strict=True):
                cells = [None if cells[place] in lookup.nulls else cells[place] for _, cells in chunk]
                columns[named[name]] = _convert(lookup, column, named[name], cells, lines)
            yield pa.table(columns)
    except UsageError as error:
        raise TableError(str(error)) from error


def _convert(
    lookup: Lookup, column: LookupColumn, name: str, cells: Sequence[str | None], lines: Sequence[int]
) -> pa.Array:
    try:
        return convert_cells(column, cells)
    except ValueError:
        for line, cell in zip(lines, cells, strict=True):
            try:
                convert_cells(column, [cell])
            except ValueError:
                raise _refuse(lookup, column, name, line, str(cell)) from None
        raise


def describe_form(column: LookupColumn) -> str:
    """What a text is to be, for a message."""
    return f"a value of type {column.type}, {_form_of(column).example}"


def _form_of(column: LookupColumn) -> _Form:
    kind = column.type.casefold()
    return _FORMS["decimal" if pa.types.is_decimal(arrow_type(column.tree)) else _FORM_OF.get(kind, kind)]


def convert_cells(column: LookupColumn, cells: Sequence[str | None]) -> pa.Array:
    """Texts as values of the declared type. Raises ValueError for one of another form, or that is no UTF-8."""
    texts = pa.array(cells, pa.string())
    fits = pc.match_substring_regex(texts, f"^(?:{_form_of(column).text})$")
    if not pc.all(fits, min_count=0).as_py():
        raise ValueError("a cell has another form")
    values = texts.cast(arrow_type(column.tree))
    if pa.types.is_floating(values.type) and pc.any(pc.is_inf(values)).as_py():
        raise ValueError("a number is too large")
    return values


def _refuse(lookup: Lookup, column: LookupColumn, name: str, line: int, cell: str) -> TableError:
    shown = cell.encode("utf-8", "backslashreplace").decode()
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
    return TableError(
        f"{lookup.table}, line {line}: got '{shown}' in the column '{name}', allowed is {describe_form(column)}; "
        "mend the line"
    )
