"""The commits of a Delta table. Each commit is read once: first the files that the table has, and then those that later
commits add.

A file is identified by the table, the version, and its place in the commit. So progress tells how far the table was
read. A file that only holds rows of others, which OPTIMIZE has written, is passed over.
"""

import json
import os
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

from hourline_core.errors import HourlineError, first_line
from hourline_core.formats.files.arrow_json import to_json
from hourline_core.formats.files.data_file import DataFile
from hourline_core.formats.files.parquet_rows import ParquetRows
from hourline_core.ledger.files_read import FileRead, identity_of, topic_id_of
from hourline_core.model import Project, Source
from hourline_core.model.files import DeltaCommits
from hourline_core.model.home_folder import expand_home
from hourline_core.model.hours import Clock
from hourline_core.runtime.notes import read_note, write_note
from hourline_core.runtime.unread_files import HeldFile, UnreadFiles
from hourline_core.storage.commit_log import commit_file
from speed_layer.files.arrivals import ArrivedFile
from speed_layer.files.read_rows import refuse_foreign

_SECONDS_BETWEEN_LOOKS, _SECONDS_BETWEEN_TRIES = 0.5, 10.0
"""The time between two looks at the table, and between two tries to read what could not be read."""
_SECONDS_BETWEEN_OPENINGS = 30.0
"""The time after which the table is opened although its log shows no further commit: it may be another one by then."""
_UNREADABLE = ("columnMapping", "deletionVectors")
"""The features of tables whose data files alone do not tell the rows."""


class HeldCommitError(HourlineError):
    """A commit that cannot be read as it is."""


@dataclass(frozen=True)
class _DataFile:
    identity: str
    version: int
    path: Path
    partition: Mapping[str, str | None]
    """The values of the columns that the file has not, as text."""


