"""Merges the small files of many commits. Rows do not change."""

from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from hourline_core.model.hours import sql_timestamp
from hourline_core.storage.commits import LOG_KEPT, commit_properties, durable_step
from hourline_core.storage.data_files import read_rows
from hourline_core.storage.file_ranges import FileRange, file_ranges
from hourline_core.storage.statistics import ROWS_IN_GROUP, writer_properties

# Files of this size are not compacted again, so each compaction writes a bounded amount.
_FILE_BYTES = 32 * 1024 * 1024

_MAX_BYTES = 2 * _FILE_BYTES
_MAX_ROWS = 2_000_000
"""What is merged into one file has at most this size and number of rows, since it is in memory twice."""

_EVENTS_IN_GROUP = 65_536
"""The rows in a group of archived events. A recompute reads whole hours of them, in two thirds of the time that groups
of ROWS_IN_GROUP take.
"""

SMALL_BYTES = 1024 * 1024
"""Files below this size (bytes) are merged between two runs of maintenance, without reading larger ones."""

SAVED_FILES = 4
"""The number of files that merging files of final must save. Each publication adds one, and readers open all."""


def compact(table: DeltaTable, by: str = "sequence", below: int = _FILE_BYTES, below_rows: int | None = None) -> None:
    """Merge files smaller than ``below`` bytes of neighbouring values of the column ``by`` into larger ones. Rows do
    not change. With less than the default ``below``, a small file between the values of a larger one is left as it is.
    With ``below_rows``, so is a file with this number of rows or more.

    Raises TableError when they cannot be read, ConflictError as ``append`` does. It does not use delta-rs' own
    OPTIMIZE, which commits after another process's commit, and then doubles the rows.
    """
    files, is_archive = file_ranges(table, by), table.metadata().name == "events"
    for run in _runs_of_small_files(files, below, below_rows):
        lowest, highest = run[0].first, max(file.last for file in run)
        within = [file for file in files if file.first <= highest and file.last >= lowest]
        rows = read_rows(table, [file.path for file in within])
        # Each of these two copies all rows. Micro-batches are in order, and no larger file has rows among theirs.
        if len(within) > len(run):
            rows = rows.filter((pc.field(by) >= lowest) & (pc.field(by) <= highest))
        if not _is_in_order(rows[by]):
            rows = rows.sort_by(by)
        first, last = (f"'{sql_timestamp(end)}'" if isinstance(end, datetime) else end for end in (lowest, highest))
        # If that is the whole table, delta-rs need not look for the replaced rows.
        whole = all(lowest <= file.first and file.last <= highest for file in files)
        with durable_step("compact", table):
            predicate = None if whole else f"{by} >= {first} AND {by} <= {last}"
            properties = commit_properties({"compacted": f"{first} to {last}"})
            write_deltalake(
                table,
                rows.combine_chunks(),  # for their order: see ``overwrite``
                mode="overwrite",
                predicate=predicate,
                commit_properties=properties,
                writer_properties=writer_properties(rows.schema, _EVENTS_IN_GROUP if is_archive else ROWS_IN_GROUP),
                post_commithook_properties=LOG_KEPT,
            )


def count_compactable(table: DeltaTable, by: str = "sequence", below: int = _FILE_BYTES) -> int:
    """The number of files that ``compact`` would save."""
    return sum(len(run) - 1 for run in _runs_of_small_files(file_ranges(table, by), below))


def _is_in_order(values: pa.ChunkedArray) -> bool:
    return bool(pc.all(pc.less_equal(values[:-1], values[1:]), skip_nulls=False).as_py())


def _runs_of_small_files(files: list[FileRange], below: int, below_rows: int | None = None) -> list[list[FileRange]]:
    """Each run of two or more small files, between large ones. It ends at _MAX_BYTES and _MAX_ROWS, unless the next
    file has values among its own: then delta-rs would rewrite what was just merged.
    """
    # A run with values between those of a large file rewrites a part of that. The daily maintenance alone may do so.
    large = [file for file in files if file.size >= below] if below < _FILE_BYTES else []
    runs: list[list[FileRange]] = [[]]
    size = rows = 0
    for file in files:
        is_small = file.size < below and (below_rows is None or file.rows < below_rows)
        if not is_small or any(file.first <= one.last and file.last >= one.first for one in large):
            runs.append([])
            continue
        is_full = size + file.size > _MAX_BYTES or rows + file.rows > _MAX_ROWS
        if is_full and all(one.last < file.first for one in runs[-1]):
            runs.append([])
        if not runs[-1]:
            size = rows = 0
        runs[-1].append(file)
        size, rows = size + file.size, rows + file.rows
    return [run for run in runs if len(run) > 1]
