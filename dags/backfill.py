"""Recompute days by Airflow's own backfill, in which a day is a partition, and all its hours are one Spark job.

    airflow backfill create --dag-id <project>.backfill --from-date 2026-01-01 --to-date 2026-01-31

Open hours are left out and named in the log. The hourly run recomputes them once they have closed. If a day has no hour
to recompute, its tasks are skipped.

Between two jobs the hourly run has its turn. A backfill that was interrupted goes on where it was. The DAG has no other
runs: `<project>.recompute_range` takes any range of hours, and starts Spark once for all of them.
"""

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, CronPartitionTimetable, task

from hourline.airflow import BACKFILL_POOL, Settings, backfill_day, report_audit

settings = Settings.of_environment()

NEVER = datetime(1970, 1, 1, tzinfo=UTC)

with DAG(
    f"{settings.name}.backfill",
    description="Recompute days, by Airflow's own backfill",
    doc_md=__doc__,
    # Only a DAG with a timetable can be backfilled. The dates keep the scheduler from making runs by itself.
    schedule=CronPartitionTimetable("0 0 * * *", timezone="UTC", key_format="%Y-%m-%d"),
    start_date=NEVER,
    end_date=NEVER,
    catchup=False,
    # A run by hand with a logical date, which lies after the end, would succeed without any task.
    allowed_run_types=["backfill", "scheduled"],  # type: ignore[list-item]  # the enum's module is private
    params={"metrics": settings.metrics_parameter},
    **settings.dag_arguments,
):

    @task(pool=BACKFILL_POOL)
    def recompute() -> dict[str, Any]:
        """Recompute, audit and publish the closed hours of the day."""
        return backfill_day(settings)

    @task(pool=BACKFILL_POOL, retries=0)
    def report(recomputed: Any) -> None:
        """Link the audit's reports; fail if an hour is blocked."""
        report_audit(recomputed)

    report(recompute())
