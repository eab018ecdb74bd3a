"""A disk that forgets what was not synced: what a power cut may leave of a folder, at any moment.

It watches ``os.fsync`` and ``os.sync`` of this process. A file's content is kept once it was synced, and its name once its folder was.
Of all else, a cut keeps what it likes: a new name or not, the whole content of a file, a part of it, or nothing; and a
name that was deleted may still be there.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from unittest.mock import patch

_Names = dict[str, int | None]
"""The names in a folder with the inodes of its files. None: a folder."""


class UnsyncedDisk:
    """What is on disk of ``root``, a folder of this machine. ``forgets`` says for which paths a sync does nothing."""

    def __init__(self, root: Path, forgets: Callable[[Path], bool] = lambda path: False) -> None:
        self.root, self._forgets = root, forgets
        self._names: dict[Path, _Names] = {}
        self._contents: dict[int, bytes] = {}

    @contextmanager
    def watching(self, on_change: Callable[[], None]) -> Iterator[None]:
        """Watch the syncs within the block. ``on_change`` is called before and after each."""
        fsync = os.fsync

        def watched(fd: int) -> None:
            on_change()
            fsync(fd)
            self._note(Path(f"/proc/self/fd/{fd}").readlink())
            on_change()

        def watched_sync() -> None:
            on_change()
            for path in (self.root, *self.root.rglob("*")):
                self._note(path)
            on_change()

        with patch.object(os, "fsync", watched), patch.object(os, "sync", watched_sync):
            yield

    def cut(self, target: Path, random: Random) -> None:
        """Make ``target`` what a power cut leaves now."""
        self._restore(self.root, target, random)

    def _note(self, path: Path) -> None:
        if not path.is_relative_to(self.root) or self._forgets(path):
            return
        if path.is_dir():
            self._names[path] = _names(path)
        else:
            self._contents[path.stat().st_ino] = path.read_bytes()

    def _restore(self, folder: Path, target: Path, random: Random) -> None:
        target.mkdir()
        synced, now = self._names.get(folder, {}), _names(folder) if folder.exists() else {}
        for name in sorted({*synced, *now}):
            choices = [of[name] for of in (synced, now) if name in of]
            if len(choices) < 2 and random.random() < 0.5:
                continue  # a new name that was not kept, or an old one that is gone
            inode = random.choice(choices)
            if inode is None:
                self._restore(folder / name, target / name, random)
            else:
                (target / name).write_bytes(self._content(inode, folder / name, random))

    def _content(self, inode: int, file: Path, random: Random) -> bytes:
        if inode in self._contents:
            return self._contents[inode]
        written = file.read_bytes() if file.exists() else b""
        return written[: random.choice([0, len(written), random.randint(0, len(written))])]


def _names(folder: Path) -> _Names:
    return {entry.name: None if entry.is_dir() else entry.inode() for entry in os.scandir(folder)}
