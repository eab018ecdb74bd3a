"""Runs processes and measures their CPU seconds, time and memory, including descendants. It reads /proc: Linux only."""

import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_LOOKED_SECONDS = 0.05
_TICKS = os.sysconf("SC_CLK_TCK")
_THREADS = {"tasks": ("Executor task",), "compilers": (" Compiler",), "collectors": ("VM Thread", "GC Thread", "G1 ")}


@dataclass(frozen=True)
class Cost:
    """The cost of a process and its descendants."""

    cpu: float
    """CPU seconds."""
    wall: float
    """Seconds from its start to its end."""


def hourline(project: Path, *arguments: str) -> list[str]:
    """The command line of Hourline on a project."""
    return [sys.executable, "-m", "hourline", *arguments, "--project", str(project)]


def cost_of(command: Sequence[str], env: Mapping[str, str] | None = None) -> Cost:
    """Run ``command`` to its end. Raises AssertionError, with its last output, when it fails."""
    began = time.monotonic()
    used = _watch(command, lambda used: None, env)
    return Cost(used, time.monotonic() - began)


def cost_of_each(command: Sequence[str], count: Callable[[], int]) -> list[float]:
    """Run ``command`` to its end. Returns the CPU seconds before each step of ``count``, which counts what it has done.
    The first ones include its start, and what it does after the last step is left out. Raises as ``cost_of`` does.
    """
    at, seen = [0.0], [count()]

    def look(used: float) -> None:
        if (steps := count()) > seen[-1]:
            seen.append(steps)
            at.append(used)

    _watch(command, look)
    assert [*range(seen[0], count() + 1)] == seen, "two steps in one look"
    return [end - begin for begin, end in itertools.pairwise(at)]


def _watch(command: Sequence[str], look: Callable[[float], None], env: Mapping[str, str] | None = None) -> float:
    """Run ``command`` to its end, and call ``look`` with the CPU seconds used so far, again and again. Returns all."""
    process = subprocess.Popen(
        command, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    seconds: dict[int, float] = {}
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_LOOKED_SECONDS):
            seconds.update(cpu_seconds(process.pid))
            look(sum(seconds.values()))

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    said, _ = process.communicate()
    ended.set()
    watching.join()
    assert process.returncode == 0, said.decode(errors="replace")[-3000:]
    return sum(seconds.values())


def cpu_seconds(ancestor: int, *, with_ended: bool = False) -> dict[int, float]:
    """By process id, what ``ancestor`` and its descendants have used so far; ``with_ended``: and those of their
    children that have ended.
    """
    parents, used = {}, {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = file.read_text().rpartition(")")[2].split()
            parents[int(file.parent.name)] = int(fields[1])
            used[int(file.parent.name)] = sum(int(ticks) for ticks in fields[11 : 15 if with_ended else 13]) / _TICKS
    return {pid: used[pid] for pid in _family(ancestor, parents) & used.keys()}


@dataclass(frozen=True)
class JavaTime:
    """CPU seconds of the Java processes of a family."""

    whole: float
    tasks: float
    """Of the threads that run Spark's tasks."""
    compilers: float
    collectors: float
    """Of garbage collection, whoever left the garbage."""

    @property
    def rest(self) -> float:
        """What Spark's driver itself does: planning, commits, and passing on what tasks return."""
        return self.whole - self.tasks - self.compilers - self.collectors

    def since(self, before: "JavaTime") -> "JavaTime":
        """What was used after ``before``."""
        return JavaTime(
            self.whole - before.whole,
            self.tasks - before.tasks,
            self.compilers - before.compilers,
            self.collectors - before.collectors,
        )


class JavaThreads:
    """The CPU seconds of Java in ``ancestor`` and its descendants, by kinds of threads. Threads come and go."""

    def __init__(self, ancestor: int) -> None:
        self._ancestor = ancestor
        self._seconds: dict[str, dict[str, float]] = {kind: {} for kind in _THREADS}

    def used(self) -> JavaTime:
        """What was used so far. Of threads that have ended, what a call has seen."""
        whole = 0.0
        for pid, seconds in cpu_seconds(self._ancestor).items():
            with suppress(OSError):  # The process may have ended meanwhile.
                if Path(f"/proc/{pid}/comm").read_text().strip() == "java":
                    whole += seconds
                    for thread in Path(f"/proc/{pid}/task").iterdir():
                        self._read(thread / "stat")
        return JavaTime(whole, **{kind: sum(of.values()) for kind, of in self._seconds.items()})

    def _read(self, file: Path) -> None:
        with suppress(OSError):  # The thread may have ended.
            name, _, rest = file.read_text().rpartition(")")
            if (kind := thread_kind(name.partition("(")[2])) is not None:
                self._seconds[kind][str(file)] = sum(int(ticks) for ticks in rest.split()[11:13]) / _TICKS


def thread_kind(name: str) -> str | None:
    """The kind of a Java thread, by the 15 characters of its name that Linux keeps. None: another one."""
    return next((kind for kind, parts in _THREADS.items() if any(part in name for part in parts)), None)


def megabytes(ancestor: int) -> dict[int, float]:
    """By process id, the proportional share of memory (PSS) of ``ancestor`` and its descendants, in MB (of a million
    bytes).
    """
    parents = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(file.parent.name)] = int(file.read_text().rpartition(")")[2].split()[1])
    found = {}
    for pid in _family(ancestor, parents):
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            found[pid] = next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024 / 1e6
    return found


def _family(ancestor: int, parents: Mapping[int, int]) -> set[int]:
    family = {ancestor}
    while found := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= found
    return family
