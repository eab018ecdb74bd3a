"""Leases: at most one process at a time writes a set of tables.

A lease is a file lock in the workspace. It ends with its process, for whatever reason that ends. It keeps processes on
one machine apart, with a clear message. Against all other writers, the tables are protected by their commits: each
succeeds only on the expected version.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

from hourline_core.runtime.file_lock import HeldLock, hold_lock, holder

LeaseName = Literal["speed", "standby", "batch", "airflow", "sinks"]

_DOING: dict[LeaseName, str] = {
    "speed": (
        "runs the speed layer of {workspace}, imports files or maintains tables there; "
        "stop it with `hourline down`, or use another --workspace"
    ),
    "standby": "is already the standby for the speed layer of {workspace}; only one is allowed",
    "sinks": "sends the results of {workspace} to its sinks; stop it with `hourline down`, or use another --workspace",
    "airflow": "runs the Airflow of {workspace}; stop it with `hourline airflow down`, or use another --workspace",
    "batch": (
        "recomputes hours of {workspace}, or maintains tables there; wait until it is done, or stop it with Ctrl-C"
    ),
}


@contextmanager
def lease(workspace: Path, name: LeaseName, waiting: Callable[[], None] | None = None) -> Iterator[HeldLock]:
    """Hold a lease within the block.

    Raises ConflictError, with the process id, when another process holds it. With ``waiting``, waits instead, and calls
    ``waiting`` repeatedly, which may raise to give up.
    """
    with hold_lock(_file(workspace, name), _DOING[name].format(workspace=workspace), waiting) as held:
        yield held


@contextmanager
def turn(workspace: Path, name: LeaseName, on_wait: Callable[[int], None]) -> Iterator[None]:
    """Hold a lease within the block. While another process holds it, waits, and calls ``on_wait`` once with its id.

    A process first takes the place of the next holder, and gives that place up once it has the lease. So a process that
    releases the lease and wants it again comes after one that already waits.
    """
    reported = False

    def waiting() -> None:
        nonlocal reported
        other = None if reported else lease_holder(workspace, name)
        if other is not None:
            reported = True
            on_wait(other)

    with ExitStack() as next_place:
        next_place.enter_context(hold_lock(_file(workspace, f"{name}-next"), "", waiting))
        with lease(workspace, name, waiting):
            next_place.close()
            yield


def lease_holder(workspace: Path, name: LeaseName) -> int | None:
    """The id of the process that holds the lease, or None."""
    return holder(_file(workspace, name))


def _file(workspace: Path, name: str) -> Path:
    return workspace / "run" / f"{name}.lock"
