"""`hourline speed --standby`: waits warm, takes over however the first one ended, and nothing is lost or counted twice."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from hourline_core.runtime.lease import lease_holder
from tests.support import parcels
from tests.support.command_line import hourline
from tests.support.project_files import write_project
from tests.support.speed_process import SpeedProcess, records_arriving, wait_until


def test_a_standby_takes_over_from_one_that_was_killed_and_from_one_that_was_stopped(
    kafka: str, tmp_path: Path
) -> None:
    project = parcels.make(tmp_path, kafka, topic="standby")
    with SpeedProcess(project) as first, SpeedProcess(project, "--standby") as second, records_arriving(project):
        first.wait_until_ready()
        second.wait_for("standing by")
        with SpeedProcess(project, "--standby") as one_too_many:
            assert one_too_many.wait() == 75
            one_too_many.wait_for(f"process {second.process.pid} is already the standby")
        first.wait_for(" records")
        first.process.send_signal(signal.SIGKILL)
        second.wait_until_ready()
        second.wait_for(" records")
        with SpeedProcess(project, "--standby") as third:
            third.wait_for("standing by")
            second.process.send_signal(signal.SIGTERM)
            third.wait_until_ready()
            assert second.wait() == 0, second.lines
            third.wait_for(" records")
            third.process.send_signal(signal.SIGTERM)
            assert third.wait() == 0, third.lines
    project.drain()
    assert len(project.sent["scans"]) > 100
    assert project.check() > 300
    project.recompute()
    assert project.check() > 300


def test_a_standby_starts_the_embedded_kafka_again_and_down_stops_it_too(tmp_path: Path) -> None:
    write_project(tmp_path, {**parcels.FILES, "hourline.yaml": "spark: {master: 'local[2]'}\n"})
    write_project(tmp_path, {"scan.jsonl": json.dumps({"depot": "north", "at": "2024-05-06T20:00:00Z"})})
    try:
        hourline("up", folder=tmp_path, status=0)
        hourline("replay", "scan.jsonl", "--source", "scans", folder=tmp_path, status=0)
        first = lease_holder(tmp_path / ".hourline", "speed")
        assert first
        second = stand_by(tmp_path)
        assert f"(process {first}); process {second.pid} stands by" in status(tmp_path)["speed"]
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: "ready;" in said_by(second, tmp_path), "it does not take over")
        hourline("replay", "scan.jsonl", "--source", "scans", folder=tmp_path, status=0)
        wait_until(lambda: status(tmp_path)["sources"][0]["lag"] == 0, "it does not read on")
        assert status(tmp_path)["sources"][0]["accepted"] == 2
        third = stand_by(tmp_path)
    finally:
        hourline("down", folder=tmp_path, status=0)
    assert (second.wait(), third.wait()) == (0, 0)
    assert "taking over" not in said_by(third, tmp_path)


def stand_by(folder: Path) -> "subprocess.Popen[bytes]":
    """A standby for the project in ``folder``, once it is ready."""
    command = [sys.executable, "-m", "hourline", "speed", "--standby", "--project", str(folder)]
    with (folder / "standby.log").open("wb") as log:
        standby = subprocess.Popen(command, stdout=log, stderr=log)
    (folder / "standby.log").rename(folder / f"{standby.pid}.log")
    wait_until(lambda: "standing by" in said_by(standby, folder), "it does not stand by")
    return standby


def said_by(standby: "subprocess.Popen[bytes]", folder: Path) -> str:
    return (folder / f"{standby.pid}.log").read_text()


def status(folder: Path) -> Any:
    return json.loads(hourline("status", "--format", "json", folder=folder, status=0))
