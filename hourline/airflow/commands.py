"""Runs the command line in a task. Its output is the task's log, its exit status says whether trying again may help,
and it ends with the task.
"""

import json
import logging
import shlex
import tempfile
from pathlib import Path
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from hourline.airflow.settings import Settings
from hourline.exit_status import BLOCKED, FOUND, NEEDS_A_PERSON
from hourline.run_command import run_command as run_in_process

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
    folder = Path(settings.folder)
    ended = run_in_process(arguments, folder, Path(settings.workspace), log.info, cwd=folder)
    if ended.status not in (0, BLOCKED, FOUND):
        sentence = " ".join(ended.sentence.splitlines()) or "the lines above say why"
        said = f"`hourline {arguments[0]}` ended with status {ended.status}: {sentence}"
        raise AirflowFailException(said) if ended.status in NEEDS_A_PERSON else AirflowException(said)
