"""The files of a folder. Each content is read once: a file is identified by the hash of its unpacked bytes.

A file is read when it has not changed for a time, and never again. A file that changes later is held, and a file with
the bytes of another one is left out.
"""

import os
import re
import stat
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain, islice
from pathlib import Path

from hourline_core.errors import HourlineError
from hourline_core.formats.files.data_file import find_data_file_at
from hourline_core.formats.files.reading import NoRecordsError, rows_of
from hourline_core.ledger.files_read import FileRead, identity_of, topic_id_of
from hourline_core.model import Project, Source
from hourline_core.model.files import Files
from hourline_core.model.home_folder import expand_home
from hourline_core.model.hours import Clock
from hourline_core.runtime.unread_files import MOST_TOLD, HeldFile, UnreadFiles
from speed_layer.files.arrivals import ArrivedFile
from speed_layer.files.read_rows import hash_content, refuse_foreign
from speed_layer.files.seen_files import FileState, SeenFile, SeenFiles, Stamp

_SECONDS_BETWEEN_LOOKS, _LOOKS_SHARE = 0.5, 0.1
"""The minimum time between two looks at the folder, and the maximum share of the time that looks take."""

_PASSED_OVER = (".tmp", ".part", ".partial")
"""The ends of names that programs give to files that they are writing."""


