"""`hourline speed` as a process of its own: watched, killed without warning, and known with all its children."""

import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from tests.support import parcels
from tests.support.stack_project import StackProject

PATIENCE = 600.0
"""A bound on what hangs: a start of Spark that takes 8 seconds alone takes minutes where much else runs."""


class SpeedProcess:
    """Runs from construction until it ends, is killed, or the block is left. ``program`` is how Python runs Hourline."""

    def __init__(
        self,
        project: StackProject,
        *options: str,
        command: str = "speed",
        program: Sequence[str] = ("-m", "hourline"),
        failpoint: str = "",
    ) -> None:
        arguments = [sys.executable, *program, command, "--project", str(project.root), *options]
        environment = {
            **os.environ,
            "KAFKA": project.kafka,
            "HOURLINE_FAILPOINT": failpoint or os.environ.get("HOURLINE_FAILPOINT", ""),
        }
        self.process = subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        self.lines: list[str] = []
        self.family: list[int] = []
        """What it has started, once it is ready."""
        self._arrived: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def wait_until_ready(self) -> None:
        """Until it reads from Kafka."""
        self.wait_for("ready")
        self.family = descendants(self.process.pid)
        assert self.family, "it should have a JVM by now"

    def wait_for(self, text: str) -> None:
        """Until a line of its output contains ``text``."""
        while (line := self._arrived.get(timeout=PATIENCE)) is not None:
            if text in line:
                return
        raise AssertionError(f"ended without saying '{text}': {self.lines}")

    def wait(self) -> int:
        """Until it ends by itself; returns its exit status."""
        return self.process.wait(PATIENCE)

    def stop(self) -> None:
        """Stop it as Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        assert self.wait() == 0, self.lines

    def kill(self) -> None:
        """kill -9 at once, and wait until nothing that it started is left."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        wait_until(lambda: not alive(self.family), f"{self.family} outlive their parent {self.process.pid}")

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.append(line)
            self._arrived.put(line)
        self._arrived.put(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def wait_until(condition: Callable[[], bool], otherwise: str, every_seconds: float = 0.05) -> None:
    """Look every so often whether ``condition`` holds. Looking takes time from what is waited for."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(every_seconds)


@contextmanager
def records_arriving(project: StackProject) -> Iterator[None]:
    """Within the block, events arrive in Kafka all the time."""
    stop = threading.Event()

    def send() -> None:
        rand = random.Random(3)  # noqa: S311 (the same numbers each time)
        while not stop.wait(0.1):
            project.send("scans", parcels.scans(rand, 5, first_hour=0, hours=4))

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def descendants(pid: int) -> list[int]:
    """The processes that ``pid`` has started, and those that they have."""
    found, waiting = [], [pid]
    parents = _processes()
    while waiting:
        parent = waiting.pop()
        children = [child for child, its_parent in parents.items() if its_parent == parent]
        found += children
        waiting += children
    return found


def alive(pids: list[int]) -> list[int]:
    """Those of ``pids`` that still run."""
    return sorted(_processes().keys() & set(pids))


def _processes() -> dict[int, int]:
    """By process id, the parent's; without those that have ended and only wait to be noticed."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listed.splitlines()]
    return {int(pid): int(parent) for pid, parent, state in rows if not state.startswith("Z")}
