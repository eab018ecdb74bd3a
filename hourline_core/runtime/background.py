"""Background services: Kafka, the speed layer and the sinks, started by `up`, and Airflow, started by `airflow up`.

Each service runs its foreground command in a separate process. The process holds a lease while it lives. `down` and
`airflow down` find the process by its lease, and stop it.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hourline_core.child_environment import child_environment
from hourline_core.errors import ConflictError, HourlineError, SetupError, StartTimeoutError
from hourline_core.model import Project
from hourline_core.runtime.announced import announced, ready_file
from hourline_core.runtime.file_lock import hold_lock, holder, is_alive
from hourline_core.runtime.lease import LeaseName, lease, lease_holder
from hourline_core.runtime.notes import read_note, write_note
from hourline_core.runtime.quirks import interrupts_deferred

STOP_SECONDS = 60


@dataclass(frozen=True)
class Service:
    """A command that runs until it is stopped."""

    name: LeaseName
    """The name of its lease and of its log."""
    command: tuple[str, ...]
    """The arguments of ``hourline``."""
    what: str
    start_seconds: float


SPEED = Service("speed", ("speed",), "the speed layer", 300)
SINKS = Service("sinks", ("send",), "the sinks", 60)
AIRFLOW = Service("airflow", ("airflow", "run"), "Airflow", 300)


def start(
    project: Project,
    service: Service,
    on_start: Callable[[], None] = lambda: None,
    on_wait: Callable[[], None] = lambda: None,
) -> str:
    """The address of a service, which is started in a separate process unless it runs. Of several calls at once, one
    starts it, and the others wait for that one. ``on_start`` is called before it is started, ``on_wait`` before such a
    wait.

    Raises ConflictError when it runs in the foreground, StartTimeoutError when it is not ready in time, and
    HourlineError with the last line of its log when it does not start.
    """
    starting = project.workspace / "run" / f"{service.name}-start.lock"
    deadline: float | None = None
    waited_for: int | None = None

    def waiting() -> None:
        nonlocal deadline, waited_for
        if deadline is None:
            on_wait()
        if deadline is None or (holder(starting) not in (waited_for, None)):
            waited_for, deadline = holder(starting), time.monotonic() + service.start_seconds
        if time.monotonic() > deadline:
            raise StartTimeoutError(
                f"process {waited_for} has been starting {service.what} for more than "
                f"{service.start_seconds:.0f} s; wait for it, or stop it"
            )

    with hold_lock(starting, "", waiting):
        if (address := address_of(project, service)) is not None:
            return address
        with lease(project.workspace, service.name):
            pass  # raises ConflictError before a process is started
        on_start()
        return _launch(project, service)


def _launch(project: Project, service: Service) -> str:
    log = project.workspace / "logs" / f"{service.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    ready = ready_file(project.workspace, service.name)
    ready.unlink(missing_ok=True)
    process: subprocess.Popen[bytes] | None = None
    try:
        with log.open("ab") as output, interrupts_deferred(signal.SIGINT, signal.SIGTERM):
            beginning = output.tell()
            process = subprocess.Popen(
                [*_command(project, service), "--ready-file", str(ready)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=child_environment(),
                start_new_session=True,
            )
        deadline = time.monotonic() + service.start_seconds
        while (said := read_note(ready)) is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
                break
            if time.monotonic() > deadline:
                raise StartTimeoutError(
                    f"{service.what} was not ready within {service.start_seconds:.0f} s, and was stopped; "
                    f"its last message: {_last_line(log, beginning)} (its log is {log}); "
                    f"`hourline {' '.join(service.command)}` runs it in the foreground, without a time limit"
                )
        else:
            return str(said["address"])
    except BaseException:  # also Ctrl-C and SIGTERM
        if process is not None:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()  # nothing is lost by that
                process.wait()
        raise
    error = HourlineError(f"{service.what} did not start: {_last_line(log, beginning)} (its log is {log})")
    error.retryable = process.returncode == os.EX_TEMPFAIL
    raise error


def _command(project: Project, service: Service) -> list[str]:
    return [
        sys.executable,
        "-P",  # A file in the current folder could take the place of a module.
        "-m",
        "hourline",
        *service.command,
        "--project",
        str(project.root),
        "--workspace",
        str(project.workspace),
    ]


def announce(ready: Path, address: str) -> None:
    """Write the address to the file that `start` waits for. The background process calls this when it is ready."""
    write_note(ready, {"address": address})


def address_of(project: Project, service: Service) -> str | None:
    """The address of a service that was started in the background, or None if it is not ready."""
    return announced(project.workspace, service.name)


def stop(project: Project, service: Service) -> bool:
    """Stop a service and its standby, wait until both have ended, and return whether any ran.

    It does not matter how they were started. Raises ConflictError when one does not end, and SetupError when it is
    another user's.
    """
    stopped_standby = service is SPEED and _stop(project, "standby")  # first, or it would take over
    return _stop(project, service.name) or stopped_standby


def _stop(project: Project, name: LeaseName) -> bool:
    pid = lease_holder(project.workspace, name)
    if pid is None:
        return False
    try:
        os.kill(pid, signal.SIGTERM)
    except PermissionError:
        raise SetupError(f"process {pid} runs as another user, who can stop it") from None
    deadline = time.monotonic() + STOP_SECONDS
    while _is_alive(pid):
        if time.monotonic() > deadline:
            raise ConflictError(
                f"process {pid} has not stopped within {STOP_SECONDS} s; "
                f"`kill -9 {pid}` is safe: nothing is lost or counted twice"
            )
        time.sleep(0.05)
    return True


def _is_alive(pid: int) -> bool:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # a child of this process would otherwise stay a zombie
    return is_alive(pid)


def _last_line(log: Path, beginning: int) -> str:
    lines = [
        line.strip() for line in log.read_bytes()[beginning:].decode(errors="replace").splitlines() if line.strip()
    ]
    messages = [line for line in lines if line.startswith("hourline: ")]
    return (messages or lines or ["there was no output"])[-1].removeprefix("hourline: ")
