"""What runs in the background: Kafka and the speed layer, started by `up`, and Airflow, started by `airflow up`.

Each is the command that would run in the foreground, as a process of its own that holds a lease for its life; it is
found again by that, and stopped by `down` and `airflow down`.
"""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hourline_core.errors import ConflictError, HourlineError, StartTimeoutError
from hourline_core.model import Project
from hourline_core.runtime.file_lock import is_alive
from hourline_core.runtime.lease import LeaseName, lease, lease_holder

STOP_SECONDS = 60


@dataclass(frozen=True)
class Service:
    """A command that runs until it is stopped."""

    name: LeaseName
    """Of its lease, and of its log."""
    command: tuple[str, ...]
    """The arguments of ``hourline``."""
    what: str
    start_seconds: float


SPEED = Service("speed", ("speed",), "the speed layer", 300)
AIRFLOW = Service("airflow", ("airflow", "run"), "Airflow", 300)


def start(project: Project, service: Service) -> str:
    """Start a service as a process of its own and wait until it is ready; returns the address that it announces.

    Raises ConflictError when it runs already, StartTimeoutError when it is not ready in time,
    HourlineError with the last line of its log when it does not come up.
    """
    with lease(project.workspace, service.name):
        pass  # somebody else holding it is told before a process is started in vain
    log = project.workspace / "logs" / f"{service.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    ready = _ready_file(project, service)
    ready.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "hourline",
        *service.command,
        "--project",
        str(project.root),
        "--workspace",
        str(project.workspace),
    ]
    with log.open("ab") as output:
        beginning = output.tell()
        process = subprocess.Popen(
            [*command, "--ready-file", str(ready)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    deadline = time.monotonic() + service.start_seconds
    try:
        while not ready.exists():
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
                break
            if time.monotonic() > deadline:
                process.terminate()
                raise StartTimeoutError(
                    f"{service.what} was not ready within {service.start_seconds:.0f} s, and was stopped; "
                    f"it said: {_last_line(log, beginning)} (its log is {log}). "
                    f"`hourline {' '.join(service.command)}`, in the foreground, waits for as long as it takes"
                )
        else:
            return str(json.loads(ready.read_text())["address"])
    except KeyboardInterrupt:
        process.terminate()
        raise
    raise HourlineError(f"{service.what} did not start: {_last_line(log, beginning)} (its log is {log})")


def announce(ready: Path, address: str) -> None:
    """Called by the background process once it is ready: leave its address where `start` waits for it."""
    partial = ready.with_suffix(".partial")
    partial.write_text(json.dumps({"address": address, "pid": os.getpid()}))
    partial.rename(ready)


def address_of(project: Project, service: Service) -> str | None:
    """The address of a service that was started in the background, and is ready; None: it is not."""
    try:
        announced = json.loads(_ready_file(project, service).read_text())
    except FileNotFoundError:
        return None
    # The file stays behind when the process has ended.
    holder = lease_holder(project.workspace, service.name)
    return str(announced["address"]) if holder and announced.get("pid") == holder else None


def _ready_file(project: Project, service: Service) -> Path:
    return project.workspace / "run" / f"{service.name}.ready"


def stop(project: Project, service: Service) -> bool:
    """Stop a service, wherever it was started, and what stands by for it, and wait until they are gone; False if none
    was running.

    Raises ConflictError when one does not end.
    """
    stood_by = service is SPEED and _stop(project, "standby")  # first, or it would take over
    return _stop(project, service.name) or stood_by


def _stop(project: Project, name: LeaseName) -> bool:
    pid = lease_holder(project.workspace, name)
    if pid is None:
        return False
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while _alive(pid):
        if time.monotonic() > deadline:
            raise ConflictError(
                f"process {pid} has not stopped within {STOP_SECONDS} s; "
                f"`kill -9 {pid}` is safe: nothing is lost or counted twice"
            )
        time.sleep(0.05)
    return True


def _alive(pid: int) -> bool:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # if it is our own child, it would stay a zombie otherwise
    return is_alive(pid)


def _last_line(log: Path, beginning: int) -> str:
    lines = [
        line.strip() for line in log.read_bytes()[beginning:].decode(errors="replace").splitlines() if line.strip()
    ]
    said = [line for line in lines if line.startswith("hourline: ")]
    return (said or lines or ["it said nothing"])[-1].removeprefix("hourline: ")
