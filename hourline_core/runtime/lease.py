"""Leases: at most one process writes a set of tables at a time.

A lease is a lock on a file in the workspace, gone the moment its process is, however that died. It keeps honest
processes on one machine apart with a clear message; what protects the tables from all others is that every commit is
made on the expected version or not at all.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

from hourline_core.runtime.file_lock import holder, locked

LeaseName = Literal["speed", "standby", "batch", "airflow"]

_DOING: dict[LeaseName, str] = {
    "speed": (
        "runs the speed layer of {workspace}, imports files or maintains tables there; "
        "stop it with `hourline down`, or use another --workspace"
    ),
    "standby": "stands by already for the speed layer of {workspace}; one is enough",
    "airflow": "runs the Airflow of {workspace}; stop it with `hourline airflow down`, or use another --workspace",
    "batch": (
        "recomputes hours of {workspace}, or maintains tables there; wait until it is done, or stop it with Ctrl-C"
    ),
}


@contextmanager
def lease(workspace: Path, name: LeaseName, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold a lease within the block.

    When another process holds it, raises ConflictError, which says who; or, with ``waiting``, waits for it, and calls
    that meanwhile, time and again, which may raise to give up.
    """
    with locked(_file(workspace, name), _DOING[name].format(workspace=workspace), waiting):
        yield


@contextmanager
def turn(workspace: Path, name: LeaseName, on_wait: Callable[[int], None]) -> Iterator[None]:
    """Hold a lease within the block; while another process holds it, waits, and tells ``on_wait`` once which process
    that is.

    Who wants the lease is next in line first, and gives that place up once it has the lease. So one who gives the lease
    up and wants it again stands behind whoever has been waiting.
    """
    told = False

    def waiting() -> None:
        nonlocal told
        other = None if told else lease_holder(workspace, name)
        if other is not None:
            told = True
            on_wait(other)

    with ExitStack() as in_line:
        in_line.enter_context(locked(_file(workspace, f"{name}-next"), "", waiting))
        with lease(workspace, name, waiting):
            in_line.close()
            yield


def lease_holder(workspace: Path, name: LeaseName) -> int | None:
    """The id of the process that holds the lease; None when it is free."""
    return holder(_file(workspace, name))


def _file(workspace: Path, name: str) -> Path:
    return workspace / "run" / f"{name}.lock"
