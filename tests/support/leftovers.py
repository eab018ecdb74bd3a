"""What tests have started ends with them, however they end: kill -9 of pytest included, and `hourline up`, whose
services have sessions of their own.

    leftovers.py PARENT MARK SECONDS

pytest puts a mark into its environment, which everything that it starts inherits, and starts this one process beside
it, without the mark. Once its parent is gone, each process with that mark is asked to end (SIGTERM), with all that it
has started, and killed where it does not within some seconds. It looks at the environment of each process, which is to
be seen on Linux alone; elsewhere it does nothing.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

MARK = "HOURLINE_TEST_RUN"
_LOOK_EVERY_SECONDS = 0.2


class Process(NamedTuple):
    """One process for ever: an id may be used again, but not with the same start."""

    pid: int
    started: str


def watch(grace_seconds: float = 10.0) -> None:
    """Called by pytest, before it starts anything else."""
    mark = uuid4().hex
    unmarked = {
        name: value for name, value in os.environ.items() if name != MARK
    }  # it must outlive a run of pytest within another's
    nowhere = subprocess.DEVNULL
    command = [sys.executable, "-I", "-S", __file__, str(os.getpid()), mark, str(grace_seconds)]
    subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere, env=unmarked, start_new_session=True)
    os.environ[MARK] = mark


def main(parent: int, mark: str, grace_seconds: float) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY_SECONDS)
    end(mark, grace_seconds)


def end(mark: str, grace_seconds: float) -> None:
    """End all that has the mark, and what that has started: some programs write their title over their environment."""
    found: set[Process] = set()
    deadline = time.monotonic() + grace_seconds
    while True:
        living = _processes()
        marked = {process for process in living if f"{MARK}={mark}".encode() in _environment(process.pid)}
        known = {process.pid for process in found & living.keys()} | {process.pid for process in marked}
        while further := {process.pid for process, its_parent in living.items() if its_parent in known} - known:
            known |= further
        left = {process for process in living if process.pid in known}
        if not left:
            return
        late = time.monotonic() > deadline
        for process in left if late else marked - found:
            with suppress(OSError):
                os.kill(process.pid, signal.SIGKILL if late else signal.SIGTERM)
        found |= left
        time.sleep(_LOOK_EVERY_SECONDS)


def _processes() -> dict[Process, int]:
    """The processes that run, each with its parent; none of those that have ended and only wait to be noticed."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if fields[0] not in ("Z", "X"):
                found[Process(int(folder.name), fields[19])] = int(fields[1])
    return found


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
