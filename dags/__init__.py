"""The DAGs of a Hourline project. An Airflow takes them in with one line, in a file of its DAG folder (which must
contain the word airflow):

    from dags import project_dags; project_dags("/path/to/project")  # airflow

    hourly_recompute.py   <project>.hourly_recompute: what has closed, and what late events have revised since
    backfill.py           <project>.backfill: all hours of a range, by Airflow's own backfills or triggered with --from and --to
    maintenance.py        <project>.maintenance: compaction, retention, vacuum
    publishing.py         what both recomputing DAGs do afterwards: which hours are final now, and the report
    commands.py           runs the command line in a task
    alerts.py             tells of late and failed runs
    settings.py           what all DAGs of a project share

They are thin: they import Airflow alone at the top, and the command line does the work, in a process of its own. What
stands in `schedule:` of hourline.yaml is read whenever Airflow reads the DAG file. They run in the pools
`hourline_hourly` and `hourline_backfill`.
"""

from dags.backfill import backfill
from dags.hourly_recompute import hourly_recompute
from dags.maintenance import maintenance
from hourline.airflow.settings import Settings


def project_dags(project: str, workspace: str | None = None) -> None:
    """Make the DAGs of the project in the folder ``project``; ``workspace`` is another than its settings name.

    Raises DeclarationError, with file and line, for a project that does not check: Airflow shows it as one import
    error.
    """
    settings = Settings.of(project, workspace)
    for make in (hourly_recompute, backfill, maintenance):
        make(settings)
