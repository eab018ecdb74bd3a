"""Leases: at most one process writes a set of tables at a time.

A lease is a lock on a file in the workspace, gone the moment its process is, however that died. It keeps honest processes on one machine apart with a
clear message; what protects the tables from all others is that every commit is made on the expected version or not at all.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from hourline.file_lock import holder, locked

LeaseName = Literal["speed", "batch"]

_DOING: dict[LeaseName, str] = {
    "speed": "runs the speed layer of {workspace}; stop it with `hourline down`, or use another --workspace",
    "batch": "recomputes hours of {workspace}; wait until it is done, or stop it with Ctrl-C",
}


@contextmanager
def lease(workspace: Path, name: LeaseName) -> Iterator[None]:
    """Hold a lease within the block. Raises ConflictError, which says who holds it, when another process does."""
    with locked(_file(workspace, name), _DOING[name].format(workspace=workspace)):
        yield


def lease_holder(workspace: Path, name: LeaseName) -> int | None:
    """The id of the process that holds the lease; None when it is free."""
    return holder(_file(workspace, name))


def _file(workspace: Path, name: LeaseName) -> Path:
    return workspace / "run" / f"{name}.lock"
