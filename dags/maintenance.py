"""Once a day: compact the tables, delete files that no version needs which is in use, and reports that are out of date.

What is published, and what the longest permitted query may still be reading, is spared. While the speed layer runs, it
looks after its own tables.
"""

from datetime import UTC, datetime

from airflow.sdk import DAG, CronTriggerTimetable, task

from hourline.airflow.commands import run
from hourline.airflow.settings import BACKFILL_POOL, Settings


def maintenance(settings: Settings) -> DAG:
    """The DAG ``<project>.maintenance``."""
    with DAG(
        f"{settings.name}.maintenance",
        description="Compaction, retention, vacuum",
        doc_md=__doc__,
        schedule=CronTriggerTimetable(settings.schedule.maintenance, timezone=settings.schedule.timezone),
        start_date=datetime(2024, 1, 1, tzinfo=UTC),
        catchup=False,
        **settings.shared,
    ) as dag:

        @task(pool=BACKFILL_POOL)
        def maintain() -> None:
            """Run `hourline maintain`."""
            run(settings, "maintain")

        maintain()
    return dag
