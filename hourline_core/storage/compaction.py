"""Merging the small files of many commits into few; rows stay as they are."""

from datetime import datetime

import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from hourline_core.model.hours import sql_timestamp
from hourline_core.storage.commits import commit_properties, durable_step, small_row_groups
from hourline_core.storage.data_files import read_rows
from hourline_core.storage.file_ranges import FileRange, file_ranges

# Files of this size are not compacted again: what is rewritten each time stays bounded.
_FILE_BYTES = 32 * 1024 * 1024


def compact(table: DeltaTable, by: str = "sequence", below: int = _FILE_BYTES) -> None:
    """Merge files smaller than ``below`` bytes of neighbouring values of the column ``by`` into larger ones; rows stay
    as they are. Raises TableError when they cannot be read, ConflictError as ``append`` does.

    Not by delta-rs' own OPTIMIZE: it commits whatever version it stands on, and after another's it doubles the rows.
    """
    files = file_ranges(table, by)
    for run in _runs_of_small_files(files, below):
        lowest, highest = run[0].first, max(file.last for file in run)
        rows = read_rows(table, [file.path for file in files if file.first <= highest and file.last >= lowest])
        rows = rows.filter((pc.field(by) >= lowest) & (pc.field(by) <= highest)).sort_by(by)
        first, last = (f"'{sql_timestamp(end)}'" if isinstance(end, datetime) else end for end in (lowest, highest))
        # Where that is the whole table, delta-rs need not look for the rows that are replaced.
        whole = all(lowest <= file.first and file.last <= highest for file in files)
        with durable_step("compact", table):
            predicate = None if whole else f"{by} >= {first} AND {by} <= {last}"
            properties = commit_properties({"compacted": f"{first} to {last}"})
            write_deltalake(
                table,
                rows,
                mode="overwrite",
                predicate=predicate,
                commit_properties=properties,
                writer_properties=small_row_groups(),
            )


def compactable(table: DeltaTable, by: str = "sequence") -> int:
    """By how many files there would be less after ``compact``."""
    return sum(len(run) - 1 for run in _runs_of_small_files(file_ranges(table, by), _FILE_BYTES))


def _runs_of_small_files(files: list[FileRange], below: int) -> list[list[FileRange]]:
    """Each run of two or more small files, between large ones."""
    runs: list[list[FileRange]] = [[]]
    for file in files:
        if file.size < below:
            runs[-1].append(file)
        else:
            runs.append([])
    return [run for run in runs if len(run) > 1]
