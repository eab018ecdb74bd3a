"""Writes commits to disk, so that they survive the loss of power. Neither delta-rs nor Arrow does that.

A file survives once its content was synced, and the folder that has its name. A commit is synced in this order: the
data files and their folder, the entry in the log, and the folder of the log. The next step begins after that. Tables in
an object store need nothing: a put that has succeeded is durable.

The order between a commit's data and its entry holds for files that tasks have written. delta-rs writes both in one
call, so a power cut may leave an entry without its data: a torn commit. Nobody has been told of it. See
``torn_commits``.
"""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote

from deltalake import DeltaTable

from hourline_core.errors import TableError
from hourline_core.runtime.disk import sync
from hourline_core.storage.commit_log import LOG, commit_file
from hourline_core.storage.data_files import local_folder


class _Syncing:
    """Whether this process syncs what it writes."""

    on = True


@contextmanager
def syncing(*, on: bool) -> Iterator[None]:
    """Within the block, this process syncs what it writes. If not ``on``, it leaves that to the operating system."""
    before, _Syncing.on = _Syncing.on, on
    try:
        yield
    finally:
        _Syncing.on = before


def sync_files(table: DeltaTable, paths: Iterable[str]) -> None:
    """Sync data files of ``table``, by their paths below it, before a commit names them. Raises TableError."""
    folder = _folder(table)
    if folder is not None:
        with _told(folder):
            _sync_data(folder, paths)


def sync_commits(table: DeltaTable, after: int) -> None:
    """Sync the commits above version ``after``, up to that of ``table``, with their data files and checkpoints. Raises
    TableError if the disk cannot keep them.
    """
    folder = _folder(table)
    if folder is None:
        return
    with _told(folder):
        for version in range(after + 1, table.version() + 1):
            _sync_commit(folder, version)
        sync(folder / LOG)


def sync_version(table: DeltaTable) -> None:
    """Sync the version that ``table`` is at. A commit to another table that depends on it must not outlive it: its
    writer may be between its commit and its sync. Raises TableError.
    """
    sync_commits(table, table.version() - 1)


def sync_creation(table: DeltaTable) -> None:
    """Sync a table that was just created, and the folders above it, which may be new. Raises TableError."""
    sync_commits(table, -1)
    folder = _folder(table)
    if folder is not None:
        with _told(folder):
            for above in (folder, *folder.parents):
                if not os.access(above, os.R_OK):
                    break
                sync(above)


def sync_all() -> None:
    """Have the operating system write everything to disk, whoever has written it."""
    os.sync()


def _folder(table: DeltaTable) -> Path | None:
    """The folder of ``table``. None: this process does not sync, or the table is not on this machine."""
    folder = local_folder(table.table_uri) if _Syncing.on else None
    return None if folder is None else Path(folder)


def _sync_commit(folder: Path, version: int) -> None:
    entry = folder / commit_file(version)
    _sync_data(folder, _added(entry))
    sync(entry)
    checkpoint = folder / LOG / f"{version:020}.checkpoint.parquet"
    if checkpoint.exists():
        sync(checkpoint)
        sync(folder / LOG / "_last_checkpoint")


def _added(entry: Path) -> list[str]:
    """The paths of the data files that a commit has added."""
    actions = [line for line in entry.read_bytes().splitlines() if line.startswith(b'{"add"')]
    return [unquote(json.loads(action)["add"]["path"]) for action in actions]


def _sync_data(folder: Path, paths: Iterable[str]) -> None:
    there = [folder / path for path in paths]
    for file in there:
        with suppress(FileNotFoundError):  # A vacuum of its writer has deleted what a later commit replaces.
            sync(file)
    if there:
        sync(folder)


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Raise TableError for what the operating system says within the block."""
    try:
        yield
    except OSError as error:
        raise TableError(
            f"the disk does not keep what was written to the table at {folder}: {error.strerror}; see the log of the "
            "operating system, and check the disk"
        ) from error
