"""Every hour: recompute what has closed since, and what late events have revised.

A run has the partition of its hour. It recomputes whatever `hourline plan` lists, in one Spark job: what a run that
failed or was skipped has left behind, the next one does. A run of a backfill recomputes its hour in any case.
"""

import shlex
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, CronPartitionTimetable, get_current_context, task
from airflow.sdk.definitions.callback import SyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from hourline.airflow.alerts import run_is_late
from hourline.airflow.commands import hourline
from hourline.airflow.publishing import recompute_and_tell, report_task
from hourline.airflow.settings import HOURLY_POOL, Settings


def hourly_recompute(settings: Settings) -> DAG:
    """The DAG ``<project>.hourly_recompute``: plan, recompute (which audits and publishes), report."""
    schedule = settings.schedule
    late = {"folder": settings.folder, "command": shlex.join(schedule.alert), "deadline": str(schedule.deadline)}
    with DAG(
        f"{settings.name}.hourly_recompute",
        description="Recompute what has closed, and what late events have revised",
        doc_md=__doc__,
        schedule=CronPartitionTimetable(
            # A run at 14:05 has the partition of 13:00, as the hours are named everywhere.
            schedule.cron,
            timezone=schedule.timezone,
            run_offset=-1,
            key_format="%Y-%m-%dT%H:00Z" if schedule.timezone == "UTC" else "%Y-%m-%dT%H:%M%z",
        ),
        start_date=schedule.start or datetime(2024, 1, 1, tzinfo=UTC),
        catchup=schedule.catch_up,
        deadline=DeadlineAlert(DeadlineReference.DAGRUN_QUEUED_AT, schedule.deadline, SyncCallback(run_is_late, late)),
        **settings.shared,
    ) as dag:

        @task.short_circuit(pool=HOURLY_POOL)
        def plan() -> dict[str, Any] | None:
            """List the hours that want recomputing, and say whether this run's own hour has closed; if there are none,
            that is all.
            """
            hour = _own_hour()
            found = hourline(settings, "plan", *(("--hour", f"{hour:%Y-%m-%dT%H:00Z}") if hour else ()))
            return found if found["planned"] or _is_forced() else None

        @task(pool=HOURLY_POOL, outlets=list(settings.assets.values()))
        def recompute(planned: Any) -> dict[str, Any]:
            """Recompute, audit and publish them."""
            hour = _own_hour()
            if hour and _is_forced():
                return recompute_and_tell(
                    settings,
                    "recompute",
                    "--from",
                    f"{hour:%Y-%m-%dT%H:00Z}",
                    "--to",
                    f"{hour + timedelta(hours=1):%Y-%m-%dT%H:00Z}",
                )
            return recompute_and_tell(settings, "recompute")

        report_task(settings, HOURLY_POOL)(recompute(plan()))
    return dag


def _is_forced() -> bool:
    """Whether somebody wants the hour of this run recomputed, whatever the plan says."""
    return bool(get_current_context()["dag_run"].run_type == "backfill")


def _own_hour() -> datetime | None:
    """The hour (UTC) of this run's partition; None: it was triggered without one."""
    moment = get_current_context().get("partition_date")
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0) if moment else None
