"""A test run that is killed leaves nothing behind, whatever its tests have started."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.speed_process import alive

PATIENCE = 60.0

# What tests start in some way: of its own session, ended by its starter, deaf to SIGTERM, frozen, without the mark in a
# marked process's care.
STARTED = """
import signal, subprocess, sys, time

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
DEAF = [sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"]
PARENT = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:], env={}).pid, flush=True); import time; time.sleep(600)"


def test_it() -> None:
    pids = [subprocess.Popen(SLEEP, start_new_session=True).pid, subprocess.Popen(SLEEP).pid]
    frozen = subprocess.Popen(SLEEP)
    frozen.send_signal(signal.SIGSTOP)
    deaf = subprocess.Popen(DEAF, stdout=subprocess.PIPE)
    deaf.stdout.readline()
    parent = subprocess.Popen([sys.executable, "-c", PARENT, *SLEEP], stdout=subprocess.PIPE)
    pids += [frozen.pid, deaf.pid, parent.pid, int(parent.stdout.readline())]
    orphan = "import os, subprocess, sys; print(subprocess.Popen(sys.argv[1:], start_new_session=True, stdout=subprocess.DEVNULL).pid)"
    pids.append(int(subprocess.check_output([sys.executable, "-c", orphan, *SLEEP])))
    with open(1, "w", closefd=False) as said:
        print("started", *pids, file=said, flush=True)
    {end}
"""


@contextmanager
def ended_by_us(command: list[str], **options: Any) -> "Iterator[subprocess.Popen[str]]":
    """A process that ends with the block, also where an assertion fails there."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="the environment of a process is to be seen on Linux alone")
@pytest.mark.parametrize("ending", ["killed", "ended"])
def test_nothing_that_a_test_has_started_outlives_the_run(ending: str, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "from tests.support import leftovers\n\n\ndef pytest_configure() -> None:\n    leftovers.watch(grace_seconds=2)\n"
    )
    (tmp_path / "test_it.py").write_text(STARTED.replace("{end}", "time.sleep(600)" if ending == "killed" else "pass"))
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "test_it.py"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])}
    # Of this run, not of that one.
    with (
        ended_by_us(["sleep", "600"]) as other,
        ended_by_us(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as run,
    ):
        assert run.stdout
        pids = next([int(pid) for pid in line.split()[1:]] for line in run.stdout if line.startswith("started"))
        assert len(pids) == 7
        if ending == "killed":
            assert alive(pids) == sorted(pids)
            run.kill()
        run.wait(PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while left := alive(pids):
            assert time.monotonic() < deadline, f"{left} of {pids} are left"
            time.sleep(0.1)
        assert alive([other.pid]), "what another run has started goes on"
