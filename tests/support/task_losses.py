"""Kills processes of Spark while a speed layer counts, until one was in the middle of a task."""

import os
import re
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.support.speed_process import SpeedProcess, wait_until
from tests.support.stack_project import StackProject

_LOST = re.compile(r" WARN TaskSetManager: .*\bLost task ")


def kill_until_a_task_is_lost(
    speed: SpeedProcess, project: StackProject, source: str, pids: Callable[[], list[int]]
) -> int:
    """``kill -9`` all ``pids``, again after each micro-batch of ``source``, until Spark says that a task was lost with
    them. Returns the number of micro-batches that were finished by then.
    """
    log = project.project.workspace / "logs" / "spark-speed.log"
    finished, found = 0, list[int]()

    def has_lost() -> bool:
        assert speed.process.poll() is None, f"it has ended before a task was lost: {speed.lines}"
        return count_lost_tasks(log) > 0

    def has_gone_on() -> bool:
        found[:] = pids() if count_finished(project, source) > finished else []
        return bool(found)

    while not has_lost():
        wait_until(lambda: has_lost() or has_gone_on(), f"nothing to kill after {finished} micro-batches", 0.01)
        finished = count_finished(project, source)
        for pid in [] if has_lost() else found:
            with suppress(ProcessLookupError):  # it has ended by itself
                os.kill(pid, signal.SIGKILL)
    return finished


def count_lost_tasks(log: Path) -> int:
    """How often Spark has lost a task, by its log."""
    return len(_LOST.findall(log.read_text(errors="replace"))) if log.exists() else 0


def count_finished(project: StackProject, source: str) -> int:
    """The number of micro-batches of ``source`` that are finished."""
    if not any(Path(project.project.tables).glob(f"progress/{source}/_delta_log/*.json")):
        return 0
    return len({row["sequence"] for row in project.table("progress", source, ["sequence"])})
