"""How the last speed layer has ended: told to stop, with a sentence, or killed."""

import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hourline_core.runtime.lease import lease
from hourline_core.runtime.speed_end import SpeedEnd, last_end, note_end, noting_end

AT = datetime(2024, 4, 1, tzinfo=UTC)
KILLED = """
import os, signal, sys
from pathlib import Path
from hourline_core.runtime.lease import lease
from hourline_core.runtime.speed_end import noting_end
with lease(Path(sys.argv[1]), "speed"), noting_end(Path(sys.argv[1])):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def fail(workspace: Path) -> None:
    with pytest.raises(ValueError, match="full"), noting_end(workspace):
        raise ValueError("full")


def test_an_end_that_nobody_wanted_is_kept_until_the_next_start(tmp_path: Path) -> None:
    assert last_end(tmp_path) is None
    fail(tmp_path)
    note_end(tmp_path, AT, "the disk is full")
    assert last_end(tmp_path) == SpeedEnd(AT, "the disk is full")
    with lease(tmp_path, "speed"), noting_end(tmp_path):
        assert last_end(tmp_path) is None
    assert last_end(tmp_path) is None


def test_a_note_that_a_power_cut_has_emptied_says_nothing(tmp_path: Path) -> None:
    fail(tmp_path)
    (note,) = (tmp_path / "run").glob("*.json")
    note.write_text("")
    assert last_end(tmp_path) is None


def test_a_stop_by_a_person_is_no_such_end(tmp_path: Path) -> None:
    fail(tmp_path)
    with pytest.raises(KeyboardInterrupt), noting_end(tmp_path):
        raise KeyboardInterrupt
    note_end(tmp_path, AT, "interrupted")
    assert last_end(tmp_path) is None


def test_a_killed_speed_layer_has_ended_without_a_word_and_no_other_process_has_one_for_it(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, tmp_path], check=False)
    assert ended.returncode == -signal.SIGKILL
    note_end(tmp_path, AT, "another command has failed")
    assert last_end(tmp_path) == SpeedEnd(None, None)
