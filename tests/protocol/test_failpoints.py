"""kill -9 at every durable step there is, before and after it: whoever starts next goes on, and no answer is wrong at
any moment.
"""

import multiprocessing
import os
import random
import re
import signal
import sys
from pathlib import Path

import pytest

import hourline_core.storage.tables
from hourline_core.model.hours import HOUR, wall_clock
from hourline_core.runtime import failpoints
from speed_layer.maintenance import maintain_source
from tests.support import parcels
from tests.support.bare_tables import BareTables
from tests.support.frozen_process import PATIENCE
from tests.support.speed_process import SpeedProcess
from tests.support.stack_project import StackProject

HOURS = random.Random(7).choices(range(4), k=500)  # noqa: S311 (the same numbers each time)

# One process after the other on the same tables, each killed at the next place. What it leaves is what the next one has
# to mend.
CHAIN = [
    *(
        f"{side} create {table}"
        for table in ("progress", "events", "rejected", "provisional")
        for side in ("before", "after")
    ),
    *(
        f"{side} fence {table}"
        for table in ("progress", "events", "rejected", "provisional")
        for side in ("before", "after")
    ),
    *(
        f"{side} create {table}"
        for table in ("coverage", "drift", "quality", "final", "staged")
        for side in ("before", "after")
    ),
    *(
        place
        for table in ("events", "rejected", "provisional")
        # Only what an unfinished micro-batch has left is cleared away.
        for place in (
            f"before append {table}",
            f"after append {table}",
            f"before delete {table}",
            f"after delete {table}",
        )
    ),
    "before append progress",
    "after append progress",
    *(
        f"{side} {step} {table}"
        for table in ("events", "rejected", "progress", "provisional")
        for step in ("compact", "vacuum")
        for side in ("before", "after")
    ),
    "before overwrite staged",
    "after overwrite staged",
    "before append drift",
    "after append drift",
    # Only what an unfinished publication has left is deleted.
    "before delete drift",
    "after delete drift",
    "before append quality",
    "after append quality",
    "before delete quality",
    "after delete quality",
    "before overwrite final",
    "after overwrite final",
    # Only what an unfinished publication has left is restored away.
    "before restore final",
    "after restore final",
    "before overwrite coverage",
    "after overwrite coverage",
    "before overwrite progress",
    "after overwrite progress",
    "before widen events",
    "after widen events",
]


def test_killed_at_every_step_that_needs_no_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    # Each process is a fork of one that has imported all this and done nothing yet.
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__])
    tables = BareTables(tmp_path, HOURS)

    def run(place: str | None) -> int | None:
        process = processes.Process(target=work, args=(tmp_path, place))
        process.start()
        process.join(PATIENCE)
        return process.exitcode

    for place in CHAIN:
        assert run(place) == -signal.SIGKILL, f"'{place}' was not reached"
        if " create " not in place:
            tables.check()
    assert run(None) == 0
    tables.check()
    assert set((tmp_path / "places").read_text().splitlines()) == set(CHAIN), "a step that nobody visits here"
    steps = set(re.findall(r'_step\("(\w+)"', Path(hourline_core.storage.tables.__file__).read_text())) | {"create"}
    assert steps == {place.split()[1] for place in CHAIN}, "a kind of step that nobody visits here"


def work(folder: Path, place: str | None) -> None:
    """All that the product does, twice; killed at ``place``. Notes each place that it comes to in the file ``places``."""
    os.environ["HOURLINE_FAILPOINT"] = f"kill {place}"
    reached = failpoints.reached

    def noted(place: str) -> None:
        with (folder / "places").open("a") as places:
            places.write(f"{place}\n")
        reached(place)

    failpoints.reached = noted
    tables = BareTables(folder, HOURS)
    tables.start(*(["note"] if place is None or "widen" in place else []))
    for _ in range(2):
        tables.micro_batch(3)
        maintain_source(
            tables.project, tables.source_tables, kept_hours=0, clock=lambda: wall_clock() + HOUR
        )  # what is written now is old
        tables.publish(0, 1)


@pytest.mark.stack
def test_a_recompute_killed_where_it_publishes(
    finished_project: StackProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = finished_project.copy(tmp_path)
    for place in ("after overwrite final", "after restore final"):
        monkeypatch.setenv("HOURLINE_FAILPOINT", f"kill {place}")
        with SpeedProcess(project, command="recompute") as process:
            assert process.wait() == -signal.SIGKILL, process.lines
        monkeypatch.delenv("HOURLINE_FAILPOINT")
        assert project.check_answers() > 100
    project.recompute()
    assert project.check() > 100


@pytest.mark.stack
def test_a_speed_layer_killed_at_every_commit_of_a_micro_batch(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = parcels.make(tmp_path, kafka, topic="killed_at_commits")
    # Before each of the others nothing is there, or what another one of them has left.
    for place in (
        "after append events",
        "after append rejected",
        "after append provisional",
        "before append progress",
        "after append progress",
    ):
        project.send("scans", parcels.scans(project.random, 30, first_hour=0, hours=3))
        project.send_refused("scans", [b"{", None])
        monkeypatch.setenv("HOURLINE_FAILPOINT", f"kill {place}")
        with SpeedProcess(project, "--drain") as process:
            assert process.wait() == -signal.SIGKILL, process.lines
        project.check_answers()
    monkeypatch.delenv("HOURLINE_FAILPOINT")
    project.drain()
    assert project.check() > 500
    project.recompute()
    assert project.check() > 500
