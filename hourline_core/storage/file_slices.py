"""Slices of data files, for tasks that read their rows themselves, in batches of a bounded size."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem

from hourline_core.storage.data_files import with_schema
from hourline_core.storage.file_ranges import FileRange

_ROWS = 50_000
_BYTES = 64 << 20
"""About the most rows and bytes of a table that is read at once."""
_BUFFER = 1 << 20


class FileSlice(NamedTuple):
    """The row groups of a data file that begin with one of its rows from ``first`` to below ``end``."""

    path: str
    first: int
    end: int


def divide(files: Collection[FileRange], parts: int) -> list[list[FileSlice]]:
    """``files`` in this number of parts with about the same number of rows: each row group is in one of them."""
    rows = sum(file.rows for file in files)
    ends = [rows * part // parts for part in range(parts + 1)]
    slices: list[list[FileSlice]] = [[] for _ in range(parts)]
    begin = 0
    for file in files:
        for part, (low, high) in zip(slices, pairwise(ends), strict=True):
            first, end = max(low - begin, 0), min(high - begin, file.rows)
            if first < end:
                part.append(FileSlice(file.path, first, end))
        begin += file.rows
    return slices


def read_slices(
    files: FileSystem, slices: Iterable[FileSlice], schema: pa.Schema, by: str, spans: Sequence[tuple[Any, Any]]
) -> Iterator[pa.Table]:
    """The rows of ``slices`` in tables of a bounded size, with the columns of ``schema``; those that a file lacks are
    null. A text of which ``schema`` wants a dictionary is not copied for each row. Row groups are left out that have no
    value of the column ``by`` in one of the ``spans``, which are as for ``overlaps``.

    Raises OSError, ArrowInvalid.
    """
    dictionaries = [of.name for of in schema if pa.types.is_dictionary(of.type)]
    for path, first, end in slices:
        with files.open_input_file(path) as opened:
            # Without these, Arrow holds all of the file's row groups in memory.
            file = pq.ParquetFile(opened, buffer_size=_BUFFER, pre_buffer=False, read_dictionary=dictionaries)
            there = set(file.schema_arrow.names)
            names = [name for name in schema.names if name in there]
            groups, size = _row_groups(file.metadata, first, end, by, spans)
            if groups:
                batches = file.iter_batches(size, groups, names, use_threads=False)
                yield from (
                    with_schema(rows, schema)
                    for rows in join_tables(pa.Table.from_batches([batch]) for batch in batches)
                )


def join_tables(tables: Iterable[pa.Table], most_rows: int = _ROWS, most_bytes: int = _BYTES) -> Iterator[pa.Table]:
    """The rows of ``tables`` in tables of a bounded size: one ends when it has reached one of the bounds."""
    waiting: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        waiting.append(table)
        rows, size = rows + table.num_rows, size + table.nbytes
        if rows >= most_rows or size >= most_bytes:
            yield pa.concat_tables(waiting)
            waiting, rows, size = [], 0, 0
    if rows:
        yield pa.concat_tables(waiting)


def overlaps(spans: Sequence[tuple[Any, Any]], lowest: Any, highest: Any) -> bool:
    """Whether a value from ``lowest`` to ``highest`` may be in one of ``spans``: their first and last values, in order
    and apart from each other.
    """
    place = bisect_left(spans, lowest, key=lambda span: span[1])
    return place < len(spans) and bool(spans[place][0] <= highest)


def _row_groups(
    written: pq.FileMetaData, first: int, end: int, by: str, spans: Sequence[tuple[Any, Any]]
) -> tuple[list[int], int]:
    """The numbers of the row groups to read, and the number of their rows that are about the most bytes of a batch."""
    groups, begin, rows, size = [], 0, 0, 0
    columns = [written.schema.column(number).path for number in range(written.num_columns)]
    place = columns.index(by)
    for number in range(written.num_row_groups):
        group = written.row_group(number)
        values = group.column(place).statistics
        is_within = values is None or not values.has_min_max or overlaps(spans, values.min, values.max)
        if first <= begin < end and is_within:
            groups.append(number)
            rows, size = rows + group.num_rows, size + group.total_byte_size
        begin += group.num_rows
    return groups, max(1, min(_ROWS, _BYTES * rows // max(size, 1)))
