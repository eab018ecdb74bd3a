"""`hourline up` and `down`: Kafka and the speed layer come back after kill -9, their lock after its deletion, and nothing
is left running.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hourline_core.runtime.lease import lease_holder
from tests.support import parcels
from tests.support.command_line import Failing, hourline
from tests.support.project_files import write_project
from tests.support.speed_process import alive, descendants, wait_until


@pytest.mark.parametrize("has_standbys", [False, pytest.param(True, marks=pytest.mark.long)])
def test_what_is_killed_comes_back_and_down_leaves_nothing_running(
    failing: Failing, tmp_path: Path, has_standbys: bool
) -> None:
    write_project(tmp_path, {**parcels.FILES, "hourline.yaml": "spark: {master: 'local[2]'}\n"})
    write_project(tmp_path, {"scan.jsonl": json.dumps({"depot": "north", "at": "2024-05-06T20:00:00Z"})})
    workspace = tmp_path / ".hourline"
    standbys: list[subprocess.Popen[bytes]] = []
    try:
        up = hourline("up", folder=tmp_path, status=0)
        assert "up: Kafka at 127.0.0.1:" in up
        first = lease_holder(workspace, "speed")
        assert first
        killed = broker_process(workspace)
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: broker_process(workspace) != killed, "the broker is not started again")
        family = [first, *descendants(first)]
        assert len(family) > 2, "the speed layer, its JVM and Kafka"
        assert hourline("up", folder=tmp_path, status=0) == up, "it is up already"
        assert lease_holder(workspace, "speed") == first
        shutil.rmtree(workspace / "run")  # with its lock, and where it and Kafka are to be found
        recreated = [workspace / "run" / name for name in ("speed.lock", "speed.ready", "broker.lock", "broker.json")]
        wait_until(lambda: all(path.exists() for path in recreated), "the lock is not recreated")
        assert hourline("up", folder=tmp_path, status=0) == up, "it is up, although its lock was deleted"
        assert "runs the speed layer" in failing.sentence("speed", folder=tmp_path, status=75)
        see_a_scan_counted(tmp_path, scans=1)
        if has_standbys:
            standbys = see_a_standby_take_over(tmp_path, first)
            family += [pid for one in standbys for pid in (one.pid, *descendants(one.pid))]
            os.kill(broker_process(workspace), signal.SIGSTOP)
    finally:
        hourline("down", folder=tmp_path, status=0)  # It fails if a stop waits for Kafka.
    if standbys:
        second, third = standbys
        assert (second.wait(), third.wait()) == (0, 0)
        assert said_by(second, tmp_path).endswith("stopped\n")
        assert "taking over" not in said_by(third, tmp_path)
    said = "".join([(workspace / "logs" / "speed.log").read_text(), *(said_by(one, tmp_path) for one in standbys)])
    assert not [line for line in said.splitlines() if line.startswith(("Traceback", "\tat "))]
    wait_until(lambda: not alive(family), f"{family} still run")
    assert "nothing was running" in hourline("down", folder=tmp_path, status=0)


def see_a_scan_counted(folder: Path, scans: int) -> None:
    """Send a scan to Kafka. With the earlier ones, it is one of ``scans``."""
    hourline("replay", "scan.jsonl", "--source", "scans", folder=folder, status=0)
    wait_until(lambda: status(folder)["sources"][0]["lag"] == 0, "it does not read on")
    assert status(folder)["sources"][0]["accepted"] == scans


def see_a_standby_take_over(folder: Path, first: int) -> "list[subprocess.Popen[bytes]]":
    """It starts Kafka again, which ends with the speed layer that has started it. Returns it, and another standby."""
    second = stand_by(folder)
    assert f"(process {first}); process {second.pid} stands by" in status(folder)["speed"]
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: "ready;" in said_by(second, folder), "it does not take over")
    see_a_scan_counted(folder, scans=2)
    return [second, stand_by(folder)]


def broker_process(workspace: Path) -> int:
    """The process id of the embedded broker."""
    return int(json.loads((workspace / "run" / "broker.json").read_text())["pid"])


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
