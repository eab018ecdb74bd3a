"""Tells of late and failed runs: in Airflow's logs, and to the command that `schedule.alert` in hourline.yaml names."""

import logging
import os
import shlex
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hourline.airflow.settings import Settings

_TIMEOUT_SECONDS = 60

log = logging.getLogger("hourline")


def run_is_late(context: dict[str, Any], folder: str, command: str, deadline: str) -> None:
    """The callback of a deadline: ``command`` is told, as ``schedule.alert`` has it, in the project's ``folder``."""
    run = context["dag_run"]
    _alert(
        f"{run['dag_id']}: the run {run['dag_run_id']} is late; it was to be done within {deadline}", folder, command
    )


def run_failed(settings: Settings) -> Callable[[Any], None]:
    """The callback of a run in which a task has failed for good."""

    def tell(context: Any) -> None:
        _alert(
            f"{context['dag'].dag_id}: the run {context['run_id']} has failed",
            settings.folder,
            shlex.join(settings.schedule.alert),
        )

    return tell


def _alert(sentence: str, folder: str, command: str) -> None:
    log.error(sentence)
    if not command:
        return
    try:
        # In a session of its own, so that what it starts ends with it.
        process = subprocess.Popen([*shlex.split(command), sentence], cwd=folder, start_new_session=True)
    except OSError as error:
        log.error("the alert's command, schedule.alert in hourline.yaml, cannot be run: %s", error)
        return
    try:
        if status := process.wait(_TIMEOUT_SECONDS):
            log.error("the alert's command, %s, ended with status %s", command, status)
    except subprocess.TimeoutExpired:
        log.error("the alert's command, %s, was ended after %s s", command, _TIMEOUT_SECONDS)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
