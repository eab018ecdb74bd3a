"""A lock whose file is deleted under its holder: the holder takes it again, and nobody else slips in unnoticed."""

import fcntl
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hourline_core.errors import ConflictError
from hourline_core.runtime.file_lock import hold_lock, holder
from tests.support.speed_process import PATIENCE

OTHER = """\
import sys
from pathlib import Path
from hourline_core.runtime.file_lock import hold_lock
with hold_lock(Path(sys.argv[1]), "is the other one"):
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_a_deleted_lock_is_taken_again(tmp_path: Path) -> None:
    path = tmp_path / "run" / "speed.lock"
    with hold_lock(path, "is here") as held:
        assert not held.renew()
        shutil.rmtree(path.parent)
        assert holder(path) is None
        assert held.renew()
        assert not held.renew()
        assert holder(path) == os.getpid()
        with pytest.raises(ConflictError, match=f"process {os.getpid()} is here"), hold_lock(path, "is here"):
            pass
    assert holder(path) is None


def test_one_of_two_stops_when_the_other_has_recreated_the_deleted_lock(tmp_path: Path) -> None:
    path = tmp_path / "speed.lock"
    with hold_lock(path, "is here") as held:
        path.unlink()
        with subprocess.Popen(
            [sys.executable, "-c", OTHER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as other:
            assert other.stdout
            assert other.stdout.readline() == "held\n"
            with pytest.raises(ConflictError, match=f"process {other.pid} has recreated .*, which was deleted"):
                held.renew()
            other.communicate("\n")


def test_a_process_that_only_asks_whether_the_lock_is_free_stops_nobody(tmp_path: Path) -> None:
    path = tmp_path / "speed.lock"
    with hold_lock(path, "is here") as held:
        path.unlink()
        with hold_lock(path, "asks") as other:
            timer = threading.Timer(0.2, fcntl.flock, (other.fd, fcntl.LOCK_UN))
            timer.start()
            assert held.renew()
            timer.join()


def test_who_waits_is_not_let_in_by_the_deletion(tmp_path: Path) -> None:
    path = tmp_path / "speed.lock"
    waited, got_in = threading.Semaphore(0), threading.Event()

    def stand_by() -> None:
        with hold_lock(path, "", waiting=waited.release):
            got_in.set()

    with hold_lock(path, "is here") as held:
        standby = threading.Thread(target=stand_by)
        standby.start()
        assert waited.acquire(timeout=PATIENCE)
        path.unlink()
        assert held.renew()
        for _ in range(3):
            assert waited.acquire(timeout=PATIENCE), "it waits for the new file"
        assert not got_in.is_set()
    assert got_in.wait(PATIENCE)
    standby.join()
