"""Runs a process that drains a topic and reports its progress at each commit, and computes its CPU time per event."""

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.processes import CompilerTime, cpu_seconds

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


def drained(command: Sequence[str], events: int, first: int) -> Drained:
    """Run ``command``, which drains ``events``, to its end.

    Raises AssertionError when it fails, or has not reported all events.
    """
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    commits: list[tuple[int, float, float]] = []
    compiler = CompilerTime(process.pid)
    said, read = [], 0
    with process:
        try:
            for line in process.stdout or ():
                said.append(line)
                if match := _RECORDS.search(line):
                    read += int(match[1].replace(",", ""))
                    used = sum(cpu_seconds(process.pid, with_ended=True).values())
                    commits.append((read, used, compiler.seconds()))
        except BaseException:
            process.terminate()
            raise
    assert process.returncode == 0, "".join(said)[-3000:]
    assert read == events, f"{read:,} of {events:,} events were drained: {''.join(said)[-3000:]}"
    at_first, at_last = next(commit for commit in commits if commit[0] >= first), commits[-1]
    assert at_first < at_last, (
        f"one commit brought all events after the first {first:,}: too few to tell what one takes"
    )
    used = at_last[1] - at_first[1]
    compiling = (at_last[2] - at_first[2]) / used
    return Drained(events / at_last[1], (events - at_first[0]) / used, at_first[1], compiling)
