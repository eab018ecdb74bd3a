"""Once a day: compact the tables, delete files that no version in use needs, and reports that are out of date.

What is published is kept, and so is what the longest permitted query may still be reading. While the speed layer runs,
it maintains its own tables.
"""

from datetime import UTC, datetime

from airflow.sdk import DAG, CronTriggerTimetable, task

from hourline.airflow import BACKFILL_POOL, Settings, maintain_tables

settings = Settings.of_environment()

with DAG(
    f"{settings.name}.maintenance",
    description="Compaction, retention, vacuum",
    doc_md=__doc__,
    schedule=CronTriggerTimetable(settings.schedule.maintenance, timezone=settings.schedule.timezone),
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
    **settings.dag_arguments,
):

    @task(pool=BACKFILL_POOL)
    def maintain() -> None:
        """Run `hourline maintain`."""
        maintain_tables(settings)

    maintain()
