"""Supervised commands: their exit status, and their end with all that they have started."""

import os
import signal
from pathlib import Path

import pytest

from hourline_core.errors import SetupError
from hourline_core.runtime.supervised import Supervised


def test_a_command_that_ignores_the_request_to_end_is_killed_with_what_it_started(tmp_path: Path) -> None:
    words = tmp_path / "words"
    os.mkfifo(words)
    script = 'trap "" TERM; exec >"$0"; sleep 1000 & echo ready; wait'
    command = Supervised(["sh", "-c", script, words], log=tmp_path / "log", grace=0.2)
    with words.open() as said:
        assert said.readline() == "ready\n"
        assert command.stop() == -signal.SIGKILL
        assert said.read() == ""  # the end is reached only when the inner command, which has it open too, is gone


def test_a_command_tells_its_exit_status_and_one_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    assert Supervised(["sh", "-c", "exit 3"], log=tmp_path / "log").wait() == 3
    with pytest.raises(SetupError, match=r"'no-such-command' could not be started: .*No such file"):
        Supervised(["no-such-command"], log=tmp_path / "log")
