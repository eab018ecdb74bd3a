"""The status of Hourline's own Airflow: its parts, its metadata database and its DAGs."""

from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from hourline_core.model import Project
from hourline_core.runtime.airflow.api import AirflowApi, AirflowError
from hourline_core.runtime.airflow.stack import address_note
from hourline_core.runtime.file_lock import is_alive
from hourline_core.runtime.lease import lease_holder
from hourline_core.runtime.notes import read_note

_IN_THE_API = {
    "postgres": "metadatabase",
    "scheduler": "scheduler",
    "triggerer": "triggerer",
    "dag-processor": "dag_processor",
}


@dataclass(frozen=True)
class Part:
    """One process of Airflow, with its children."""

    name: str
    health: str
    """healthy, unhealthy (its heartbeat is late), down (it does not run), none (it has not reported yet), or unknown
    (the API does not answer).
    """
    pid: int | None
    megabytes: int | None
    """Proportional set size of it and its children, which counts shared memory once. None if the system has no such
    figure.
    """


@dataclass(frozen=True)
class DagStatus:
    """One DAG."""

    id: str
    paused: bool
    last_run: str | None
    """success, failed, running or queued. None if there was no run yet."""
    next_run: datetime | None
    """UTC. None for a DAG that is started by hand only."""


@dataclass(frozen=True)
class AirflowStatus:
    """The content of `hourline airflow status`."""

    url: str | None
    """None if Airflow does not run."""
    pid: int | None = None
    parts: list[Part] = field(default_factory=list)
    dags: list[DagStatus] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """Errors in DAG files, or the reason why the DAGs are not known."""

    @property
    def healthy(self) -> bool:
        """Whether Airflow runs, all of its parts are healthy, and no DAG file has an error."""
        return self.url is not None and not self.errors and all(part.health == "healthy" for part in self.parts)

    def as_json(self) -> dict[str, Any]:
        """The status as plain values, for `--format json`."""
        return {"healthy": self.healthy, **asdict(self)}


def airflow_status(project: Project) -> AirflowStatus:
    """The status of the Airflow of this workspace. Errors are part of the result, and not raised."""
    pid, noted = lease_holder(project.workspace, "airflow"), read_note(address_note(project))
    if pid is None or noted is None:
        return AirflowStatus(None)
    url: str = noted["url"]
    with AirflowApi(project, url) as api:
        health = api.health()
        dags, errors = _dags(api, project)
    processes = {"api-server": None, **noted["parts"]}
    parts = [
        Part(name, _health(name, process, health), process, megabytes(process))
        for name, process in sorted(processes.items())
    ]
    if "postgres" not in processes:
        parts.append(Part("database", health.get("metadatabase", "unknown"), None, None))
    return AirflowStatus(url, pid, parts, dags, errors)


def _health(name: str, process: int | None, health: dict[str, str]) -> str:
    if process is None or not is_alive(process):
        return "down"
    if name == "api-server":
        return "healthy" if health else "unhealthy"
    return health.get(_IN_THE_API[name], "unknown")


def _dags(api: AirflowApi, project: Project) -> tuple[list[DagStatus], list[str]]:
    try:
        dags = [
            DagStatus(
                dag["dag_id"],
                dag["is_paused"],
                _last_state(api, dag["dag_id"]),
                datetime.fromisoformat(dag["next_dagrun_run_after"]) if dag.get("next_dagrun_run_after") else None,
            )
            for dag in api.dags()
            if dag["dag_id"].startswith(f"{project.identifier}.")
        ]
        return dags, import_errors(api)
    except AirflowError as error:
        return [], [str(error)]


def import_errors(api: AirflowApi) -> list[str]:
    """The errors in the DAG files, each once, with the files that have it.

    A mistake in a declaration is an error of all files.
    """
    files: dict[str, list[str]] = {}
    for error in api.import_errors():
        files.setdefault(error["stack_trace"].strip(), []).append(Path(error["filename"]).name)
    return [f"{', '.join(sorted(names))}: {text}" for text, names in files.items()]


def _last_state(api: AirflowApi, dag_id: str) -> str | None:
    runs = api.get(f"dags/{dag_id}/dagRuns", limit=1, order_by="-run_after")["dag_runs"]
    return runs[0]["state"] if runs else None


def megabytes(pid: int | None) -> int | None:
    """The proportional set size of a process and its descendants, in MB. None if not on Linux."""
    if pid is None or not Path(f"/proc/{pid}/smaps_rollup").exists():
        return None
    lines: list[str] = []
    for one in [pid, *_descendants(pid)]:
        with suppress(OSError):  # the process has just ended
            lines += Path(f"/proc/{one}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) // 1024


def _descendants(pid: int) -> list[int]:
    children: list[int] = []
    with suppress(OSError):
        children = [
            int(one) for file in Path(f"/proc/{pid}/task").glob("*/children") for one in file.read_text().split()
        ]
    return [one for child in children for one in (child, *_descendants(child))]
