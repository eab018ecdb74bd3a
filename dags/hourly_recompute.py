"""Every hour: recompute what has closed since, and what late events have revised.

A run has the partition of its hour. It recomputes whatever `hourline plan` lists, in one Spark job. What a failed or
skipped run has left behind, the next one does. A run of a backfill recomputes its own hour in any case once it has
closed.
"""

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, CronPartitionTimetable, task

from hourline.airflow import HOURLY_POOL, PARTITION_KEY, Settings, plan_hours, recompute_hours, report_audit

settings = Settings.of_environment()
schedule = settings.schedule

with DAG(
    f"{settings.name}.hourly_recompute",
    description="Recompute what has closed, and what late events have revised",
    doc_md=__doc__,
    schedule=CronPartitionTimetable(
        schedule.cron,
        timezone=schedule.timezone,
        run_offset=-1,  # a run at 14:05 has the partition of 13:00, as hours are named everywhere
        # In UTC it is the key of the assets' events, and parses with the defaults of Airflow's partition mappers.
        key_format=PARTITION_KEY if schedule.timezone == "UTC" else "%Y-%m-%dT%H:%M%z",
    ),
    start_date=schedule.start or datetime(2024, 1, 1, tzinfo=UTC),
    catchup=schedule.catch_up,
    deadline=settings.deadline,
    **settings.dag_arguments,
):

    @task.short_circuit(pool=HOURLY_POOL)
    def plan() -> dict[str, Any] | None:
        """List the hours to recompute, and findings; if there is neither, the run ends here."""
        return plan_hours(settings)

    @task(pool=HOURLY_POOL)
    def recompute(planned: Any) -> dict[str, Any]:
        """Recompute, audit and publish them, and record what is found of the sources."""
        return recompute_hours(settings)

    @task(pool=HOURLY_POOL, retries=0)
    def report(recomputed: Any) -> None:
        """Link the audit's reports; fail if an hour is blocked, or a finding has the severity `fail`."""
        report_audit(recomputed)

    report(recompute(plan()))
