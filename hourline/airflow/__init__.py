"""What the DAG files in ``dags/`` call.

settings.py   the project, as far as its DAGs need to know it
tasks.py      what their tasks do
commands.py   runs the command line in a task
alerts.py     tells of late and failed runs
"""

from hourline.airflow.settings import Settings
from hourline.airflow.tasks import backfill_range, maintain_tables, plan_hours, recompute_hours, report_audit
from hourline_core.runtime.airflow.configuration import BACKFILL_POOL, HOURLY_POOL

__all__ = [
    "BACKFILL_POOL",
    "HOURLY_POOL",
    "Settings",
    "backfill_range",
    "maintain_tables",
    "plan_hours",
    "recompute_hours",
    "report_audit",
]
