"""Opens a Delta table, at its newest version or another one, and checks that it is whole.

A table is refused if its log is damaged, it was copied from another place, or another version of Hourline wrote it.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import LocalFileSystem, PyFileSystem, SubTreeFileSystem

from hourline_core.errors import TableError, first_line
from hourline_core.storage.commit_log import Stamp, incomplete_commit, newest_commit
from hourline_core.storage.data_files import BACKUP, BY_HANDLE, DataFiles, damage_of, file_system, local_files
from hourline_core.storage.table_format import PLACE, refuse_other_format

_Of = TypeVar("_Of")

_COMMIT = re.compile(r"\d{20}\.(json|.*parquet)")
"""The names of commits and checkpoints in a log."""
_TRIED = 50
"""The number of its last versions that are tried if a damaged table is read at an older version."""


class Table(DeltaTable):
    """A Delta table whose rows are read. If they cannot be, a TableError names the file."""

    def __init__(self, uri: str, version: int | None, storage_options: Mapping[str, str]) -> None:
        super().__init__(uri, version=version, storage_options=dict(storage_options))
        self.looked_up: tuple[int, dict[str, Any]] = (self.version(), {})
        """What ``once`` knows of the version that the table was at."""
        self.whole_commits: dict[str, Stamp] = {}
        """The commits that were whole at the last look. See ``incomplete_commit``."""

    def transaction_version(self, app_id: str) -> int | None:
        """As delta-rs says, which goes through the log each time."""
        return once(self, f"transaction {app_id}", partial(super().transaction_version, app_id))

    def to_pyarrow_table(self, *arguments: Any, **options: Any) -> pa.Table:
        """As delta-rs reads it. Raises TableError."""
        try:
            return super().to_pyarrow_table(*arguments, **options)
        except (OSError, pa.ArrowInvalid) as error:
            raise TableError(
                damage_of(self) or f"the table at {self.table_uri} cannot be read: {first_line(error)}"
            ) from error


def once(table: DeltaTable, what: str, look_up: Callable[[], _Of]) -> _Of:
    """``look_up``, which says something about the version that ``table`` is open at. A Table keeps what it says until
    it is at another version, or is closed. So it must be small, or of a table that is small.
    """
    if not isinstance(table, Table):
        return look_up()
    version = table.version()
    if table.looked_up[0] != version:
        table.looked_up = (version, {})
    known = table.looked_up[1]
    if what not in known:
        known[what] = look_up()
    of: _Of = known[what]
    return of


def known_files(table: DeltaTable) -> DataFiles | None:
    """As ``local_files``, looked up once."""
    return once(table, "files", partial(local_files, table))


def exists(uri: str, storage_options: Mapping[str, str]) -> bool:
    """Whether there is a Delta table at ``uri``. Raises TableError if the system does not let it be looked up."""
    if "://" in uri:
        return bool(DeltaTable.is_deltatable(uri, dict(storage_options)))
    # For delta-rs, a folder that this user may not read is not there. Then a project would seem to be new. And it lists
    # the whole log, however long that is.
    try:
        with os.scandir(f"{uri}/_delta_log") as entries:
            return any(_COMMIT.fullmatch(entry.name) for entry in entries)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise TableError(f"the table at {uri} cannot be looked up: {error.strerror}") from error


def open_table(uri: str, storage_options: Mapping[str, str], version: int | None = None) -> Table:
    """The table at ``uri``, at ``version`` or its newest.

    Raises TableError when it, or that version, does not exist, when its log is damaged, or when another table was
    copied to its place; OldWorkspaceError when Hourline 0.1 wrote it.
    """
    try:
        table = Table(uri, version, storage_options)
    except TableNotFoundError:
        raise TableError(
            f"there is no table at {uri}; `hourline speed` creates it; if it was there before, {BACKUP}"
        ) from None
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


def refuse_damaged(table: Table, uri: str) -> None:
    """Raise TableError if the log of ``table``, opened at ``uri``, is damaged, or another table was copied to that
    place.
    """
    place = table.metadata().configuration.get(PLACE)
    if place is not None and not uri.rstrip("/").endswith(f"/{place}"):
        raise TableError(
            f"the table at {uri} is another one: it was created as '{place}', and was copied or moved there; {BACKUP}"
        )
    # The files of these tables come from the open handle. DuckDB reads the log of any other table again.
    by_handle = table.metadata().name in BY_HANDLE and known_files(table)
    if damaged := incomplete_commit(file_system(table), table.version(), table.whole_commits if by_handle else None):
        raise TableError(f"the table at {uri} is damaged: {damaged} is missing, empty or cut off; {BACKUP}")


def update(table: DeltaTable) -> None:
    """Update to the newest version. Raises TableError when it cannot be read."""
    try:
        table.update_incremental()
    except DeltaError as error:
        raise TableError(f"the table at {table.table_uri} cannot be read: {first_line(error)}") from error


def readable_versions(uri: str, storage_options: Mapping[str, str]) -> Iterator[DeltaTable]:
    """The table at each of its readable versions, the newest first; a few tens at most. Raises TableError if there
    is none.
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
