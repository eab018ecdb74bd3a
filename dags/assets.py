"""Tell the assets of the metrics which hours were published, whoever has published them.

A run waits until something is published: by another DAG, or by `hourline recompute`, `accept`, `backfill` or `import`.
It also waits for a gap that a person confirms. It then gives the asset of each metric an event for each hour, and for
each window whose hours are all final now. The next run begins at once. An Airflow that was away tells of all that was
published meanwhile.
"""

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, task

from hourline.airflow import Settings, WaitForPublication, confirm_told, tell_assets

settings = Settings.of_environment()

# A run that fails is followed by another one at once. So its tasks try again for hours, after longer and longer pauses.
RETRIES = 10

with DAG(
    f"{settings.name}.assets",
    description="Tell the assets of the metrics which hours were published",
    doc_md=__doc__,
    schedule="@continuous",
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
    **settings.dag_arguments,
):

    @task(outlets=settings.outlets, retries=RETRIES)
    def tell() -> dict[str, Any]:
        """Give each asset an event for each hour that was published since the last run."""
        return {**tell_assets(settings)}

    @task(retries=RETRIES)
    def confirm(told: Any) -> None:
        """Note up to which publication the assets have told of hours."""
        confirm_told(settings, told)

    told = tell()
    WaitForPublication(task_id="wait", settings=settings, retries=RETRIES) >> told
    confirm(told)
