"""Remembers the files of a folder that were looked at, so that each is opened once, also after a restart, and a change
of one that was read is noticed.

Which rows count is in progress alone. If this file is deleted, all files of the folder are opened again.

<workspace>/files/<source>.sqlite
"""

import os
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple

from hourline_core.errors import ResourceError


class Stamp(NamedTuple):
    """What changes if a file is written to."""

    size: int
    modified: int
    """In nanoseconds since 1970."""
    changed: int
    """The same, also of its rights."""

    @classmethod
    def of(cls, status: os.stat_result) -> "Stamp":
        """That of a file with this ``status``."""
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns)


FileState = Literal["reading", "read", "left_out", "held"]
"""``held``: it is not read as it is. ``left_out``: another one with the same content was read."""


@dataclass(frozen=True)
class SeenFile:
    """What became of a file."""

    name: str
    stamp: Stamp
    identity: str
    """The number of its content. Empty: it could not be read."""
    state: FileState
    since: datetime
    """Since when (UTC)."""
    reason: str = ""
    """Why it is held."""


class SeenFiles:
    """The files of one source, by name, also on disk. Raises ResourceError when that cannot be written."""

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            known = self._open()
        except sqlite3.OperationalError as error:
            raise ResourceError(f"{file} cannot be opened: {error}") from error
        except sqlite3.DatabaseError:  # It is no database.
            file.unlink(missing_ok=True)
            known = self._open()
        self.by_name = {one.name: one for one in known}
        self.held = {one.name: one for one in known if one.state == "held"}
        self.left_out = {one.name for one in known if one.state == "left_out"}

    def note(self, seen: SeenFile) -> None:
        """Remember what became of a file."""
        values = (seen.name, *seen.stamp, seen.identity, seen.state, seen.since.isoformat(), seen.reason)
        self._write("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
        self._forget(seen.name)
        self.by_name[seen.name] = seen
        if seen.state == "held":
            self.held[seen.name] = seen
        elif seen.state == "left_out":
            self.left_out.add(seen.name)

    def forget(self, names: Iterable[str]) -> None:
        """Forget files that are not there any more."""
        for name in names:
            self._write("DELETE FROM files WHERE name = ?", (name,))
            self._forget(name)

    def _forget(self, name: str) -> None:
        self.by_name.pop(name, None)
        self.held.pop(name, None)
        self.left_out.discard(name)

    def _open(self) -> list[SeenFile]:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        # One thread at a time uses it, though not the one that has opened it.
        self._database = sqlite3.connect(self._file, check_same_thread=False, isolation_level=None)
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS files (name TEXT PRIMARY KEY, size INT, modified INT, changed INT, "
            "identity TEXT, state TEXT, since TEXT, reason TEXT)"
        )
        return [
            SeenFile(name, Stamp(*stamp), identity, state, datetime.fromisoformat(since), reason)
            for name, *stamp, identity, state, since, reason in self._database.execute("SELECT * FROM files")
        ]

    def _write(self, statement: str, values: Sequence[str | int]) -> None:
        try:
            self._database.execute(statement, values)
        except sqlite3.Error as error:
            raise ResourceError(f"{self._file} cannot be written: {error}") from error
