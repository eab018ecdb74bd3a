"""Deletes the files that no version in use needs any more."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from pyarrow.fs import FileInfo, FileType

from hourline_core.errors import TableError, first_line
from hourline_core.storage.commits import LOG_KEPT, commit_properties, durable_step
from hourline_core.storage.data_files import file_system


def vacuum(table: DeltaTable, kept_hours: int, kept_versions: Collection[int] = ()) -> None:
    """Delete files that neither a version of the last ``kept_hours`` nor one of ``kept_versions`` needs, and files that
    were written long ago and never committed.

    A suspended writer of such files fails at its commit. Raises ConflictError as ``append`` does, TableError when a
    kept version does not exist.
    """
    with durable_step("vacuum", table), _readable(table):
        table.vacuum(
            kept_hours,
            dry_run=False,
            enforce_retention_duration=False,
            full=True,
            keep_versions=sorted(kept_versions) or None,
            commit_properties=commit_properties({"vacuumed": f"{kept_hours} h"}),
            post_commithook_properties=LOG_KEPT,
        )


def list_vacuumable(table: DeltaTable, kept_hours: int, kept_versions: Collection[int] = ()) -> list[FileInfo]:
    """The files that ``vacuum`` would delete, with their sizes. Raises TableError when a kept version does not
    exist.
    """
    with _readable(table):
        listed = table.vacuum(
            kept_hours, enforce_retention_duration=False, full=True, keep_versions=sorted(kept_versions) or None
        )
    # Older ones are among them, as long as the log has them.
    files = file_system(table).get_file_info(listed)
    return [file for file in files if file.type == FileType.File]


@contextmanager
def _readable(table: DeltaTable) -> Iterator[None]:
    try:
        yield
    except CommitFailedError:
        raise
    except DeltaError as error:
        raise TableError(
            f"the old files of the table at {table.table_uri} cannot be listed: {first_line(error)}"
        ) from error
