"""Measures the overhead of Airflow: a run's wall time compared with its tasks, and the memory of the whole stack.

    python -m benchmarks.scheduling [EVENTS_PER_HOUR]

Events of 500 hours are imported. Then, with Kafka, the speed layer and Airflow up, the DAG `recompute_range` is
triggered for one hour and for 24 hours, three times each, always for different hours. Times are wall times from
Airflow's records, the median of three; the ratio is within one run. The answers are compared with DuckDB over the file
before a time counts.
"""

import statistics
import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.trips import FIRST, check, imported
from hourline_core.model import Project
from hourline_core.model.hours import HOUR, hour_text
from hourline_core.runtime.airflow.api import AirflowApi
from hourline_core.runtime.airflow.health import megabytes
from hourline_core.runtime.background import AIRFLOW, SPEED, start, stop
from hourline_core.runtime.lease import lease_holder

ROUNDS = 3


def main(events: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        project, file = imported(Path(folder), events)
        try:
            start(project, SPEED)
            began = time.monotonic()
            url = start(project, AIRFLOW)
            up = time.monotonic() - began
            with AirflowApi(project, url) as api:
                rows = [measured(api, project, hours, first) for hours, first in ((1, 0), (24, 100))]
            check(project, file)
            memory = {
                service.name: megabytes(lease_holder(project.workspace, service.name)) for service in (SPEED, AIRFLOW)
            }
        finally:
            stop(project, AIRFLOW)
            stop(project, SPEED)
    table = Table(
        "hours in the run",
        "run s",
        "its tasks s",
        "recompute s",
        "run / tasks",
        "most memory while it ran, all of Airflow and its tasks",
    )
    for row in rows:
        table.add_row(*row)
    console = Console(width=140)
    console.print(table)
    console.print(
        f"Airflow was up in {up:.1f} s; when idle, it uses {memory['airflow']} MB, "
        f"Kafka and the speed layer use {memory['speed']} MB"
    )


def measured(api: AirflowApi, project: Project, hours: int, first: int) -> list[str]:
    """The median of ROUNDS runs, each over ``hours`` others, the first of which is ``first`` hours after FIRST."""
    runs = [one_run(api, project, FIRST + (first + number * hours) * HOUR, hours) for number in range(ROUNDS)]
    run, tasks, recompute, memory = (statistics.median(column) for column in zip(*runs, strict=True))
    return [str(hours), f"{run:.1f}", f"{tasks:.1f}", f"{recompute:.1f}", f"{run / tasks:.2f}", f"{memory:,.0f} MB"]


def one_run(api: AirflowApi, project: Project, begin: datetime, hours: int) -> tuple[float, float, float, float]:
    dag = f"dags/{project.name}.recompute_range"
    asked = {"from": hour_text(begin), "to": hour_text(begin + timedelta(hours=hours)), "metrics": []}
    run: Any = api.post(f"{dag}/dagRuns", {"logical_date": None, "conf": asked})
    most = 0
    while run["state"] in ("queued", "running"):
        most = max(most, megabytes(lease_holder(project.workspace, "airflow")) or 0)
        time.sleep(1)
        run = api.get(f"{dag}/dagRuns/{run['dag_run_id']}")
    assert run["state"] == "success", run
    tasks = {
        task["task_id"]: task["duration"]
        for task in api.get(f"{dag}/dagRuns/{run['dag_run_id']}/taskInstances")["task_instances"]
    }
    wall = datetime.fromisoformat(run["end_date"]) - datetime.fromisoformat(run["queued_at"])
    return wall.total_seconds(), sum(tasks.values()), tasks["recompute"], most


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
