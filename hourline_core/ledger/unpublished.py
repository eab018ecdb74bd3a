"""What was kept of a publication that never came about."""

from deltalake import DeltaTable

from hourline_core.storage import commits


def drop_unpublished(kept: DeltaTable, coverage: DeltaTable) -> None:
    """Delete what was kept of a publication which never came about: the next commit to ``coverage`` would seem to be
    that one.
    """
    publication = coverage.version() + 1
    if kept.to_pyarrow_table(columns=["publication"], filters=[("publication", ">=", publication)]).num_rows:
        commits.delete(kept, f"publication >= {publication}", {"unpublished": publication})
