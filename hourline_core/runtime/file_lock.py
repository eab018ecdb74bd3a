"""A file lock that the operating system releases when its holders have ended, for whatever reason."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hourline_core.errors import ConflictError

_LEFTOVERS_SECONDS = 20.0
_LOOK_EVERY_SECONDS = 0.05


@contextmanager
def hold_lock(path: Path, doing: str, waiting: Callable[[], None] | None = None) -> Iterator[int]:
    """Hold the lock on ``path`` and yield its file descriptor. A child that inherits the descriptor holds the lock too.

    If the process that took the lock has died and only such a child holds it, waits for the child's end.

    Raises ConflictError, "process 123 " and ``doing``, when a living process holds the lock. With ``waiting``, waits
    instead until the lock is free, and calls ``waiting`` 20 times a second, which may raise to give up.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _take(fd, doing, waiting)
        os.truncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
        try:
            yield fd
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
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
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


def _take(fd: int, doing: str, waiting: Callable[[], None] | None) -> None:
    deadline = time.monotonic() + _LEFTOVERS_SECONDS
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _living_owner(fd)
            if waiting is not None:
                waiting()
            elif owner is not None or time.monotonic() > deadline:
                raise ConflictError(f"process {owner or 'of unknown id'} {doing}") from None
            time.sleep(_LOOK_EVERY_SECONDS)
        else:
            return


def _living_owner(fd: int) -> int | None:
    content = os.pread(fd, 32, 0)
    return int(content) if content and is_alive(int(content)) else None
