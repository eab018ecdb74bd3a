"""Recompute all hours of a range.

By Airflow's own backfill, a day is a partition, and all its hours are one Spark job:

    airflow backfill create --dag-id <project>.backfill --from-date 2026-01-01 --to-date 2026-01-31

Triggered by hand, with the parameters `from` and `to`, it takes any range of hours, 24 in one job; between two jobs the
hourly run has its turn. What was interrupted goes on where it was.
"""

from datetime import UTC, timedelta
from typing import Any

from airflow.sdk import DAG, CronPartitionTimetable, Param, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from hourline.airflow.publishing import recompute_and_tell, report_task
from hourline.airflow.settings import BACKFILL_POOL, NEVER, Settings

_HOUR = "An hour in UTC, such as 2026-01-05T14"
_HOURS: dict[str, Any] = {"type": ["null", "string"], "pattern": r"^\d{4}-\d{2}-\d{2}(T\d{2}(:00){0,2}(Z|\+00:00)?)?$"}


def backfill(settings: Settings) -> DAG:
    """The DAG ``<project>.backfill``: recompute (which audits and publishes), report."""
    with DAG(
        f"{settings.name}.backfill",
        description="Recompute all hours of a range: a backfill of Airflow's, or triggered with from and to",
        doc_md=__doc__,
        schedule=CronPartitionTimetable("0 0 * * *", timezone="UTC", key_format="%Y-%m-%d"),
        # Only a DAG with a timetable can be backfilled; the scheduler itself makes no run of it.
        start_date=NEVER,
        end_date=NEVER,
        catchup=False,
        params={
            "from": Param(None, **_HOURS, title="From", description=f"{_HOUR}: the first one."),
            "to": Param(None, **_HOURS, title="To", description=f"{_HOUR}: the one after the last."),
            "metrics": Param(
                [],
                type="array",
                items={"type": "string", "enum": list(settings.metrics)},
                description="Only these; all, if none is given.",
            ),
        },
        **settings.shared,
    ) as dag:

        @task(pool=BACKFILL_POOL, outlets=list(settings.assets.values()))
        def recompute() -> dict[str, Any]:
            """Recompute, audit and publish every hour of the range."""
            context: Any = get_current_context()
            first, end = _range(context)
            metrics = [word for metric in context["params"]["metrics"] for word in ("--metric", metric)]
            return recompute_and_tell(settings, "backfill", "--from", first, "--to", end, *metrics)

        report_task(settings, BACKFILL_POOL)(recompute())
    return dag


def _range(context: Any) -> tuple[str, str]:
    day = context.get("partition_date")
    if day is not None:
        first = day.astimezone(UTC)
        return f"{first:%Y-%m-%dT%H:00Z}", f"{first + timedelta(days=1):%Y-%m-%dT%H:00Z}"
    if context["params"]["from"] and context["params"]["to"]:
        return context["params"]["from"], context["params"]["to"]
    raise AirflowFailException(
        "trigger it with both parameters, `from` and `to`, or make a backfill of it: `airflow backfill create`"
    )
