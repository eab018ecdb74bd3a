"""Runs the command line in a task. Its output is the task's log, its exit status says whether trying again may help,
and it ends with the task.
"""

import json
import logging
import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from hourline.airflow.settings import Settings
from hourline.exit_status import BLOCKED, FOUND, NEEDS_A_PERSON
from hourline_core.runtime.supervised import Supervised

_ERROR = "hourline: "
"""The beginning of the sentence with which the command line reports an error."""

log = logging.getLogger("hourline")


def run_for_results(settings: Settings, *arguments: str) -> dict[str, Any]:
    """Run a command that takes ``--results``, as ``run_command`` does, and return what it wrote there."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.json"
        run_command(settings, *arguments, "--results", str(results))
        written: dict[str, Any] = json.loads(results.read_text())
        return written


def run_command(settings: Settings, *arguments: str) -> None:
    """Run a command of ``hourline``; its lines go to the task's log as they come.

    An hour that did not pass its audit, or a finding, is no failure of the command. Raises AirflowFailException when a
    person must do something first, so that trying again would not help; AirflowException otherwise.
    """
    log.info("hourline %s", shlex.join(arguments))
    reading, writing = os.pipe()
    try:
        # Its watchdog ends the command and its Java when this task ends, even by kill -9.
        process = Supervised(_command(settings, arguments), log=writing, cwd=Path(settings.folder))
    finally:
        os.close(writing)
    with process, os.fdopen(reading, encoding="utf-8", errors="replace") as output:
        sentence = "the lines above say why"
        for line in filter(str.strip, output):
            log.info("%s", line.rstrip())
            if line.startswith(_ERROR):
                sentence = line.removeprefix(_ERROR).rstrip()
        status = process.wait()
    if status not in (0, BLOCKED, FOUND):
        said = f"`hourline {arguments[0]}` ended with status {status}: {sentence}"
        raise AirflowFailException(said) if status in NEEDS_A_PERSON else AirflowException(said)


def _command(settings: Settings, arguments: Sequence[str]) -> list[str]:
    project = ("--project", settings.folder, "--workspace", settings.workspace)
    return [sys.executable, "-m", "hourline", *arguments, *project]
