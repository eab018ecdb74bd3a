"""A lock on a file that the operating system lets go of when its holders are gone, however they ended."""

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
def locked(path: Path, doing: str, waiting: Callable[[], None] | None = None) -> Iterator[int]:
    """Hold the lock on ``path`` and yield its file descriptor; a child that inherits it holds the lock too, until it is
    gone.

    When the process that took it has died and only such a child still holds it, waits for the child's end. Raises
    ConflictError, "process 123 " and ``doing``, when a living process holds it; or, with ``waiting``, waits until it is
    free, and calls that 20 times a second meanwhile, which may raise to give up.
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
            fcntl.flock(fd, fcntl.LOCK_UN)  # not by closing alone: a forked child may have it open still
    finally:
        os.close(fd)


def holder(path: Path) -> int | None:
    """The process id of the living process that holds the lock on ``path``, if there is one."""
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
    """Whether a process of this id runs. One that has ended and that its parent has not noticed yet (on Linux, where
    that can be told) does not.
    """
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
    written = os.pread(fd, 32, 0)
    return int(written) if written and is_alive(int(written)) else None
