"""What all DAGs of a project share."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Asset

HOURLY_POOL = "hourline_hourly"
BACKFILL_POOL = "hourline_backfill"

NEVER = datetime(1970, 1, 1, tzinfo=UTC)
"""As start and end: the scheduler makes no run by itself."""


@dataclass(frozen=True)
class Settings:
    """A project, as far as its DAGs need to know it."""

    name: str
    """As Airflow's ids have it."""
    folder: str
    workspace: str
    metrics: dict[str, str]
    """By name, what each is about."""
    schedule: Any
    """hourline_core.model.ScheduleSettings"""

    @classmethod
    def of(cls, project: str, workspace: str | None) -> "Settings":
        """Read the project's declarations. Raises DeclarationError."""
        from pathlib import Path

        from hourline_core.model import load_project

        declared = load_project(Path(project), workspace=Path(workspace) if workspace else None)
        metrics = {metric.name: metric.description or "" for metric in declared.metrics.values()}
        return cls(
            declared.identifier,
            str(declared.root.absolute()),
            str(declared.workspace),
            metrics,
            declared.settings.schedule,
        )

    @property
    def assets(self) -> dict[str, Asset]:
        """By metric, the asset that stands for its final hours: each event of it says of one hour, its partition, that
        it was published.
        """
        return {
            metric: Asset(
                name=f"{self.name}.{metric}", uri=f"hourline://{self.name}/{metric}", extra={"description": description}
            )
            for metric, description in self.metrics.items()
        }

    @property
    def shared(self) -> dict[str, Any]:
        """Arguments of every DAG."""
        from hourline.airflow.alerts import run_failed

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
            "on_failure_callback": run_failed(self),
        }
