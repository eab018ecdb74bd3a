"""kill -9 at every durable step there is, before and after it: whoever starts next goes on, and no answer is wrong at any moment."""

import os
import random
import re
import signal
import subprocess
from pathlib import Path

import parcels
import pytest
from bare_tables import BareTables
from frozen_process import PATIENCE, bare
from speed_process import SpeedProcess
from stack_project import StackProject

import hourline.tables

HOURS = random.Random(7).choices(range(4), k=500)  # noqa: S311 (the same numbers each time)

# One process after the other on the same tables, each killed at the next place. What it leaves is what the next one has to mend.
CHAIN = [
    *(f"{side} create {table}" for table in ("events", "rejected", "progress", "provisional") for side in ("before", "after")),
    *(f"{side} fence {table}" for table in ("progress", "events", "rejected", "provisional") for side in ("before", "after")),
    *(f"{side} create {table}" for table in ("coverage", "final", "staged") for side in ("before", "after")),
    *(
        place
        for table in ("events", "rejected", "provisional")
        # Only what an unfinished micro-batch has left is cleared away.
        for place in (f"before append {table}", f"after append {table}", f"before delete {table}", f"after delete {table}")
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
    "before overwrite final",
    "after overwrite final",
    # Only what an unfinished publication has left is restored away.
    "before restore final",
    "after restore final",
    "before overwrite coverage",
    "after overwrite coverage",
    "before widen events",
    "after widen events",
]

# All that the product does, for as long as there are events; it tells each place that it comes to.
WORK = """
from hourline import failpoints
reached = failpoints.reached
def telling(place):
    with open(sys.argv[1] + "/places", "a") as places:
        places.write(place + "\\n")
    reached(place)
failpoints.reached = telling
tables.start(*NEW_FIELDS)
for _ in range(2):
    tables.micro_batch(3)
    keep_up(tables.project, tables.ledger, kept_hours=0)
    tables.publish(0, 1)
"""


def test_killed_at_every_step_that_needs_no_spark(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, HOURS)
    for place in CHAIN:
        assert run(tmp_path, place) == -signal.SIGKILL, f"'{place}' was not reached"
        if " create " not in place:
            tables.check()
    assert run(tmp_path, None) == 0
    tables.check()
    assert set((tmp_path / "places").read_text().splitlines()) == set(CHAIN), "a step that nobody visits here"
    steps = set(re.findall(r'_step\("(\w+)"', Path(hourline.tables.__file__).read_text())) | {"create"}
    assert steps == {place.split()[1] for place in CHAIN}, "a kind of step that nobody visits here"


def run(folder: Path, place: str | None) -> int:
    """Do the work until it is done or killed at ``place``; returns the exit status."""
    new_fields = ("note",) if place is None or "widen" in place else ()
    environment = {**os.environ, **({"HOURLINE_FAILPOINT": f"kill {place}"} if place else {})}
    command = bare(folder, HOURS, WORK.replace("NEW_FIELDS", repr(new_fields)))
    return subprocess.run(command, env=environment, timeout=PATIENCE, check=False).returncode


@pytest.mark.stack
def test_killed_at_the_steps_of_the_real_processes(kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = parcels.make(tmp_path, kafka, topic="failpoints", records_per_batch=40)
    project.send_refused("scans", [b"{", None])
    project.send("scans", parcels.scans(project.random, 300, first_hour=0, hours=5))
    for place in ("after create progress", "after append events 2", "before append provisional 3", "before append progress 2"):
        killed(project, monkeypatch, "speed", place)
    project.drain()
    assert project.check() > 100
    project.send("scans", parcels.scans(project.random, 50, first_hour=0, hours=2))
    for place in ("after overwrite final", "after restore final", "before overwrite coverage"):
        killed(project, monkeypatch, "recompute", place)
        assert project.check_answers() > 100
    project.drain()
    project.recompute()
    assert project.check() > 100


def killed(project: StackProject, monkeypatch: pytest.MonkeyPatch, command: str, place: str) -> None:
    """Run ``command`` until it is killed at ``place``."""
    monkeypatch.setenv("HOURLINE_FAILPOINT", f"kill {place}")
    with SpeedProcess(project, *(["--drain"] if command == "speed" else []), command=command) as process:
        assert process.wait() == -signal.SIGKILL, process.lines
    monkeypatch.delenv("HOURLINE_FAILPOINT")
