"""Every hour: recompute what has settled since, and what late events have revised.

`hourline recompute` without a range does what `hourline plan` lists, so a run that failed or was skipped leaves nothing behind that the next one does
not do. The project's folder is HOURLINE_PROJECT; a DAG file imports Airflow alone, and the work is done by the command line in a process of its own.
"""

import shlex
import sys
from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

with DAG(
    "hourly_recompute",
    description="Recompute what has settled, and what late events have revised",
    schedule=CronDataIntervalTimetable("5 * * * *", timezone="UTC"),
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,  # one run does whatever there is to do
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
):
    BashOperator(
        task_id="recompute",
        bash_command=f'{shlex.quote(sys.executable)} -m hourline recompute --project "${{HOURLINE_PROJECT:?names the folder of the project}}"',
        append_env=True,
    )
