"""Recompute history by Airflow's own backfill. A run recomputes one partition, for which it starts Spark once.

    airflow backfill create --dag-id <project>.backfill --from-date 2026-01-01 --to-date 2026-01-31
    airflow backfill create --dag-id <project>.backfill_months --from-date 2025-01-01 --to-date 2025-12-01

A partition is a day, or a month for a long history. Each one whose first day lies within the two dates is recomputed.

Open hours are left out and named in the log. The hourly run recomputes them once they have closed. If a partition has
no hour to recompute, its tasks are skipped.

A job has 24 hours, more if they have few events, and fewer if they have many or `batch.hours_per_job` says so. Between
two jobs the hourly run has its turn. A backfill that was interrupted goes on where it was. The DAGs have no other runs:
`<project>.recompute_range` takes any range of hours, and starts Spark once for all of them.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, CronPartitionTimetable, task

from hourline.airflow import BACKFILL_POOL, Settings, backfill_day, backfill_month, report_audit

settings = Settings.of_environment()

NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def make_dag(name: str, partition: str, cron: str, key: str, backfill: Callable[[Settings], dict[str, Any]]) -> DAG:
    """A DAG whose partitions begin when ``cron`` says, and are called by the format ``key``."""
    with DAG(
        f"{settings.name}.{name}",
        description=f"Recompute {partition}s, by Airflow's own backfill",
        doc_md=__doc__,
        # Only a DAG with a timetable can be backfilled. The dates keep the scheduler from making runs by itself.
        schedule=CronPartitionTimetable(cron, timezone="UTC", key_format=key),
        start_date=NEVER,
        end_date=NEVER,
        catchup=False,
        # A run by hand with a logical date, which lies after the end, would succeed without any task.
        allowed_run_types=["backfill", "scheduled"],  # type: ignore[list-item]  # the enum's module is private
        params={"metrics": settings.metrics_parameter},
        **settings.dag_arguments,
    ) as dag:

        @task(pool=BACKFILL_POOL, doc_md=f"Recompute, audit and publish the closed hours of the {partition}.")
        def recompute() -> dict[str, Any]:
            return backfill(settings)

        @task(pool=BACKFILL_POOL, retries=0)
        def report(recomputed: Any) -> None:
            """Link the audit's reports; fail if an hour is blocked."""
            report_audit(recomputed)

        report(recompute())
    return dag


days = make_dag("backfill", "day", "0 0 * * *", "%Y-%m-%d", backfill_day)
months = make_dag("backfill_months", "month", "0 0 1 * *", "%Y-%m", backfill_month)
