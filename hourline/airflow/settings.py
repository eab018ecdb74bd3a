"""The settings of a project that its DAGs need."""

import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import Asset, Param
from airflow.sdk.definitions.deadline import DeadlineAlert

from hourline.airflow.alerts import late_run_alert, on_failed_run
from hourline_core.errors import SetupError
from hourline_core.model import load_project
from hourline_core.model.loading import SETTINGS_FILE
from hourline_core.model.schedule import ScheduleSettings


@dataclass(frozen=True)
class Settings:
    """Read again whenever Airflow reads a DAG file, so that a change of ``schedule:`` in hourline.yaml needs no
    restart.
    """

    name: str
    """The project's name, with the characters that Airflow's ids allow."""
    folder: str
    workspace: str
    metrics: dict[str, str]
    """The description of each metric that is recomputed, by name."""
    over: dict[str, str]
    """By name, each metric over another one, with the metric whose hours it is made of."""
    windowed: tuple[str, ...]
    """The metrics that have other windows than hours. A session is no window of all groups, so it is left out."""
    schedule: ScheduleSettings

    @classmethod
    def of_environment(cls) -> "Settings":
        """The project in the folder HOURLINE_PROJECT. HOURLINE_WORKSPACE overrides its workspace.

        Raises SetupError when HOURLINE_PROJECT is not set, and DeclarationError, with file and line, for a project with
        mistakes. Airflow shows either as an import error of the DAG file.
        """
        folder = os.environ.get("HOURLINE_PROJECT")
        if not folder:
            raise SetupError("HOURLINE_PROJECT is not set; set it to the project's folder in Airflow's environment")
        return cls.of_project(folder, os.environ.get("HOURLINE_WORKSPACE"))

    @classmethod
    def of_project(cls, folder: str, workspace: str | None = None) -> "Settings":
        """The project in ``folder``. ``workspace`` overrides its own. Raises SetupError when there is none,
        DeclarationError, UsageError.
        """
        if not (Path(folder) / SETTINGS_FILE).is_file():
            raise SetupError(
                f"{folder} is no Hourline project, it has no {SETTINGS_FILE}; set HOURLINE_PROJECT to the project's "
                "folder in Airflow's environment, or name it in the DAG file, if that calls Settings.of_project"
            )
        project = load_project(Path(folder), workspace=Path(workspace) if workspace else None)
        return cls(
            project.identifier,
            str(project.root.absolute()),
            str(project.workspace),
            {metric.name: metric.description or "" for metric in project.metrics.values()},
            {name: project.base_of(name) for name in project.rollups},
            tuple(name for name, one in project.all_metrics.items() if not (one.window.is_hour or one.session)),
            project.settings.schedule,
        )

    @property
    def assets(self) -> dict[str, Asset]:
        """By metric, the asset of its final hours. An event of it says that one hour, its partition, was published. A
        metric over another one has the hours of that one.
        """
        described = {**self.metrics, **{name: f"over {base}" for name, base in self.over.items()}}
        return {
            metric: Asset(
                name=f"{self.name}.{metric}", uri=f"hourline://{self.name}/{metric}", extra={"description": description}
            )
            for metric, description in described.items()
        }

    @property
    def window_assets(self) -> dict[str, Asset]:
        """By metric, the asset of its final windows. An event of it says that all hours of one window, its partition,
        are final, and that one of them was published.
        """
        return {
            metric: Asset(name=f"{self.name}.{metric}.windows", uri=f"hourline://{self.name}/{metric}/windows")
            for metric in self.windowed
        }

    @property
    def outlets(self) -> list[Asset]:
        """All assets."""
        return [*self.assets.values(), *self.window_assets.values()]

    @property
    def metrics_parameter(self) -> Param:
        """The parameter ``metrics`` of a DAG. With examples, Airflow's form lets one choose; with null, it wants no
        choice.
        """
        return Param(
            None,
            title="Metrics",
            description="Only these; all, if none is given.",
            type=["null", "array"],
            items={"type": "string", "enum": list(self.metrics)},
            examples=list(self.metrics),
        )

    @property
    def deadline(self) -> DeadlineAlert:
        """The alert about an hourly run that is not done in time."""
        return late_run_alert(self.folder, self.schedule.alert, self.schedule.deadline)

    @property
    def dag_arguments(self) -> dict[str, Any]:
        """The arguments of all DAGs."""
        retries = {
            "retries": self.schedule.retries,
            "retry_delay": self.schedule.retry_delay,
            "retry_exponential_backoff": 2.0,
            "max_retry_delay": timedelta(hours=1),
        }
        return {
            "default_args": retries,
            "tags": {"hourline", self.name},
            "max_active_runs": 1,
            "on_failure_callback": on_failed_run(self.folder, self.schedule.alert),
        }