class Folder:
    """The ``Arrivals`` of a folder. Its methods are described there. ``read`` are the files that progress has."""

    def __init__(self, project: Project, source: Source, read: Mapping[str, FileRead], clock: Clock) -> None:
        assert source.files, "the source reads a folder"
        self._declared: Files = source.files
        self._source, self._clock = source, clock
        self._root = project.root.absolute() / expand_home(self._declared.folder)
        self._read = dict(read)
        self._seen = SeenFiles(project.workspace / "files" / f"{source.name}.sqlite")
        # Progress alone says what was read. It may be older than the note: it was restored from a backup.
        self._seen.forget(
            one.name
            for one in list(self._seen.by_name.values())
            if one.state in ("read", "left_out") and not self._is_whole(one.identity)
        )
        self._ready: deque[str] = deque()
        self._settling: dict[str, tuple[Stamp, float]] = {}
        """By name, the stamp of a file that is not read yet, and since when it has that."""
        self._begun: dict[str, tuple[str, Stamp]] = {}
        """By name, the identity and the stamp of files that were given out, and are neither read nor held."""
        self._first: set[str] | None = None
        """What was to be read at the first look."""
        self._paths: dict[str, Path] = {}
        self._unreadable: dict[str, HeldFile] = {}
        """Folders."""
        self._next_look = 0.0

    @property
    def unread(self) -> UnreadFiles:
        # A file without bytes is about to be written. Nothing of it is missing.
        waiting = sum(1 for stamp, _ in self._settling.values() if stamp.size)
        held = (HeldFile(one.name, one.reason, one.since) for one in self._seen.held.values())
        number = len(self._unreadable) + len(self._seen.held)
        told = list(islice(chain(self._unreadable.values(), held), MOST_TOLD))
        return UnreadFiles(waiting, len(self._seen.left_out), number, told)

    def is_drained(self) -> bool:
        return self._first is not None and self._first.isdisjoint(self._settling)

    def next(self) -> ArrivedFile | None:
        if not self._ready:
            self._look()
        while self._ready:
            name = self._ready.popleft()
            if name in self._settling and (file := self._open(name)):
                return file
        return None

    def begin(self, file: ArrivedFile) -> None:
        identity = identity_of(file.topic_id)
        self._begun[file.name] = identity, self._settling[file.name][0]
        self._note(file.name, identity, "reading")

    def note_read(self, file: ArrivedFile, end: int) -> None:
        identity = identity_of(file.topic_id)
        self._read[identity] = FileRead(file.topic_id, file.name, end)
        if end == file.rows.total:
            self._note(file.name, identity, "read")
            # It may have been begun under another name, and taken away.
            gone = [one.name for one in self._seen.held.values() if one.identity == identity]
            self._seen.forget(name for name in gone if name not in self._paths)

    def hold(self, file: ArrivedFile, reason: str) -> None:
        identity = identity_of(file.topic_id)
        known = self._read.get(identity)
        if known is None:
            # Nothing of it counts. It is what the next look finds.
            self._seen.forget([file.name])
            self._settling.pop(file.name, None)
            del self._begun[file.name]
            return
        counted = f"; {known.end:,} of its {file.rows.total:,} rows were read, and count"
        reason = _in_words_of_declarations(_without_path(reason, self._paths.get(file.name, self._root / file.name)))
        self._note(file.name, identity, "held", reason + counted)

    def _look(self) -> None:
        """Look which files are there, and which of them can be read."""
        began = time.monotonic()
        if began < self._next_look:
            return
        before, self._unreadable = self._unreadable, {}
        self._paths = {}
        there = dict(self._list(before))
        self._forget_others()
        now = time.monotonic()
        waiting = {name: stamp for name, stamp in there.items() if self._is_to_be_read(name, stamp)}
        waiting |= {name: stamp for name, (_, stamp) in self._begun.items()}
        settling, self._settling = self._settling, {}
        for name, stamp in waiting.items():
            known = settling.get(name)
            self._settling[name] = known if known and known[0] == stamp else (stamp, now)
        settle = self._declared.settle.total_seconds()
        ready = [
            name
            for name, (stamp, since) in self._settling.items()
            if stamp.size and now - since >= settle and name not in self._begun
        ]
        self._ready = deque(sorted(ready, key=lambda name: (waiting[name].modified, name)))
        if self._first is None:
            self._first = {name for name, stamp in waiting.items() if stamp.size}
        self._next_look = now + max(_SECONDS_BETWEEN_LOOKS, (now - began) / _LOOKS_SHARE)

    def _list(self, unreadable: Mapping[str, HeldFile]) -> Iterator[tuple[str, Stamp]]:
        """The names of the files below the folder, with their stamps. ``unreadable`` are folders of the last look."""

        def note_unreadable(error: OSError) -> None:
            folder = Path(error.filename)
            what = "there is no such folder" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
            known = unreadable.get(str(folder))
            since = known.since if known and known.reason == what else self._clock()
            self._unreadable[str(folder)] = HeldFile(str(folder), what, since)

        for folder, folders, names in os.walk(self._root, onerror=note_unreadable):
            folders[:] = [name for name in folders if not name.startswith((".", "_"))]
            for name in names:
                if not name.startswith((".", "_")) and not name.endswith(_PASSED_OVER):
                    path = Path(folder, name)
                    if fnmatchcase(name, self._declared.pattern) and (stamp := _stamp_of(path)):
                        # A name may have bytes that are no UTF-8.
                        shown = os.fsencode(path.relative_to(self._root).as_posix()).decode("utf-8", "backslashreplace")
                        self._paths[shown] = path
                        yield shown, stamp

    def _is_to_be_read(self, name: str, stamp: Stamp) -> bool:
        seen = self._seen.by_name.get(name)
        return seen is None or seen.stamp != stamp or seen.state == "reading"

    def _forget_others(self) -> None:
        """Forget the files that are not there any more. One of which a part was read is held until it is back."""
        for one in list(self._seen.by_name.values()):
            if one.name in self._paths or one.name in self._begun or self._is_in_unreadable(one.name):
                continue
            known = self._read.get(one.identity)
            if not self._has_rows_read(one) or known is None or known.is_whole:
                self._seen.forget([one.name])
            elif one.state == "reading":
                reason = f"it is gone, and only {known.end:,} of its rows were read: put it back"
                self._seen.note(replace(one, state="held", reason=reason, since=self._clock()))

    def _is_in_unreadable(self, name: str) -> bool:
        path = self._root / name
        return any(path.is_relative_to(folder) for folder in self._unreadable)

    def _open(self, name: str) -> ArrivedFile | None:
        """The file ``name`` if it is to be read."""
        path, (stamp, _) = self._paths[name], self._settling[name]
        if _stamp_of(path) != stamp:
            return None  # The next look sees what it is now.
        identity = ""
        try:
            file = find_data_file_at(path, format=self._declared.format)
            identity = hash_content(file)
            if not self._is_new(name, identity):
                return None
            rows = rows_of(file, self._declared.null_text)
            refuse_foreign(file, rows, self._source)
        except NoRecordsError:
            self._note(name, identity, "read")
            return None
        except (HourlineError, OSError) as error:
            self._note(name, identity, "held", _in_words_of_declarations(_without_path(str(error), path)))
            return None
        known = self._read.get(identity)
        topic_id = known.topic_id if known else topic_id_of(identity, rows.total)
        is_unchanged = partial(_has_stamp, path, stamp)
        return ArrivedFile(name, topic_id, rows, file.format, known.end if known else 0, is_unchanged)

    def _is_new(self, name: str, identity: str) -> bool:
        """Whether a file with this content is to be read. If not, that is noted."""
        if any(identity == begun for begun, _ in self._begun.values()):
            return False  # A copy of it is being read. After that, this one is left out.
        seen, known = self._seen.by_name.get(name), self._read.get(identity)
        if seen and seen.identity != identity and self._has_rows_read(seen):
            reason = "it was changed after it was read: put what is new into another file"
            self._note(name, seen.identity, "held", reason)
            return False
        if known and known.is_whole:
            self._note(name, identity, "read" if known.name == name else "left_out")
            return False
        return True

    def _is_whole(self, identity: str) -> bool:
        known = self._read.get(identity)
        return known is not None and known.is_whole

    def _has_rows_read(self, seen: SeenFile) -> bool:
        """Whether rows of what a file was before count."""
        known = self._read.get(seen.identity)
        return seen.state != "left_out" and known is not None and known.end > 0

    def _note(self, name: str, identity: str, state: FileState, reason: str = "") -> None:
        seen = self._seen.by_name.get(name)
        _, stamp = self._begun.get(name) or ("", self._settling[name][0])
        since = seen.since if seen and seen.state == state == "held" else self._clock()
        # It may quote bytes that are no UTF-8.
        reason = reason.encode("utf-8", "backslashreplace").decode()
        self._seen.note(SeenFile(name, stamp, identity, state, since, reason))
        if state != "reading":
            self._settling.pop(name, None)
            self._begun.pop(name, None)


def _stamp_of(path: Path) -> Stamp | None:
    """None: it is gone, or is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return Stamp.of(status) if stat.S_ISREG(status.st_mode) else None


def _has_stamp(path: Path, stamp: Stamp) -> bool:
    return _stamp_of(path) == stamp


def _without_path(reason: str, path: Path) -> str:
    """The ``reason`` without the path of the file that it is about, whose name is told beside it."""
    for between in (": ", ", "):
        reason = reason.removeprefix(f"{path}{between}")
    return reason.replace(str(path), "it")


def _in_words_of_declarations(reason: str) -> str:
    """The ``reason`` of `hourline import`, with what can be done in a folder."""
    what, choose, _ = reason.partition("; choose a member")
    if choose:
        return f"{what}; put each of them into a file of its own"
    return re.sub(r"--format (\w+)", r"files.format: \1", reason).replace("--null-text", "files.null_text")
