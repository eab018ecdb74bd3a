"""A refresh of a lookup that is killed, frozen or out of space leaves a whole version, and the next one goes on."""

import os
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from hourline import Project, load_project
from hourline_core.ledger.layout import Layout
from hourline_core.lookups.refresh import read_state, refresh
from hourline_core.lookups.versions import read_version
from hourline_core.model.hours import wall_clock
from tests.support.forked import start
from tests.support.frozen_process import PATIENCE, FrozenProcess
from tests.support.project_files import write_project

FILES = {
    "hourline.yaml": "",
    "sources/flights.yaml": "topic: flights\nfields: {tail: string, at: timestamp}\nevent_time: at\nlookups: {plane: tail}\n",
    "lookups/plane.yaml": "table: planes.csv\nkey: tail\ncolumns: {tail: string, seats: long}\n",
}
LONG_AGO = 30 * 86_400
PLACES = [
    f"{side} {step} lookups" for step in ("create", "write", "overwrite", "vacuum") for side in ("before", "after")
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_project(tmp_path / "air", FILES)


def write_planes(root: Path, seats: Sequence[int]) -> None:
    (root / "planes.csv").write_text("tail,seats\n" + "".join(f"N{number},{one}\n" for number, one in enumerate(seats)))


def seats_of(project: Project) -> list[int]:
    """Those of the newest version."""
    version = read_state(project, project.lookups["plane"]).version
    return (
        read_version(Layout.of(project), project.lookups["plane"], version.number)["seats"].to_pylist()
        if version
        else []
    )


def work(root: Path, failpoint: str) -> None:
    os.environ["HOURLINE_FAILPOINT"] = failpoint
    project = load_project(root)
    refresh(project, project.lookups["plane"], wall_clock)


def test_a_refresh_that_is_killed_leaves_the_version_before_or_the_new_one(root: Path) -> None:
    project, before = load_project(root), list[int]()
    for number, place in enumerate(PLACES):
        write_planes(root, [number, number])
        if "vacuum" in place:
            leave_old_file(project)
        killed = start(work, root, f"kill {place}")
        killed.join(PATIENCE)
        assert killed.exitcode == -signal.SIGKILL, f"'{place}' was not reached"
        has_committed = place in ("after overwrite lookups", "before vacuum lookups", "after vacuum lookups")
        before = [number, number] if has_committed else before
        assert seats_of(project) == before
    write_planes(root, [99])
    state = refresh(project, project.lookups["plane"], wall_clock)
    assert (seats_of(project), state.problem) == ([99], None)
    assert read_state(project, project.lookups["plane"]) == state


def leave_old_file(project: Project) -> None:
    """A file that a process had written and never committed."""
    left = Path(project.tables) / "lookups" / "plane" / "part-00000-left-c000.snappy.parquet"
    left.write_bytes(b"left")
    os.utime(left, (wall_clock().timestamp() - LONG_AGO,) * 2)


def test_a_frozen_refresh_does_not_put_older_rows_over_newer_ones(root: Path) -> None:
    project = load_project(root)
    write_planes(root, [1])
    command = [sys.executable, "-m", "hourline", "lookups", "--refresh", "--project", str(root)]
    with FrozenProcess(command, "before overwrite lookups") as frozen:
        write_planes(root, [2])
        refresh(project, project.lookups["plane"], wall_clock)
        status, said = frozen.wake()
    assert status == 0, said
    assert seats_of(project) == [2]


def test_a_refresh_without_space_leaves_the_version_before(root: Path) -> None:
    project = load_project(root)
    write_planes(root, [1])
    refresh(project, project.lookups["plane"], wall_clock)
    write_planes(root, [number * 7919**3 % 10**12 for number in range(40_000)])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
    try:
        state = refresh(project, project.lookups["plane"], wall_clock)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert state.problem
    assert "the rows of the lookup cannot be sorted" in state.problem
    assert "File too large" in state.problem
    assert seats_of(project) == [1]
    refresh(project, project.lookups["plane"], wall_clock)
    assert len(seats_of(project)) == 40_000
