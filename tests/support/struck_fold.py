"""`hourline`, whose tasks fold few events each, and one of them strikes in mid-fold: ``python -m
tests.support.struck_fold STRIKE MARK COMMAND ...``. The file MARK is there once it has.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from pyspark import TaskContext

from batch_layer.folding import tasks
from batch_layer.folding.shares import Share
from batch_layer.folding.tasks import work_on_shares
from hourline.cli import main
from tests.support.task_faults import tasks_of_few_events

_PATIENCE = 300.0
"""A bound on the wait of a task for its copy, in seconds."""


def kill_worker(driver: int) -> None:
    """Kill the Python worker of the task."""
    os.kill(os.getpid(), signal.SIGKILL)


def kill_executor(driver: int) -> None:
    """Kill the Java process whose daemon has started the worker."""
    parent = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]
    os.kill(int(parent), signal.SIGKILL)


def kill_driver(driver: int) -> None:
    """Kill the command."""
    os.kill(driver, signal.SIGKILL)


STRIKES: Mapping[str, Callable[[int], None]] = {
    "worker": kill_worker,
    "executor": kill_executor,
    "driver": kill_driver,
}
COPY = "copy"
"""A task waits until Spark runs a copy of it."""


def strike_once(strike: Callable[[int], None], mark: Path, driver: int) -> None:
    """Strike, unless a task of this command has."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return
    strike(driver)


def work_with_copy(mark: Path, plan: bytes, shares: Sequence[Share], numbers: Iterable[pa.RecordBatch]) -> bytes:
    """``work_on_shares``, whose first task waits for MARK, which its copy creates."""
    told, context = work_on_shares(plan, shares, numbers), TaskContext.get()
    assert context
    if context.partitionId() == 0:
        if context.attemptNumber():
            mark.touch()
        deadline = time.monotonic() + _PATIENCE
        while not mark.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
    return told


def work_and_strike(
    in_fold: Callable[[], None], plan: bytes, shares: Sequence[Share], numbers: Iterable[pa.RecordBatch]
) -> bytes:
    """``work_on_shares``, which calls ``in_fold`` once it has folded events."""
    add_tiles = tasks._Folder._add_tiles

    def add_and_strike(*of: Any) -> None:
        add_tiles(*of)
        in_fold()

    with patch.object(tasks._Folder, "_add_tiles", add_and_strike):
        return work_on_shares(plan, shares, numbers)


if __name__ == "__main__":
    _, strike, mark, *command = sys.argv
    sys.argv = ["hourline", *command]
    if strike == COPY:
        work = partial(work_with_copy, Path(mark))
    else:
        work = partial(work_and_strike, partial(strike_once, STRIKES[strike], Path(mark), os.getpid()))
    with tasks_of_few_events(), patch("batch_layer.folding.run.work_on_shares", work):
        main()
