"""Reports late and failed runs: in Airflow's logs, and to the command in `schedule.alert` of hourline.yaml."""

import logging
import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from airflow.sdk.definitions.callback import SyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

_TIMEOUT_SECONDS = 60

log = logging.getLogger("hourline")


def late_run_alert(folder: str, command: Sequence[str], deadline: timedelta) -> DeadlineAlert:
    """Reports a run that is not done ``deadline`` after it was due, to ``command``, which runs in the project's
    ``folder``.
    """
    arguments = {"folder": folder, "command": shlex.join(command), "deadline": str(deadline)}
    return DeadlineAlert(DeadlineReference.DAGRUN_QUEUED_AT, deadline, SyncCallback(run_is_late, arguments))


def run_is_late(context: dict[str, Any], folder: str, command: str, deadline: str) -> None:
    """The function that Airflow calls for a late run. It finds it by name."""
    run = context["dag_run"]
    sentence = f"{run['dag_id']}: the run {run['dag_run_id']} is late; it was to be done within {deadline}"
    _alert(sentence, folder, shlex.split(command))


def on_failed_run(folder: str, command: Sequence[str]) -> Callable[[Any], None]:
    """The callback of a run in which a task has failed for good."""

    def tell(context: Any) -> None:
        _alert(f"{context['dag'].dag_id}: the run {context['run_id']} has failed", folder, command)

    return tell


def _alert(sentence: str, folder: str, command: Sequence[str]) -> None:
    log.error(sentence)
    if not command:
        return
    try:
        # In a session of its own, so that everything it starts ends with it.
        process = subprocess.Popen([*command, sentence], cwd=folder, start_new_session=True)
    except OSError as error:
        log.error("the alert's command, schedule.alert in hourline.yaml, cannot be run: %s", error)
        return
    try:
        if status := process.wait(_TIMEOUT_SECONDS):
            log.error("the alert's command, %s, ended with status %s", shlex.join(command), status)
    except subprocess.TimeoutExpired:
        log.error("the alert's command, %s, was ended after %s s", shlex.join(command), _TIMEOUT_SECONDS)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
