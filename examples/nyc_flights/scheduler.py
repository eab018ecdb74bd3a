"""Airflow in the demo. Its scheduler catches up with the hours of 2013; between two acts its DAG is paused, as nights pass quickly here."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hourline.declarations import load_project
from hourline.errors import HourlineError
from infra.airflow.api import AirflowApi

SETTINGS = {"DEMO": "true", "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True"}
"""The environment of its Airflow."""

_ENDED = {"success", "failed", "upstream_failed"}


class Scheduler:
    """The hourly DAG of a running Airflow."""

    def __init__(self, project: Path, workspace: Path, url: str) -> None:
        declared = load_project(project, workspace=workspace)
        self._api = AirflowApi(declared, url)
        self._dag = f"dags/{declared.name}.hourly_recompute"
        self._told: set[str] = set()

    def go_on(self) -> None:
        """Let it make its runs."""
        self._api.patch(self._dag, {"is_paused": False})

    def pause(self) -> None:
        """Let it make no more runs."""
        self._api.patch(self._dag, {"is_paused": True})

    def recomputed(self) -> dict[str, Any] | None:
        """A run that has recomputed something, and has ended, which was not returned before. Raises HourlineError when its recompute has failed."""
        for run in self._api.get(f"{self._dag}/dagRuns", limit=100)["dag_runs"]:
            run_id = run["dag_run_id"]
            if run_id in self._told or run["state"] not in _ENDED:
                continue
            state = self._api.get(f"{self._dag}/dagRuns/{run_id}/taskInstances/recompute")["state"]
            if state == "success":
                self._told.add(run_id)
                found: dict[str, Any] = run
                return found
            if state in _ENDED:
                raise HourlineError(f"the run {run_id} has failed: {' '.join(self.lines(run))}")
        return None

    def lines(self, run: dict[str, Any]) -> Iterator[str]:
        """What the commands of a run have said, as its tasks' logs have it."""
        for task in ("recompute",):
            tries = self._api.get(f"{self._dag}/dagRuns/{run['dag_run_id']}/taskInstances/{task}")["try_number"]
            log = self._api.get(f"{self._dag}/dagRuns/{run['dag_run_id']}/taskInstances/{task}/logs/{tries}")
            yield from (line["event"] for line in log["content"] if line.get("logger") == "hourline")