class DeltaTableCommits:
    """The ``Arrivals`` of a Delta table. Its methods are described there. ``read`` are the files that progress has."""

    def __init__(self, project: Project, source: Source, read: Mapping[str, FileRead], clock: Clock) -> None:
        assert source.delta, "the source reads a Delta table"
        self._declared: DeltaCommits = source.delta
        self._source, self._clock = source, clock
        self._path = project.root.absolute() / expand_home(self._declared.table)
        self._read = dict(read)
        self._position = _Position.of(project.workspace / "files" / f"{source.name}.json", read)
        self._files: deque[_DataFile] = deque()
        """Those of the versions up to the position that are not begun yet."""
        self._begun: dict[str, _DataFile] = {}
        """By topic id, those that were given out, and are neither finished nor held."""
        self._newest = -1
        self._first: int | None = None
        """The newest version at the first look."""
        self._held: HeldFile | None = None
        """Why reading does not go on, until it does."""
        self._next_look = self._next_opening = 0.0

    @property
    def unread(self) -> UnreadFiles:
        waiting = len(self._files) + len(self._begun) + max(0, self._newest - self._position.version)
        held = [self._held] if self._held else []
        return UnreadFiles(waiting, 0, len(held), held)

    def is_drained(self) -> bool:
        if self._held:
            return True
        is_read = not self._files and not self._begun
        return self._first is not None and is_read and self._position.version >= self._first

    def next(self) -> ArrivedFile | None:
        if not self._files or self._held:
            if time.monotonic() < self._next_look:
                return None
            self._next_look = time.monotonic() + _SECONDS_BETWEEN_LOOKS
        try:
            found = self._open_next()
            while found is None and self._find_files():
                found = self._open_next()
        except (HourlineError, OSError, ValueError, pa.ArrowException) as error:
            self._hold(str(error))
            return None
        if found is None:
            self._held = None
        return found

    def begin(self, file: ArrivedFile) -> None:
        self._begun[file.topic_id] = self._files.popleft()

    def note_read(self, file: ArrivedFile, end: int) -> None:
        self._read[identity_of(file.topic_id)] = FileRead(file.topic_id, file.name, end)
        self._position.last = identity_of(file.topic_id)
        if end == file.rows.total:
            del self._begun[file.topic_id]
            self._held = None
            self._note_position()

    def hold(self, file: ArrivedFile, reason: str) -> None:
        """No file behind this one is given out before it is read: a start goes on behind the last one in progress."""
        self._files.appendleft(self._begun.pop(file.topic_id))
        self._hold(reason)

    def _find_files(self) -> bool:
        """Look which version is next, and which files it has added. False: there is none."""
        now = time.monotonic()
        if now < self._next_opening and not (self._path / commit_file(self._position.version + 1)).exists():
            return False
        table = _open_table(self._path)
        self._next_opening = now + _SECONDS_BETWEEN_OPENINGS
        self._newest = table.version()
        if self._first is None:
            self._first = self._newest
        metadata = table.metadata()
        self._position.refuse_other_table(str(metadata.id), self._path)
        unreadable = sorted(set(table.protocol().reader_features or ()) & {*_UNREADABLE})
        # A table of an older protocol lists no features.
        has_mapping = metadata.configuration.get("delta.columnMapping.mode", "none") != "none"
        if unreadable or has_mapping:
            feature = unreadable[0] if unreadable else "columnMapping"
            raise HeldCommitError(
                f"the table at {self._path} has the feature {feature}, so its data files alone do not tell its "
                "rows; write its rows into a table without it"
            )
        self._columns = pa.schema(table.schema().to_arrow())
        while not self._files and self._position.version < self._newest:
            version = self._position.following(self._newest)
            added = self._added_at_first(version) if version == self._position.first else self._added_by(version)
            identity = f"{metadata.id}:{version:020}:"
            self._files.extend(
                _DataFile(f"{identity}{place:06}", version, self._path / unquote(path), partition)
                for place, (path, partition) in enumerate(added)
            )
            self._position.version = version
            self._note_position()
        return bool(self._files)

    def _added_at_first(self, version: int) -> list[tuple[str, Mapping[str, str | None]]]:
        """The paths, with the values of partitions, of the files that the table has at ``version``."""
        actions = pa.table(_open_table(self._path, version).get_add_actions()).to_pylist()
        # As those of one commit: a table that was empty until then may be read in either way.
        ordered = sorted(actions, key=lambda action: (action["modification_time"], action["path"]))
        return [(action["path"], _as_texts(action.get("partition") or {})) for action in ordered]

    def _added_by(self, version: int) -> list[tuple[str, Mapping[str, str | None]]]:
        """Those that the commit of ``version`` has added."""
        file = self._path / commit_file(version)
        try:
            actions = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        except FileNotFoundError:
            raise HeldCommitError(
                f"{file} is gone, and was not read before: put it back, or declare a new source, which begins with all "
                "rows of the table"
            ) from None
        changed = [action["remove"] for action in actions if "remove" in action and action["remove"].get("dataChange")]
        if changed:
            if self._declared.skip_change_commits:
                return []
            operation = next((one["commitInfo"].get("operation") for one in actions if "commitInfo" in one), None)
            raise HeldCommitError(
                f"version {version} of the table at {self._path} ({operation or 'of an unknown operation'}) changes or "
                "deletes rows, and each row counts once: declare `delta: {skip_change_commits: true}` to pass such "
                "commits over, with all that they add"
            )
        added = [action["add"] for action in actions if "add" in action and action["add"].get("dataChange", True)]
        added.sort(key=lambda action: (action["modificationTime"], action["path"]))
        return [(action["path"], action.get("partitionValues") or {}) for action in added]

    def _open_next(self) -> ArrivedFile | None:
        while self._files:
            file = self._files[0]
            known = self._read.get(file.identity)
            if (known is None or not known.is_whole) and (opened := self._open(file, known)):
                return opened
            self._files.popleft()
            self._note_position()
        return None

    def _open(self, file: _DataFile, known: FileRead | None) -> ArrivedFile | None:
        """None: it has no rows."""
        data = DataFile(file.path, "parquet")
        rows = ParquetRows(data, {name: self._cell(name, text) for name, text in file.partition.items()})
        if not rows.total:
            return None
        refuse_foreign(data, rows, self._source)
        topic_id = known.topic_id if known else topic_id_of(file.identity, rows.total)
        # Files of several partitions may have one name.
        name = f"{self._path.name}@{file.version}/{os.path.relpath(file.path, self._path)}"
        return ArrivedFile(name, topic_id, rows, data.format, known.end if known else 0, lambda: True)

    def _cell(self, name: str, text: str | None) -> str:
        """The JSON text of the value of a partition."""
        kind = self._columns.field(name).type
        if pa.types.is_timestamp(kind) and kind.tz and text:
            moment = datetime.fromisoformat(text)
            return to_json(pa.array([moment if moment.tzinfo else moment.replace(tzinfo=UTC)], kind))[0]
        return to_json(pa.array([text or None], pa.string()).cast(kind))[0]

    def _note_position(self) -> None:
        """Note on disk how far the table is read, if no file is left up to there."""
        if not self._files and not self._begun:
            self._position.note()

    def _hold(self, reason: str) -> None:
        reason = reason.encode("utf-8", "backslashreplace").decode()
        if self._held is None or self._held.reason != reason:
            self._held = HeldFile(self._declared.table, reason, self._clock())
        self._next_look = time.monotonic() + _SECONDS_BETWEEN_TRIES


