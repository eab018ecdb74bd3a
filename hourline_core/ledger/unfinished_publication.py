"""Deletes the rows of a publication that was never finished."""

from deltalake import DeltaTable

from hourline_core.ledger.layout import Layout
from hourline_core.storage import commits
from hourline_core.storage.file_ranges import files_with
from hourline_core.storage.opening import open_table


def leave_none_open(layout: Layout, coverage: DeltaTable) -> None:
    """Delete what an unfinished publication has left. The next version of coverage is no publication, and those rows
    would seem to belong to it. Raises TableError.
    """
    for uri in (layout.drift, layout.quality):
        kept = open_table(uri, layout.storage_options)
        drop_unpublished(kept, coverage)
        commits.fence(kept)


def drop_unpublished(kept: DeltaTable, coverage: DeltaTable) -> None:
    """Delete from ``kept`` the rows of a publication that was never finished. The next commit to ``coverage`` gets
    its number, and they would seem to belong to it.
    """
    publication = coverage.version() + 1
    # By the log alone: each publication looks, and the files of all earlier ones are there.
    if files_with(kept, "publication", publication):
        commits.delete(kept, f"publication >= {publication}", {"unpublished": publication})
