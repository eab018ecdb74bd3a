"""Services in the background: two that start one at once, and one that is told to stop while it waits."""

import errno
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hourline_core.errors import HourlineError, SetupError, StartTimeoutError
from hourline_core.model import Project, Settings
from hourline_core.runtime import background
from hourline_core.runtime.background import SPEED, address_of, start, stop
from hourline_core.runtime.file_lock import hold_lock, is_alive
from hourline_core.runtime.lease import lease, lease_holder
from tests.support.command_line import NO_KAFKA, PROJECT
from tests.support.project_files import write_project
from tests.support.speed_process import PATIENCE, wait_until

Popen = subprocess.Popen[bytes]
SERVICE = """\
import signal, sys, threading
from pathlib import Path
from hourline_core.runtime.background import announce
from hourline_core.runtime.lease import lease
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
workspace, ends, ready = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[-1])
with lease(workspace, "speed"), (workspace / "started").open("a") as file:
    print("started", file=file, flush=True)
    if ends:
        print("hourline: its reason", file=sys.stderr)
        sys.exit(int(ends))
    while not (workspace / "go").exists() and not stop.wait(0.01):
        pass
    if not stop.is_set():
        announce(ready, "127.0.0.1:1234")
        stop.wait()
"""
UP = """\
import signal, sys
from pathlib import Path
from hourline.cli import main
from hourline_core.runtime import background
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell runs in the background ignores it
_, folder, script = sys.argv
background._command = lambda project, service: [sys.executable, "-c", script, str(project.workspace), ""]
sys.argv = ["hourline", "up", "--project", folder]
main()
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    return faked(Project(tmp_path, Settings(), {}, {}), monkeypatch)


def faked(project: Project, monkeypatch: pytest.MonkeyPatch, ends: str = "") -> Project:
    """``project``, whose service is a stand-in. It is ready once there is a file `go`, or ends with a status."""
    command = [sys.executable, "-c", SERVICE, str(project.workspace), ends]
    monkeypatch.setattr(background, "_command", lambda project, service: command)
    return project


def started(project: Project) -> int:
    file = project.workspace / "started"
    return len(file.read_text().splitlines()) if file.exists() else 0


def test_of_two_starts_at_once_one_starts_and_both_say_where(project: Project) -> None:
    said: list[str] = []
    began, waits = threading.Event(), threading.Event()

    def begin() -> None:
        said.append("starting")
        began.set()

    with ThreadPoolExecutor(2) as pool:
        addresses = [pool.submit(start, project, SPEED, begin, waits.set) for _ in range(2)]
        assert began.wait(PATIENCE)
        told = waits.wait(PATIENCE)
        (project.workspace / "go").touch()
        assert {address.result(60) for address in addresses} == {"127.0.0.1:1234"}
    assert (len(said), started(project), told) == (1, 1, True)
    assert start(project, SPEED, begin) == "127.0.0.1:1234"
    assert len(said) == 1
    assert stop(project, SPEED)
    assert address_of(project, SPEED) is None


def test_who_waits_for_the_start_of_another_one_does_not_wait_for_ever(project: Project) -> None:
    impatient = replace(SPEED, start_seconds=0.1)
    starting = project.workspace / "run" / "speed-start.lock"
    with (
        hold_lock(starting, ""),
        pytest.raises(StartTimeoutError, match=f"process {os.getpid()} has been starting the speed layer for more"),
    ):
        start(project, impatient)
    assert started(project) == 0


@pytest.mark.parametrize("ends", [True, False])
def test_a_service_that_is_not_ready_in_time_has_ended_when_that_is_told(
    project: Project, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    services: list[Popen] = []

    class Kept(Popen):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            services.append(self)

        def terminate(self) -> None:
            if ends:
                super().terminate()

    monkeypatch.setattr(subprocess, "Popen", Kept)
    monkeypatch.setattr(background, "STOP_SECONDS", 20 if ends else 0.1)
    with pytest.raises(StartTimeoutError, match="was not ready within 0 s, and was stopped"):
        start(project, replace(SPEED, start_seconds=0.1))
    # A service that had come to its handler ends with 0.
    assert services[0].returncode in ((0, -signal.SIGTERM) if ends else (-signal.SIGKILL,))


def test_a_signal_in_the_middle_of_a_start_leaves_no_service(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    services: list[Popen] = []

    class Interrupted(Popen):
        """Ctrl-C comes when the child runs, and before anybody knows it."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            services.append(self)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell runs in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            start(project, SPEED)
    finally:
        signal.signal(signal.SIGINT, before)
    assert services[0].returncode is not None, "it was not waited for"


def test_an_address_that_a_power_cut_has_emptied_is_that_of_no_service(project: Project) -> None:
    ready = project.workspace / "run" / "speed.ready"
    ready.parent.mkdir(parents=True)
    ready.touch()
    with lease(project.workspace, "speed"):
        assert address_of(project, SPEED) is None


@pytest.mark.parametrize(("ends", "retryable"), [("75", True), ("1", False)])
def test_a_service_that_does_not_start_says_why(
    project: Project, monkeypatch: pytest.MonkeyPatch, ends: str, retryable: bool
) -> None:
    with pytest.raises(HourlineError, match="the speed layer did not start: its reason") as failed:
        start(faked(project, monkeypatch, ends), SPEED)
    assert failed.value.retryable == retryable


def test_a_service_of_another_user_is_told_as_such(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(pid: int, number: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    with lease(project.workspace, "speed"):
        monkeypatch.setattr(os, "kill", kill)
        with pytest.raises(SetupError, match=f"process {os.getpid()} runs as another user"):
            stop(project, SPEED)


@pytest.mark.parametrize("asked", [signal.SIGTERM, signal.SIGINT])
def test_who_waits_for_the_start_and_is_told_to_stop_stops_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: signal.Signals
) -> None:
    write_project(tmp_path, PROJECT)
    monkeypatch.setenv("KAFKA", NO_KAFKA)
    with subprocess.Popen([sys.executable, "-c", UP, tmp_path, SERVICE], stderr=subprocess.DEVNULL) as up:
        workspace = tmp_path / ".hourline"
        # `up` itself has the lease for a moment, to see that nobody else has it.
        wait_until(lambda: lease_holder(workspace, "speed") not in (None, up.pid), "the service does not run")
        service = lease_holder(workspace, "speed")
        os.kill(up.pid, asked)
        assert up.wait(PATIENCE) == 130
    assert service
    assert not is_alive(service), "`up` did not wait for its end"
