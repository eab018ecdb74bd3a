"""Zombies with Spark: a speed layer, a recompute and a backfill that were frozen in the middle of a step, while another
did their work."""

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import serving_layer
from batch_layer.plan import plan_range
from hourline_core.model.hours import HourRange
from hourline_core.runtime.lease import lease_holder
from tests.support import parcels
from tests.support.frozen_process import FrozenProcess
from tests.support.speed_process import SpeedProcess
from tests.support.stack_project import StackProject

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def project(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> StackProject:
    """A project whose tables lie apart from the workspace, so that another workspace, which no lease reaches, can write
    to them too.
    """
    project = parcels.make(tmp_path_factory.mktemp("zombies"), kafka, topic="zombies", few=True)
    with (project.root / "hourline.yaml").open("a") as settings:
        settings.write("tables: .hourline/tables\nbatch: {hours_per_job: 1}\n")
    project.send("scans", parcels.scans(project.random, 300, first_hour=0, hours=5))
    project.drain()
    return project


@pytest.mark.long  # tests/protocol/test_zombies.py freezes the speed layer at its steps
def test_a_frozen_speed_layer_wakes_after_another_went_on(project: StackProject, tmp_path: Path) -> None:
    before = answers(project)
    project.send("scans", parcels.scans(project.random, 60, first_hour=0, hours=5))
    with FrozenProcess(
        hourline(project, "speed", tmp_path), "before append provisional", {"KAFKA": project.kafka}
    ) as zombie:
        with SpeedProcess(project, "--workspace", str(tmp_path)) as second:
            assert second.wait() == 75
            second.wait_for(f"process {zombie.process.pid} runs the speed layer")
        assert answers(project) == before
        project.drain()
        assert project.check() > 20
        status, said = zombie.wake()
    assert (status, "hourline: another process has written to the table at" in said) == (75, True), said
    assert project.check() > 20


@pytest.mark.long  # tests/protocol/test_zombies.py freezes publications at their steps
def test_a_frozen_recompute_wakes_after_another_published_the_same_hours(project: StackProject, tmp_path: Path) -> None:
    project.send("scans", parcels.scans(project.random, 60, first_hour=0, hours=2))
    project.drain()
    with FrozenProcess(
        hourline(project, "recompute", tmp_path), "before overwrite final 2", {"KAFKA": project.kafka}
    ) as zombie:
        assert project.check_answers() > 20
        project.recompute()
        assert project.check() > 20
        status, said = zombie.wake()
    assert (status, said.splitlines()[-1].startswith("hourline: another process has written to the table at")) == (
        75,
        True,
    ), said
    assert project.check() > 20


@pytest.mark.long
def test_a_backfill_lets_an_hourly_recompute_in_between_its_jobs(project: StackProject) -> None:
    first, second, third = (parcels.BEGIN + hours(n) for n in range(3))
    text = "%Y-%m-%dT%H"
    backfill_range, hourly_range = HourRange(first, third + hours(1)), HourRange(third, third + hours(1))
    backfill = hourline(project, "recompute", None, "--from", f"{first:{text}}", "--to", f"{backfill_range.end:{text}}")
    with FrozenProcess(backfill, "after overwrite coverage", {"KAFKA": project.kafka}) as frozen:
        assert lease_holder(project.project.workspace, "batch") == frozen.process.pid
        with SpeedProcess(
            project, "--from", f"{third:{text}}", "--to", f"{hourly_range.end:{text}}", command="recompute"
        ) as hourly:
            hourly.wait_for(f"waiting for process {frozen.process.pid}")
            status, said = frozen.wake()
            assert hourly.wait() == 0, hourly.lines
    assert status == 0, said
    assert f"waiting for process {hourly.process.pid}" in said
    assert "left out 1 hour(s), 2024-05-06T22:00Z" in said
    published = {row["hour"]: row["published"] for row in project.table("coverage", "") if row["metric"] == "flow"}
    assert published[first] < published[third] < published[second]
    project.recomputed(plan_range(project.project, backfill_range), {"scans": project.last_sequence("scans")})
    assert project.check() > 20


def answers(project: StackProject) -> list[tuple[Any, ...]]:
    with serving_layer.connect(project.project) as connection:
        return connection.sql("FROM fragile ORDER BY ALL").fetchall()


def hourline(project: StackProject, command: str, workspace: Path | None, *options: str) -> list[str]:
    """A command line that works on ``project``, from another workspace where one is given."""
    elsewhere = ["--workspace", str(workspace)] if workspace else []
    return [sys.executable, "-m", "hourline", command, "--project", str(project.root), *elsewhere, *options]


def hours(number: int) -> timedelta:
    return timedelta(hours=number)
