"""A failpoint ends the process at the visit that it names: in each process, or once in all processes of a run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

VISITS = "from hourline_core.runtime.failpoints import visit; [visit('in a task') for _ in range(3)]; print('through')"


def test_each_process_is_killed_at_the_visit_that_is_named() -> None:
    for failpoint, status in (
        ("kill in a task", -signal.SIGKILL),
        ("kill in a task 3", -signal.SIGKILL),
        ("kill in a task 4", 0),
        ("kill in another task", 0),
    ):
        for _ in range(2):
            assert visiting(HOURLINE_FAILPOINT=failpoint).returncode == status, failpoint


def test_one_process_of_a_run_is_killed_where_a_file_notes_it(tmp_path: Path) -> None:
    fired = tmp_path / "fired"
    run = {"HOURLINE_FAILPOINT": "kill in a task 2", "HOURLINE_FAILPOINT_FIRED": str(fired)}
    assert visiting(HOURLINE_FAILPOINT="kill elsewhere", HOURLINE_FAILPOINT_FIRED=str(fired)).returncode == 0
    assert not fired.exists()
    assert visiting(**run).returncode == -signal.SIGKILL
    assert fired.exists()
    again = visiting(**run)
    assert (again.returncode, again.stdout) == (0, "through\n")


def visiting(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", VISITS],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
