"""The range of a column's values in each data file of a table, from the log, so that other files need not be read."""

from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from hourline_core.storage.data_files import count_nulls, read_rows


class FileRange(NamedTuple):
    """A data file, and the first and last value of a column in it."""

    path: str
    size: int
    rows: int
    first: Any
    last: Any


def file_ranges(table: DeltaTable, by: str) -> list[FileRange]:
    """In order."""
    columns = ["path", "size_bytes", "num_records", f"min.{by}", f"max.{by}"]
    files = pa.table(table.get_add_actions(flatten=True)).select(columns)
    return sorted(map(FileRange._make, zip(*files.to_pydict().values(), strict=True)), key=attrgetter("first"))


def files_with(table: DeltaTable, column: str, lowest: Any, highest: Any = None) -> list[str]:
    """The data files, by their paths below the table, that may have values of a column from ``lowest`` to
    ``highest`` (None: to its end), both included.
    """
    return [
        file.path
        for file in file_ranges(table, column)
        if file.last >= lowest and (highest is None or file.first <= highest)
    ]


def last_with_nulls(table: DeltaTable, column: str, by: str) -> Any:
    """The highest value of ``by`` in the files that have nulls in ``column`` (with dots for a nested one), or that lack
    it. None: there are none. Where the log does not tell, the column is read. Raises TableError.
    """
    files = pa.table(table.get_add_actions(flatten=True))
    name = f"null_count.{column}"
    counts = files[name].to_pylist() if name in files.column_names else [None] * files.num_rows
    known = zip(files["path"].to_pylist(), counts, files[f"max.{by}"].to_pylist(), strict=True)
    return max(
        (highest for path, count, highest in known if (count_nulls(table, path, column) if count is None else count)),
        default=None,
    )


def rows_of(table: DeltaTable, column: str, value: Any) -> pa.Table:
    """The rows with this value of a column, read only from files that may have it. Raises TableError."""
    rows = read_rows(table, files_with(table, column, value, value))
    return rows.filter(pc.equal(rows[column], value))
