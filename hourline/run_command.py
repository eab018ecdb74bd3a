"""Runs the command line in a process of its own, for a task of Airflow and for Python. It ends with its caller."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from hourline_core.runtime.supervised import Supervised

_ERROR = "hourline: "
"""The beginning of a line with which the command line reports an error."""


class Ended(NamedTuple):
    """How a command has ended."""

    status: int
    """Its exit status; see ``exit_status.py``."""
    sentence: str
    """Its error in one sentence, or a line for each mistake of a declaration. Empty: it has told none."""


def run_command(
    arguments: Sequence[str], folder: Path, workspace: Path, say: Callable[[str], None], cwd: Path | None = None
) -> Ended:
    """Run a command of ``hourline`` on the project in ``folder``. ``say`` gets its lines as they come. Raises
    SetupError if it cannot be started.
    """
    reading, writing = os.pipe()
    try:
        # Its watchdog ends the command and its Java when this process ends, even by kill -9.
        process = Supervised(_command(arguments, folder, workspace), log=writing, cwd=cwd)
    finally:
        os.close(writing)
    with process, os.fdopen(reading, encoding="utf-8", errors="replace") as output:
        told: list[str] = []
        for line in filter(str.strip, output):
            say(line.rstrip())
            if line.startswith(_ERROR) or told:  # What follows an error belongs to it.
                told.append(line.removeprefix(_ERROR).rstrip())
        return Ended(process.wait(), "\n".join(told))


def _command(arguments: Sequence[str], folder: Path, workspace: Path) -> list[str]:
    project = ("--project", str(folder), "--workspace", str(workspace))
    # Without -P, a file of the project could take the place of a module.
    return [sys.executable, "-P", "-m", "hourline", *arguments, *project]