class _Position:
    """Up to which version a table was read. ``first`` is the version whose files were all read, whoever added them."""

    def __init__(self, file: Path, table: str | None, first: int | None, version: int) -> None:
        self._file, self._table, self.first, self.version = file, table, first, version
        self.last: str | None = None
        """The identity of the file that was read last. None: none was."""

    @classmethod
    def of(cls, file: Path, read: Iterable[str]) -> "_Position":
        """What progress says, by the identities ``read``, or the note in ``file``, which also knows of commits without
        rows. The version that was reached last may have further files.
        """
        # Those of files of a folder have no version: the source had another declaration.
        of_tables = [identity for identity in read if identity.count(":") == 2]
        versions = [(table, int(version)) for table, version, _ in (identity.split(":") for identity in of_tables)]
        table, first, version = None, None, -1
        if versions:
            table, first, version = versions[-1][0], versions[0][1], versions[-1][1] - 1
        noted: Mapping[str, Any] = read_note(file) or {}
        # Progress may be older than the note: it was restored from a backup. Then it lacks the last file.
        if noted and table in (None, noted["table"]) and (noted["last"] is None or noted["last"] in read):
            table, first, version = noted["table"], noted["first"], max(version, noted["version"])
        position = cls(file, table, first, version)
        position.last = of_tables[-1] if of_tables else None
        return position

    def following(self, newest: int) -> int:
        """The version to read next. A table that was never read is read as it is at ``newest``."""
        if self.first is None:
            self.first = newest
        return max(self.version + 1, self.first)

    def note(self) -> None:
        """Note on disk that all files of the version were read. Raises OSError."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        said = {"table": self._table, "first": self.first, "version": self.version, "last": self.last}
        write_note(self._file, said)

    def refuse_other_table(self, table: str, path: Path) -> None:
        """Raise HeldCommitError if the table at ``path`` is not the one that was read."""
        if self._table not in (None, table):
            raise HeldCommitError(
                f"the table at {path} is another one than the one that was read: bring that one back, or declare a "
                "new source for this one"
            )
        self._table = table


def _open_table(path: Path, version: int | None = None) -> DeltaTable:
    if not path.is_dir():
        raise HeldCommitError(f"there is no table at {path}")
    try:
        return DeltaTable(path, version=version)
    except Exception as error:  # delta-rs has many kinds
        raise HeldCommitError(f"the table at {path} cannot be read: {first_line(error)}") from None


def _as_texts(values: Mapping[str, Any]) -> dict[str, str | None]:
    """The values of a partition as the log has them."""
    return {
        name: None if value is None else pa.scalar(value).cast(pa.string()).as_py() for name, value in values.items()
    }
