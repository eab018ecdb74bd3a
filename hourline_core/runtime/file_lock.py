"""A file lock that the operating system releases when its holders have ended, for whatever reason."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hourline_core.errors import ConflictError

_LEFTOVERS_SECONDS = 20.0
_MOMENT_SECONDS = 1.0
"""The maximum time that a process holds a lock which only asks whether it is free."""
_LOOK_EVERY_SECONDS = 0.05


@dataclass(frozen=True)
class HeldLock:
    """A lock that this process holds."""

    path: Path
    fd: int
    """A child that inherits this file descriptor holds the lock, too."""

    def renew(self) -> bool:
        """Take the lock again if its file was deleted, as with the folder around it, and return whether it was. Others
        would see no lock. Raises ConflictError when another process has it by now, and keeps it for a second.
        """
        if _is_at(self.path, self.fd):
            return False
        again = _open(self.path)
        try:
            doing = f"has recreated {self.path}, which was deleted; this one stops and changes nothing"
            _take(again, doing, None, patience=_MOMENT_SECONDS)
            _note_owner(again)
            os.dup2(again, self.fd, inheritable=False)
        finally:
            os.close(again)
        return True


@contextmanager
def hold_lock(path: Path, doing: str, waiting: Callable[[], None] | None = None) -> Iterator[HeldLock]:
    """Hold the lock on ``path`` within the block.

    Raises ConflictError, "process 123 " and ``doing``, when the process that took the lock lives. If it has died, and
    only a child that has inherited the lock still holds it, waits for the child's end for at most 20 s before that.

    With ``waiting``, waits instead until the lock is free, and calls ``waiting`` 20 times a second, which may raise to
    give up.
    """
    fd = _take_current(path, doing, waiting)
    try:
        _note_owner(fd)
        try:
            yield HeldLock(path, fd)
        finally:
            os.truncate(fd, 0)
            fcntl.flock(fd, fcntl.LOCK_UN)  # closing is not enough: a forked child may still have the file open
    finally:
        os.close(fd)


def holder(path: Path) -> int | None:
    """The id of the living process that holds the lock on ``path``, or None."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _living_owner(fd)
    else:
        return None
    finally:
        os.close(fd)


def is_alive(pid: int) -> bool:
    """Whether a process with this id runs. On Linux, a zombie counts as ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        state = ""
    if state == "Z":
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _take_current(path: Path, doing: str, waiting: Callable[[], None] | None) -> int:
    """The lock as a file descriptor, once it is the lock of the file that is at ``path`` then."""
    while True:
        fd = _open(path)
        try:
            _take(fd, doing, waiting)
            if _is_at(path, fd):
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)  # The file was deleted while this process waited, and another has recreated it.


def _is_at(path: Path, fd: int) -> bool:
    """Whether ``fd`` is the file that is at ``path``."""
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except FileNotFoundError:
        return False


def _open(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)


def _note_owner(fd: int) -> None:
    os.truncate(fd, 0)
    os.pwrite(fd, str(os.getpid()).encode(), 0)


def _take(fd: int, doing: str, waiting: Callable[[], None] | None, patience: float = 0.0) -> None:
    """Take the lock. Without ``waiting``, a living process has it for at most ``patience`` seconds."""
    began = time.monotonic()
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _living_owner(fd)
            if waiting is not None:
                waiting()
            elif time.monotonic() - began > (_LEFTOVERS_SECONDS if owner is None else patience):
                raise ConflictError(f"process {owner or 'of unknown id'} {doing}") from None
            time.sleep(_LOOK_EVERY_SECONDS)
        else:
            return


def _living_owner(fd: int) -> int | None:
    content = os.pread(fd, 32, 0)
    return int(content) if content and is_alive(int(content)) else None
