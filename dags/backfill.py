"""Recompute all hours of a range.

In Airflow's own backfill a day is a partition, and all its hours are one Spark job:

    airflow backfill create --dag-id <project>.backfill --from-date 2026-01-01 --to-date 2026-01-31

Triggered by hand, with the parameters `from` and `to`, it takes any range of hours, 24 in one job. Between two jobs the
hourly run has its turn. A backfill that was interrupted goes on where it was.
"""

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, CronPartitionTimetable, Param, task

from hourline.airflow import BACKFILL_POOL, Settings, backfill_range, report_audit

settings = Settings.of_environment()

HOUR: dict[str, Any] = {"type": ["null", "string"], "pattern": r"^\d{4}-\d{2}-\d{2}(T\d{2}(:00){0,2}(Z|\+00:00)?)?$"}
# With examples, Airflow's form lets one choose; with null, it wants no choice.
METRICS: dict[str, Any] = {
    "type": ["null", "array"],
    "items": {"type": "string", "enum": list(settings.metrics)},
    "examples": list(settings.metrics),
}
NEVER = datetime(1970, 1, 1, tzinfo=UTC)

with DAG(
    f"{settings.name}.backfill",
    description="Recompute all hours of a range: a backfill of Airflow's, or triggered with from and to",
    doc_md=__doc__,
    # Only a DAG with a timetable can be backfilled. The dates keep the scheduler from making runs by itself.
    schedule=CronPartitionTimetable("0 0 * * *", timezone="UTC", key_format="%Y-%m-%d"),
    start_date=NEVER,
    end_date=NEVER,
    catchup=False,
    params={
        "from": Param(None, title="From", description="The first hour in UTC, such as 2026-01-05T14.", **HOUR),
        "to": Param(None, title="To", description="The hour in UTC after the last one, such as 2026-01-06T02.", **HOUR),
        "metrics": Param(None, title="Metrics", description="Only these; all, if none is given.", **METRICS),
    },
    **settings.dag_arguments,
):

    @task(pool=BACKFILL_POOL, outlets=list(settings.assets.values()))
    def recompute() -> dict[str, Any]:
        """Recompute, audit and publish every hour of the range."""
        return backfill_range(settings)

    @task(pool=BACKFILL_POOL, retries=0)
    def report(recomputed: Any) -> None:
        """Link the audit's reports; fail if an hour is blocked."""
        report_audit(recomputed)

    report(recompute())
