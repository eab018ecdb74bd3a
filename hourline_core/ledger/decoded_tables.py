"""The tables of events that were decoded anew. The batch layer alone writes rows to them."""

from collections.abc import Iterator
from contextlib import suppress

from deltalake import DeltaTable
from pyarrow.fs import FileSelector, FileType

from hourline_core.errors import ConflictError
from hourline_core.ledger.layout import Layout
from hourline_core.model import Source
from hourline_core.storage import commits
from hourline_core.storage.data_files import file_system
from hourline_core.storage.opening import exists, open_table

_TRIED = 20
"""A chunk of decoding anew takes seconds, and a commit in between is rare."""


def list_decoded(layout: Layout, source: Source) -> list[str]:
    """The hashes of the decodings by which records of ``source`` were decoded anew, now or before."""
    files = file_system(layout.decoded_by(source), layout.storage_options)
    found = files.get_file_info(FileSelector("", allow_not_found=True))
    return sorted(file.base_name for file in found if file.type == FileType.Directory)


def fence_decoded(layout: Layout, source: Source) -> Iterator[DeltaTable]:
    """The tables of these decodings, each at a new version: a recompute that has opened it before commits to it no
    more. Raises TableError, and ConflictError when other processes write to it all the time.
    """
    for decoding in list_decoded(layout, source):
        if exists(uri := layout.decoded(source, decoding), layout.storage_options):
            yield _fenced(uri, layout)


def _fenced(uri: str, layout: Layout) -> DeltaTable:
    for _ in range(_TRIED):
        table = open_table(uri, layout.storage_options)
        with suppress(ConflictError):
            commits.fence(table)
            return table
    raise ConflictError(f"another process has written to {uri} again and again; run the command again")
