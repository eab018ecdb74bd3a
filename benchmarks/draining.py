"""Runs a process that drains a topic and reports its progress at each commit, and computes its CPU time per event."""

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.processes import JavaThreads, JavaTime, cpu_seconds

_RECORDS = re.compile(r"([\d,]+) records")


@dataclass(frozen=True)
class Drained:
    """The CPU time of draining a topic, for the process and its descendants."""

    whole: float
    """Events per CPU second, from the start of the process to its last commit."""
    warm: float
    """The same from the first commit at or after ``first`` events."""
    started: float
    """CPU seconds to that commit."""
    compiling: float
    """The share of Java's compilers in the CPU time after it."""
    driver: float
    """CPU µs per event after it, of the process itself, without its descendants."""
    java: float
    """CPU µs per event after it, of Java outside Spark's tasks, compilers and garbage collection."""
    collecting: float
    """The share of Java's garbage collection in the CPU time after it."""
    largest: int
    """The most records that one commit brought."""


@dataclass(frozen=True)
class _Commit:
    """What had been read and used, in CPU seconds, when a commit was reported."""

    read: int
    used: float
    driver: float
    java: JavaTime


def drained(command: Sequence[str], events: int, first: int, joined: str | None = None) -> Drained:
    """Run ``command``, which drains ``events``, to its end. What it reports of the source ``joined`` are no events of
    the topics, but their pairs.

    Raises AssertionError when it fails, or has not reported all events.
    """
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    commits: list[_Commit] = []
    java = JavaThreads(process.pid)
    said, read = [], 0
    with process:
        try:
            for line in process.stdout or ():
                said.append(line)
                if match := _RECORDS.search(line):
                    read += 0 if joined and f" {joined} #" in line else int(match[1].replace(",", ""))
                    used = sum(cpu_seconds(process.pid, with_ended=True).values())
                    commits.append(_Commit(read, used, cpu_seconds(process.pid)[process.pid], java.used()))
        except BaseException:
            process.terminate()
            raise
    assert process.returncode == 0, "".join(said)[-3000:]
    assert read == events, f"{read:,} of {events:,} events were drained: {''.join(said)[-3000:]}"
    return _cost(commits, events, first)


def _cost(commits: Sequence[_Commit], events: int, first: int) -> Drained:
    """What all ``commits`` took, and those after the start-up."""
    at_first, at_last = next(commit for commit in commits if commit.read >= first), commits[-1]
    assert at_first.read < at_last.read, (
        f"one commit brought all events after the first {first:,}: too few to tell what one takes"
    )
    used, warm = at_last.used - at_first.used, events - at_first.read
    java = at_last.java.since(at_first.java)
    return Drained(
        whole=events / at_last.used,
        warm=warm / used,
        started=at_first.used,
        compiling=java.compilers / used,
        driver=(at_last.driver - at_first.driver) / warm * 1e6,
        java=java.rest / warm * 1e6,
        collecting=java.collectors / used,
        largest=max(
            here.read - before for before, here in zip((0, *(one.read for one in commits)), commits, strict=False)
        ),
    )
