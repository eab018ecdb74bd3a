"""Divides the archived events of a plan among tasks, by the log of the archive alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from deltalake import DeltaTable

from hourline_core.storage.file_ranges import FileRange, file_ranges
from hourline_core.storage.file_slices import FileSlice, divide

ROWS_OF_TASK = 100_000
"""With fewer rows, a further task costs more than it saves."""
ROWS_WITH_IDS = 2_000_000
"""About the most rows of a share whose ids are held in memory at once."""


@dataclass(frozen=True)
class Share:
    """What one task reads: of ``slices``, the events from the hour ``first`` to ``last``. Of several ``parts``, it
    keeps those whose id has the hash ``part``.
    """

    slices: Sequence[FileSlice]
    first: datetime
    last: datetime
    part: int = 0
    parts: int = 1


def divide_archive(archive: DeltaTable, hours: Sequence[datetime], tasks: int, *, by_id: bool) -> list[Share]:
    """The shares of about as many ``tasks``. ``by_id``: all events of an id and hour are in one of them.

    The files of a share of many ids are read by others, too. So hours are divided first, and ids if that is not enough.
    """
    files = _files_with(archive, hours)
    rows = sum(file.rows for file in files)
    number = number_of_tasks(rows, tasks, by_id=by_id)
    if not by_id:
        return [Share(slices, hours[0], hours[-1]) for slices in divide(files, number)]
    shares = []
    spans = min(number, len(hours))
    for place in range(spans):
        span = hours[place * len(hours) // spans : (place + 1) * len(hours) // spans]
        within = [file for file in files if file.last >= span[0] and file.first <= span[-1]]
        # Another part would read all rows once more. A task holds a quarter more before it looks for the first ones.
        parts = -(-_estimate(within, span) // (ROWS_WITH_IDS * 5 // 4))
        parts = max(parts, -(-number // spans) if number > spans else 1)
        slices = [FileSlice(file.path, 0, file.rows) for file in within]
        shares += [Share(slices, span[0], span[-1], part, parts) for part in range(parts)]
    return shares


def is_brief(archive: DeltaTable, hours: Sequence[datetime]) -> bool:
    """Whether the rows of ``hours`` are work for one task, as if files had each of their hours alike. The row groups of
    other hours are not read.
    """
    return _estimate(_files_with(archive, hours), hours) <= ROWS_OF_TASK


def number_of_tasks(rows: int, tasks: int, *, by_id: bool) -> int:
    """The number of tasks for this number of ``rows``: up to ``tasks``, or more whose ids are held in memory."""
    number = max(1, min(tasks, rows // ROWS_OF_TASK))
    return max(number, -(-rows // ROWS_WITH_IDS)) if by_id else number


def _files_with(archive: DeltaTable, hours: Sequence[datetime]) -> list[FileRange]:
    ranges = file_ranges(archive, "hour") if archive.file_uris() else []
    return [file for file in ranges if file.last >= hours[0] and file.first <= hours[-1]]


def _estimate(files: Sequence[FileRange], span: Sequence[datetime]) -> int:
    """About the number of rows from the first to the last hour of ``span``, as if files had each hour alike."""
    rows = 0.0
    for file in files:
        hours = (file.last - file.first).total_seconds() / 3600 + 1
        shared = (min(file.last, span[-1]) - max(file.first, span[0])).total_seconds() / 3600 + 1
        rows += file.rows * shared / hours
    return int(rows)
