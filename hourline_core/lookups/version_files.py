"""The files of a version. Each has a range of its sorted rows, and stays a file of the next version if the rows in that
range do not change.
"""

import math
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from hourline_core.ledger.layout import Layout
from hourline_core.lookups.rows import is_same, schema_of
from hourline_core.model import Lookup
from hourline_core.storage.data_files import data_files, file_system
from hourline_core.storage.new_files import NewFile, NewFileWriter
from hourline_core.storage.opening import Table
from hourline_core.storage.statistics import ROWS_IN_GROUP

_ROWS_OF_FILE = 1_000_000
"""The maximum number of rows of a new file."""


class ChangedRange(NamedTuple):
    """A range in which a file has other rows than the next version."""

    path: str | None
    """The file, below the table. None: the version has none."""
    rows: pa.Table
    """Those of the next version."""


def read_rows(table: Table, lookup: Lookup) -> pa.Table:
    """The rows of the version that ``table`` is open at. A column that was declared since is null. Raises
    TableError.
    """
    rows, declared = table.to_pyarrow_table(), schema_of(lookup)
    there = [rows[of.name] if of.name in rows.column_names else pa.nulls(rows.num_rows, of.type) for of in declared]
    return pa.table(there, declared.names).cast(declared)


def scan_rows(table: Table, lookup: Lookup, without: Collection[str] = ()) -> ds.Dataset:
    """The same rows, but they are not read yet, and those of the data files ``without`` are left out."""
    return _scan(table, lookup, [path for path in data_files(table) if path not in without])


def _scan(table: Table, lookup: Lookup, paths: Sequence[str]) -> ds.Dataset:
    if not paths:
        return ds.dataset(schema_of(lookup).empty_table())
    # In the dataset of delta-rs, a range that is not known is null, and Arrow leaves out such a file.
    return ds.dataset(paths, schema_of(lookup), "parquet", file_system(table))


def find_changed(table: Table, lookup: Lookup, rows: pa.Table) -> list[ChangedRange]:
    """The ranges of the version that ``table`` is open at in which the next one, with the sorted ``rows``, differs."""
    firsts = sorted((_first_of_file(table, lookup, path), path) for path in data_files(table))
    if not firsts:
        return [ChangedRange(None, rows)] if rows.num_rows else []
    # The first and last files have the rows before and after all others, too.
    places = [0, *(_place_of(rows, lookup, first) for first, _ in firsts[1:]), rows.num_rows]
    ranges = (
        ChangedRange(path, rows.slice(first, end - first))
        for (_, path), (first, end) in zip(firsts, pairwise(places), strict=True)
    )
    return [one for one in ranges if not is_same(one.rows, _scan(table, lookup, [str(one.path)]))]


def write_files(layout: Layout, lookup: Lookup, rows: pa.Table) -> Iterator[NewFile]:
    """Write the sorted ``rows`` into files that no commit names yet. Without rows, there are none."""
    count = math.ceil(rows.num_rows / _ROWS_OF_FILE)
    # If one was full and the next had the rest, each change in the full one would leave another small one.
    size = math.ceil(rows.num_rows / max(count, 1))
    for start in range(0, rows.num_rows, max(size, 1)):
        of_file = rows.slice(start, size)
        writer = NewFileWriter(layout.lookup(lookup), layout.storage_options, "lookups", of_file)
        for first in range(0, of_file.num_rows, ROWS_IN_GROUP):
            writer.write(of_file.slice(first, ROWS_IN_GROUP))
        yield writer.close()


def _first_of_file(table: Table, lookup: Lookup, path: str) -> tuple[Any, ...]:
    with file_system(table).open_input_file(path) as file:
        # Other columns may be large. One batch is one row.
        named = [*lookup.key, *filter(None, [_bound_of(lookup)])]
        batch = next(pq.ParquetFile(file).iter_batches(1, row_groups=[0], columns=named))
        return _order(lookup, pa.Table.from_batches([batch]))


def _place_of(rows: pa.Table, lookup: Lookup, first: tuple[Any, ...]) -> int:
    return bisect_left(range(rows.num_rows), first, key=lambda place: _order(lookup, rows.slice(place, 1)))


def _order(lookup: Lookup, rows: pa.Table) -> tuple[Any, ...]:
    """What rows are sorted by, of the first one: the key, and the first bound of validity. Null is before others."""
    bound = _bound_of(lookup)
    since = None if bound is None else rows[bound][0].as_py()
    return (*(rows[name][0].as_py() for name in lookup.key), since is not None, since)


def _bound_of(lookup: Lookup) -> str | None:
    """The column that the rows of a key are sorted by."""
    return lookup.valid_from or lookup.valid_to
