"""Divides what is to be decoded anew into chunks of micro-batches, by the log of the archive alone."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from deltalake import DeltaTable

from hourline_core.storage.file_ranges import FileRange, file_ranges

_MOST_ROWS = 2_000_000
_MOST_BYTES = 1 << 30
"""A chunk ends with the file that reaches one of both. Its length is what a kill costs, and how long others wait for
their turn. The memory that it takes does not depend on it.
"""


class Chunk(NamedTuple):
    """The micro-batches from the sequence ``first`` to ``last``."""

    first: int
    last: int


def list_chunks(tables: Iterable[DeltaTable], first: int, last: int) -> Iterator[Chunk]:
    """Chunks of the sequences from ``first`` to ``last``, whose records are in ``tables``."""
    begin, rows, size = first, 0, 0
    for file in sorted((file for table in tables for file in files_of(table, first, last)), key=lambda file: file.last):
        rows, size = rows + file.rows, size + file.size
        if begin <= file.last < last and (rows >= _MOST_ROWS or size >= _MOST_BYTES):
            yield Chunk(begin, file.last)
            begin, rows, size = file.last + 1, 0, 0
    yield Chunk(begin, last)


def files_of(table: DeltaTable, first: int, last: int) -> list[FileRange]:
    """The files of ``table`` that have records of these sequences, in order."""
    if not table.file_uris():
        return []
    return [file for file in file_ranges(table, "sequence") if file.last >= first and file.first <= last]
