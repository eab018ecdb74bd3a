"""A project whose Airflow runs: what its scheduler has done, by its API."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hourline_core.model import Project
from hourline_core.runtime.airflow.api import AirflowApi, AirflowError
from hourline_core.runtime.airflow.stack import address_note
from tests.support.speed_process import PATIENCE, descendants
from tests.support.stack_project import StackProject


class RunningAirflow:
    """The Airflow of a project."""

    def __init__(self, project: Project, url: str) -> None:
        self.project = project
        self.api = AirflowApi(project, url, timeout_seconds=PATIENCE)
        self.name = project.name

    def dag(self, name: str) -> str:
        return f"{self.name}.{name}"

    def part(self, name: str) -> int:
        """The process id of a part of Airflow."""
        return int(json.loads(address_note(self.project).read_text())["parts"][name])

    def runs(self, dag: str, state: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.api.get(f"dags/{self.dag(dag)}/dagRuns", limit=100, state=state)["dag_runs"]
        return found

    def recomputing(self) -> dict[str, Any] | None:
        """A recompute of the hourly DAG whose Java runs."""
        running: list[dict[str, Any]] = self.api.get(
            f"dags/{self.dag('hourly_recompute')}/dagRuns/~/taskInstances", state="running"
        )["task_instances"]
        return next(
            (one for one in running if one["task_id"] == "recompute" and one["pid"] and has_java(one["pid"])), None
        )

    def told(self, metric: str) -> set[str]:
        """The hours of a metric that its asset has told of."""
        return set(self.times_told(metric))

    def times_told(self, metric: str) -> Counter[str]:
        """How often the asset of a metric has told of each hour."""
        name = f"{self.name}.{metric}"
        # The pattern finds the asset of its windows, too, and either may come first.
        found = self.api.get("assets", name_pattern=name)["assets"]
        [asset] = [one["id"] for one in found if one["name"] == name]
        told: Counter[str] = Counter()
        # Airflow gives at most a hundred at a time.
        while events := self.asset_events(asset, offset=told.total()):
            told.update(event["partition_key"] for event in events)
        return told

    def asset_events(self, asset: int, offset: int) -> list[dict[str, Any]]:
        """At most a hundred events of an asset.

        Airflow 3.3 answers with 500 while a run that an event has triggered waits to start: its answer requires the
        start of each run (`DagRunAssetReference.start_date`).
        """
        found: list[dict[str, Any]] = []

        def look() -> bool:
            try:
                answer = self.api.get("assets/events", asset_id=asset, order_by="timestamp", limit=100, offset=offset)
            except AirflowError as error:
                if "500 Internal Server Error" not in str(error):
                    raise
                return False
            found.extend(answer["asset_events"])
            return True

        wait_for(look, f"Airflow does not give the events of the asset {asset}")
        return found

    def trigger(self, dag: str, parameters: dict[str, Any]) -> str:
        """Trigger a DAG as a person does in the UI, which proposes a logical date; returns the id of the run."""
        now = datetime.now(UTC).isoformat()
        run = self.api.post(f"dags/{self.dag(dag)}/dagRuns", {"logical_date": now, "conf": parameters})
        return str(run["dag_run_id"])

    def pause(self, dag: str, is_paused: bool) -> None:
        self.api.patch(f"dags/{dag}", {"is_paused": is_paused})

    def clear(self, dag: str, run: str, task: str) -> None:
        """Have a task run again, once its run has ended. What it does is seen earlier, and Airflow would lose it."""

        def has_ended() -> bool:
            return self.api.get(f"dags/{dag}/dagRuns/{run}")["state"] in ("success", "failed")

        wait_for(has_ended, f"the run {run} of {dag} does not end")
        cleared = {"dry_run": False, "only_failed": False, "dag_run_id": run, "task_ids": [task]}
        self.api.post(f"dags/{dag}/clearTaskInstances", {**cleared, "include_downstream": True})

    def backfill(self, first: str, last: str | None = None, *, dag: str = "backfill", again: bool = True) -> str:
        """Have Airflow backfill days or months, the newest first; with ``again``, also those that it has backfilled
        before. Returns where the API has the backfill.
        """
        dates = {"from_date": f"{first}T00:00:00Z", "to_date": f"{last or first}T00:00:00Z", "max_active_runs": 1}
        how = {"reprocess_behavior": "completed" if again else "none", "run_backwards": True}
        made = self.api.post("backfills", {"dag_id": self.dag(dag), **how, **dates})
        return f"backfills/{made['id']}"

    def await_backfill(self, path: str) -> None:
        """Wait until Airflow says that a backfill has ended, which is some time after its last run."""
        wait_for(lambda: self.api.get(path)["completed_at"], f"{path} does not end")

    def working(self, dag: str, run: str, task: str, does: Callable[[int], bool]) -> dict[str, Any]:
        """The task, once its process ``does`` what it is there for."""
        path = f"dags/{self.dag(dag)}/dagRuns/{run}/taskInstances/{task}"
        found: dict[str, Any] = {}

        def look() -> bool:
            found.update(self.api.get(path))
            return found["state"] == "running" and bool(found["pid"]) and does(found["pid"])

        wait_for(look, f"{task} of {dag} does not run")
        return found

    def another_recompute(self, than: dict[str, Any] | None) -> dict[str, Any]:
        """One that has begun after ``than``, which may still be about to end."""
        found: list[dict[str, Any]] = []

        def look() -> bool:
            task = self.recomputing()
            if task and (than is None or task["id"] != than["id"]):
                found.append(task)
            return bool(found)

        wait_for(look, "no recompute runs")
        return found[0]


class Scheduled(RunningAirflow):
    """A project on the real broker whose Airflow runs."""

    def __init__(self, stack: StackProject, url: str) -> None:
        super().__init__(stack.project, url)
        self.stack = stack

    def covered(self) -> dict[datetime, str]:
        """The hours that were recomputed: final, or blocked in a metric."""
        rows = self.stack.table("coverage", "") if Path(f"{self.project.tables}/coverage").exists() else []
        return {
            row["hour"]: "blocked" if row["staged"] is not None else "final"
            for row in sorted(rows, key=lambda r: r["staged"] or -1)
            if row["hour"]
        }


def has_java(pid: int) -> bool:
    return any(b"java" in words[0] for words in commands(pid))


def maintains(pid: int) -> bool:
    return any(b"maintain" in words for words in commands(pid))


def commands(pid: int) -> Iterator[list[bytes]]:
    """The command lines of what ``pid`` has started, as words."""
    for one in descendants(pid):
        with suppress(OSError):  # it has just ended
            yield Path(f"/proc/{one}/cmdline").read_bytes().split(b"\0")


def wait_for(condition: Callable[[], object], otherwise: str) -> None:
    """Look now and then, since it costs something, whether ``condition`` holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.5)
