"""Opening a Delta table, at its newest version or at another one, and making sure that it is whole.

A table whose log is damaged, that was copied from another place, or that another version of Hourline wrote is refused.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import LocalFileSystem, PyFileSystem, SubTreeFileSystem

from hourline_core.errors import TableError, first_line
from hourline_core.storage.commit_log import incomplete_commit, newest_commit
from hourline_core.storage.data_files import BACKUP, damage_of, file_system
from hourline_core.storage.table_format import PLACE, refuse_other_format

_TRIED = 50
"""The number of its last versions that are tried, where a damaged table is to be read as it was before."""


class Table(DeltaTable):
    """A Delta table whose rows are read, or a TableError names the file that they cannot be read from; what a version
    holds is looked up once.
    """

    def __init__(self, uri: str, version: int | None, storage_options: Mapping[str, str]) -> None:
        super().__init__(uri, version=version, storage_options=dict(storage_options))
        self._looked_up: tuple[int, dict[str, int | None]] = (self.version(), {})
        self._rows: tuple[int, pa.Table] | None = None

    def transaction_version(self, app_id: str) -> int | None:
        """As delta-rs says, which goes through the log each time."""
        if self._looked_up[0] != self.version():
            self._looked_up = (self.version(), {})
        known = self._looked_up[1]
        if app_id not in known:
            known[app_id] = super().transaction_version(app_id)
        return known[app_id]

    def all_rows(self) -> pa.Table:
        """All rows, held until there is another version: of a table that is small, seldom changes, and is read each
        time. Raises TableError.
        """
        if self._rows is None or self._rows[0] != self.version():
            self._rows = (self.version(), self.to_pyarrow_table())
        return self._rows[1]

    def to_pyarrow_table(self, *arguments: Any, **options: Any) -> pa.Table:
        """As delta-rs reads it. Raises TableError."""
        try:
            return super().to_pyarrow_table(*arguments, **options)
        except (OSError, pa.ArrowInvalid) as error:
            raise TableError(
                damage_of(self) or f"the table at {self.table_uri} cannot be read: {first_line(error)}"
            ) from error


def exists(uri: str, storage_options: Mapping[str, str]) -> bool:
    """Whether a Delta table lies at ``uri``."""
    return bool(DeltaTable.is_deltatable(uri, dict(storage_options)))


def open_table(uri: str, storage_options: Mapping[str, str], version: int | None = None) -> Table:
    """The table at ``uri``, at ``version`` or its newest.

    Raises TableError when it, or that version, is not there, when its log is damaged, or when it is another table,
    copied to its place; OldWorkspaceError when Hourline 0.1 wrote it.
    """
    try:
        table = Table(uri, version, storage_options)
    except TableNotFoundError:
        raise TableError(f"there is no table at {uri}; `hourline speed` creates it") from None
    except Exception as error:
        raise TableError(f"the table at {uri} cannot be read{_at(version)}: {first_line(error)}") from error
    refuse_other_format(table, uri)
    if version is not None and table.version() != version:
        raise TableError(
            f"the table at {uri} was to be read{_at(version)}, but that version is incomplete; "
            f"the last good one is {table.version()}"
        )
    refuse_damaged(table, uri)
    return table


def refuse_damaged(table: DeltaTable, uri: str) -> None:
    """Raise TableError when the log of ``table``, opened at ``uri``, is damaged, or it is another table, copied to that
    place.
    """
    place = table.metadata().configuration.get(PLACE)
    if place is not None and not uri.rstrip("/").endswith(f"/{place}"):
        raise TableError(
            f"the table at {uri} is another one: it was made as '{place}', and has been copied or moved there; {BACKUP}"
        )
    if damaged := incomplete_commit(file_system(table), table.version()):
        raise TableError(f"the table at {uri} is damaged: {damaged} is missing, empty or cut off; {BACKUP}")


def update(table: DeltaTable) -> None:
    """Go on to the newest version. Raises TableError when it cannot be read."""
    try:
        table.update_incremental()
    except DeltaError as error:
        raise TableError(f"the table at {table.table_uri} cannot be read: {first_line(error)}") from error


def readable_versions(uri: str, storage_options: Mapping[str, str]) -> Iterator[DeltaTable]:
    """The table at each version that can be read of it, the newest first; a few tens at most. Raises TableError when
    there is none.
    """
    local = "://" not in uri
    files = (
        SubTreeFileSystem(uri, LocalFileSystem())
        if local
        else PyFileSystem(DeltaStorageHandler(uri, dict(storage_options)))
    )
    newest, is_readable = newest_commit(files), False
    for version in range(newest, max(newest - _TRIED, -1), -1):
        with suppress(TableError):
            yield open_table(uri, storage_options, version)
            is_readable = True
    if not is_readable:
        raise TableError(f"the table at {uri} cannot be read at any of its last {_TRIED} versions; {BACKUP}")


def _at(version: int | None) -> str:
    return "" if version is None else f" at version {version}"
