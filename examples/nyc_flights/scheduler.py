"""Airflow in the demo. Its scheduler catches up with the hours of 2013. The DAG is paused between its acts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hourline import load_project
from hourline_core.errors import HourlineError
from hourline_core.runtime.airflow.api import AirflowApi

SETTINGS = {"DEMO": "true"}
"""The environment of the demo's Airflow."""

_ENDED = {"success", "failed", "upstream_failed"}


class Scheduler:
    """The hourly DAG of a running Airflow."""

    def __init__(self, project: Path, workspace: Path, url: str) -> None:
        declared = load_project(project, workspace=workspace)
        self._api = AirflowApi(declared, url)
        self._dag = f"dags/{declared.name}.hourly_recompute"
        self._reported: set[str] = set()

    def go_on(self) -> None:
        """Unpause the DAG."""
        self._reported |= {run["dag_run_id"] for run in self._ended()}
        self._api.patch(self._dag, {"is_paused": False})

    def pause(self) -> None:
        """Pause the DAG."""
        self._api.patch(self._dag, {"is_paused": True})

    @property
    def recomputed(self) -> dict[str, Any] | None:
        """The run that has ended and recomputed hours since ``go_on``, or None.

        Raises HourlineError when its recompute has failed.
        """
        for run in self._ended():
            state = self._api.get(f"{self._dag}/dagRuns/{run['dag_run_id']}/taskInstances/recompute")["state"]
            if state == "success":
                return run
            if state in _ENDED:
                raise HourlineError(f"the run {run['dag_run_id']} has failed: {' '.join(self.lines(run))}")
        return None

    def lines(self, run: dict[str, Any]) -> Iterator[str]:
        """The messages of the recompute, from the log of its task."""
        task = f"{self._dag}/dagRuns/{run['dag_run_id']}/taskInstances/recompute"
        log = self._api.get(f"{task}/logs/{self._api.get(task)['try_number']}")
        yield from (
            line["event"]
            for line in log["content"]
            if line.get("logger") == "hourline" and not line["event"].startswith("hourline ")
        )

    def _ended(self) -> list[dict[str, Any]]:
        runs = self._api.get(f"{self._dag}/dagRuns", limit=100)["dag_runs"]
        return [run for run in runs if run["state"] in _ENDED and run["dag_run_id"] not in self._reported]
