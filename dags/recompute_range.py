"""Recompute all closed hours of a range: triggered with the parameters `from` and `to`.

Open hours are left out and named in the log, unless `include_open` is true. If the range has no hour to recompute, the
tasks are skipped.

Spark starts once for the whole range. A job has 24 hours, more if they have few events, and fewer if they have many or
`batch.hours_per_job` says so. Between two jobs the hourly run has its turn. A run that was interrupted goes on where it
was.
"""

from typing import Any

from airflow.sdk import DAG, Param, task

from hourline.airflow import BACKFILL_POOL, Settings, recompute_range, report_audit

settings = Settings.of_environment()

HOUR: dict[str, Any] = {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}(T\d{2}(:00){0,2}(Z|\+00:00)?)?$"}

with DAG(
    f"{settings.name}.recompute_range",
    description="Recompute all closed hours of a range: trigger it with from and to",
    doc_md=__doc__,
    # Without a timetable and dates, a run has all its tasks whatever its logical date is.
    schedule=None,
    params={
        "from": Param(title="From", description="The first hour in UTC, such as 2026-01-05T14.", **HOUR),
        "to": Param(title="To", description="The hour in UTC after the last one, such as 2026-01-06T02.", **HOUR),
        "metrics": settings.metrics_parameter,
        "include_open": Param(
            False,
            type="boolean",
            title="Include open hours",
            description="Also recompute hours that have not closed yet; their events may still be arriving.",
        ),
    },
    **settings.dag_arguments,
):

    @task(pool=BACKFILL_POOL)
    def recompute() -> dict[str, Any]:
        """Recompute, audit and publish the hours of the range."""
        return recompute_range(settings)

    @task(pool=BACKFILL_POOL, retries=0)
    def report(recomputed: Any) -> None:
        """Link the audit's reports; fail if an hour is blocked."""
        report_audit(recomputed)

    report(recompute())
