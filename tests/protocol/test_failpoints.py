"""kill -9 at every durable step there is: whoever starts next goes on, and no answer is wrong at any moment.

A kill before a step leaves what a kill after the step before it has left.
"""

import os
import random
import re
import signal
from pathlib import Path

import pytest

import hourline_core.storage
from hourline_core.model.hours import HOUR, wall_clock
from hourline_core.runtime import failpoints
from speed_layer.commit.maintenance import maintain_source
from tests.support.bare_tables import BareTables
from tests.support.failpoint_places import CHAIN
from tests.support.forked import start
from tests.support.frozen_process import PATIENCE

pytestmark = pytest.mark.heavy

HOURS = random.Random(7).choices(range(4), k=500)  # noqa: S311 (the same numbers each time)


@pytest.mark.parametrize(
    "places",
    [
        pytest.param([place for place in CHAIN if place.startswith("after") or place == CHAIN[0]], id="after"),
        pytest.param(CHAIN, id="before and after", marks=pytest.mark.long),
    ],
)
def test_killed_at_every_step_that_needs_no_spark(places: list[str], tmp_path: Path) -> None:
    tables = BareTables(tmp_path, HOURS)

    def run(place: str | None) -> int | None:
        process = start(work, tmp_path, place)
        process.join(PATIENCE)
        return process.exitcode

    for place in places:
        assert run(place) == -signal.SIGKILL, f"'{place}' was not reached"
        if " create " not in place:
            tables.check()
    assert run(None) == 0
    tables.check()
    assert set((tmp_path / "places").read_text().splitlines()) == set(CHAIN), "a step that nobody visits here"
    sources = [file.read_text() for file in Path(hourline_core.storage.__file__).parent.glob("*.py")]
    steps = {step for source in sources for step in re.findall(r'durable_step\("(\w+)"', source)} | {"create"}
    assert steps == {place.split()[1] for place in CHAIN}, "a kind of step that nobody visits here"


def work(folder: Path, place: str | None) -> None:
    """All that the product does, twice; killed at ``place``. Notes each place that it comes to in the file ``places``."""
    os.environ["HOURLINE_FAILPOINT"] = f"kill {place}"
    reached = failpoints.visit

    def noted(place: str) -> None:
        with (folder / "places").open("a") as places:
            places.write(f"{place}\n")
        reached(place)

    failpoints.visit = noted
    tables = BareTables(folder, HOURS)
    tables.start(*(["note"] if place is None or "widen" in place else []))
    for _ in range(2):
        tables.micro_batch(3)
        maintain_source(
            tables.project, tables.source_tables, kept_hours=0, clock=lambda: wall_clock() + HOUR
        )  # what is written now is old
        tables.publish(0, 1)
