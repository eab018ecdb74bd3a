"""Converts the values of a table's column, and names the row of the first one that is refused."""

from collections.abc import Callable

import pyarrow as pa

from hourline_core.errors import TableError
from hourline_core.model.lookup import Lookup

Convert = Callable[[pa.ChunkedArray], pa.ChunkedArray]
"""Raises ValueError with what a column has that it may not have."""


def convert_column(lookup: Lookup, name: str, rows: pa.Table, convert: Convert) -> pa.ChunkedArray:
    """The values of the column ``name`` in ``rows`` of the table, as ``convert`` gives them. Raises TableError with the
    key of the first row that it refuses.
    """
    values = rows[lookup.names_in_table[name]]
    try:
        return convert(values)
    except ValueError as error:
        key = _key_text(lookup, rows.slice(_find_refused(values, convert), 1))
        raise TableError(
            f"column '{lookup.names_in_table[name]}' of {lookup.table}, in the row of {key}, has {error}"
        ) from error


def _find_refused(values: pa.ChunkedArray, convert: Convert) -> int:
    """The place of the first value that ``convert`` refuses. There is one."""
    first, end = 0, len(values)
    while end - first > 1:
        middle = (first + end) // 2
        try:
            convert(values.slice(first, middle - first))
            first = middle
        except ValueError:
            end = middle
    return first


def _key_text(lookup: Lookup, row: pa.Table) -> str:
    return ", ".join(f"{name} {_value_text(row[lookup.names_in_table[name]][0])}" for name in lookup.key)


def _value_text(value: pa.Scalar) -> str:
    """A value of any type, which may be the one that is refused."""
    try:
        return repr(value.as_py()) if value.is_valid else "null"
    except UnicodeDecodeError:
        return repr(value.cast(pa.binary()).as_py())
    except (ValueError, OverflowError):  # Python has no such time.
        return str(value.cast(pa.string()))
