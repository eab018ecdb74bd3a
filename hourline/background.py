"""Kafka and the speed layer in the background: started by `up`, found again by `status` and `replay`, stopped by `down`."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from hourline.declarations import Project
from hourline.errors import ConflictError, HourlineError
from hourline.file_lock import is_alive
from hourline.lease import LeaseName, lease, lease_holder

START_SECONDS = 120
STOP_SECONDS = 60


def start(project: Project) -> str:
    """Start `hourline speed` as a process of its own and wait until it reads; returns Kafka's address.

    Raises ConflictError when it runs already, HourlineError with the last line of its log when it does not come up.
    """
    with lease(project.workspace, "speed"):
        pass  # somebody else holding it is told before a process is started in vain
    log = project.workspace / "logs" / "speed.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    ready = _ready_file(project)
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", "hourline", "speed", "--project", str(project.root), "--workspace", str(project.workspace)]
    with log.open("ab") as output:
        beginning = output.tell()
        process = subprocess.Popen(
            [*command, "--ready-file", str(ready)], stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    deadline = time.monotonic() + START_SECONDS
    while not ready.exists():
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            if time.monotonic() < deadline:
                continue
            process.terminate()
        raise HourlineError(f"the speed layer did not start: {_last_line(log, beginning)} (its log is {log})")
    return str(json.loads(ready.read_text())["kafka"])


def announce(ready: Path, kafka: str) -> None:
    """Called by the background process once it reads: leave Kafka's address where `start` waits for it."""
    partial = ready.with_suffix(".partial")
    partial.write_text(json.dumps({"kafka": kafka}))
    partial.rename(ready)


def stop(project: Project) -> bool:
    """Stop the speed layer, wherever it was started, and its standby, and wait until they are gone; False if none was running.

    Raises ConflictError when one does not end.
    """
    stood_by = _stop(project, "standby")  # first, or it would take over
    return _stop(project, "speed") or stood_by


def _stop(project: Project, name: LeaseName) -> bool:
    pid = lease_holder(project.workspace, name)
    if pid is None:
        return False
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while _alive(pid):
        if time.monotonic() > deadline:
            raise ConflictError(f"process {pid} has not stopped within {STOP_SECONDS} s; `kill -9 {pid}` is safe: nothing is lost or counted twice")
        time.sleep(0.05)
    return True


def _alive(pid: int) -> bool:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # if it is our own child, it would stay a zombie otherwise
    return is_alive(pid)


def _ready_file(project: Project) -> Path:
    return project.workspace / "run" / "speed.json"


def _last_line(log: Path, beginning: int) -> str:
    lines = [line.strip() for line in log.read_bytes()[beginning:].decode(errors="replace").splitlines() if line.strip()]
    said = [line for line in lines if line.startswith("hourline: ")]
    return (said or lines or ["it said nothing"])[-1].removeprefix("hourline: ")
