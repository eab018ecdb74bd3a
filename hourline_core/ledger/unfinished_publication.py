"""Deletes the rows of a publication that was never finished."""

from deltalake import DeltaTable

from hourline_core.storage import commits


def drop_unpublished(kept: DeltaTable, coverage: DeltaTable) -> None:
    """Delete from ``kept`` the rows of a publication that was never finished. The next commit to ``coverage`` gets
    its number, and they would seem to belong to it.
    """
    publication = coverage.version() + 1
    if kept.to_pyarrow_table(columns=["publication"], filters=[("publication", ">=", publication)]).num_rows:
        commits.delete(kept, f"publication >= {publication}", {"unpublished": publication})
