"""The functions that the DAG files in ``dags/`` call, and ``told_before`` for DAGs of one's own.

settings.py has the settings of a project's DAGs, tasks.py what their tasks do, assets.py how assets hear of published
hours, commands.py the command line in a task, alerts.py the alerts about late and failed runs.
"""

from hourline.airflow.assets import WaitForPublication, confirm_told, tell_assets, told_before
from hourline.airflow.settings import Settings
from hourline.airflow.tasks import (
    PARTITION_KEY,
    backfill_day,
    backfill_month,
    maintain_tables,
    plan_hours,
    recompute_hours,
    recompute_range,
    report_audit,
)
from hourline_core.runtime.airflow.configuration import BACKFILL_POOL, HOURLY_POOL

__all__ = [
    "BACKFILL_POOL",
    "HOURLY_POOL",
    "PARTITION_KEY",
    "Settings",
    "WaitForPublication",
    "backfill_day",
    "backfill_month",
    "confirm_told",
    "maintain_tables",
    "plan_hours",
    "recompute_hours",
    "recompute_range",
    "report_audit",
    "tell_assets",
    "told_before",
]
