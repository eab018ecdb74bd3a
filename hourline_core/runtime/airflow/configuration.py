"""Airflow's configuration: its environment, ``airflow.cfg``, local settings and secrets. The files have mode 0600."""

import base64
import configparser
import io
import json
import os
import secrets
from pathlib import Path

from hourline_core.child_environment import child_environment
from hourline_core.errors import SetupError
from hourline_core.model import Project
from hourline_core.runtime.ports import LOOPBACK

ADMIN = "admin"
"""The only user of the UI and the API."""

HOURLY_POOL = "hourline_hourly"
BACKFILL_POOL = "hourline_backfill"

POOLS = {
    HOURLY_POOL: "the hourly recompute",
    BACKFILL_POOL: "backfills and maintenance, which neither block nor starve the hourly recompute",
}
"""The pools that the DAGs run in. Each has one slot, since each task starts a Spark on this machine."""

_LOCAL_SETTINGS = """\
# Airflow forks a process each time it reads a DAG file, and one for each task. All of them need these modules, whose
# import takes most of their time. Imported here, they are in the process that is forked.
import hourline_core.model

__all__ = []
"""


def home(project: Project) -> Path:
    """AIRFLOW_HOME."""
    return project.workspace / "airflow"


def password_file(project: Project) -> Path:
    """The JSON file with the password of ADMIN."""
    return home(project) / "passwords.json"


def kept_secrets(project: Project) -> dict[str, str]:
    """The secrets of this workspace's Airflow: database (its password), fernet_key, jwt_secret, secret_key.

    They are generated the first time. Raises SetupError when the file is damaged.
    """
    file = home(project) / "secrets.json"
    if not file.exists():
        names = ("database", "jwt_secret", "secret_key")
        made = {name: secrets.token_urlsafe(32) for name in names} | {
            "fernet_key": base64.urlsafe_b64encode(os.urandom(32)).decode()
        }
        write_secret(password_file(project), json.dumps({ADMIN: secrets.token_urlsafe(12)}))
        write_secret(file, json.dumps(made))  # written last: if it exists, both files exist
    try:
        kept: dict[str, str] = json.loads(file.read_text())
    except (OSError, ValueError):
        raise SetupError(
            f"the secrets in {file} are damaged, perhaps by a full disk; they are needed to open Airflow's database; "
            f"delete the folder {file.parent} while Airflow is down, to start with a new one (this deletes "
            "Airflow's record of its runs, but no results)"
        ) from None
    return kept


def write_secret(file: Path, text: str) -> None:
    """Write a file that other users cannot read at any time."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.partial")
    partial.unlink(missing_ok=True)
    partial.touch(mode=0o600)
    with partial.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())  # without it, a power failure may leave an empty file
    partial.replace(file)


def configure(project: Project, dag_folder: Path, database: str, port: int) -> None:
    """Write airflow.cfg and airflow_local_settings.py. ``database`` is a URL, ``postgresql://…``. ``port`` is the port
    of the UI.
    """
    folder = home(project)
    keep = kept_secrets(project)
    url = f"http://{LOOPBACK}:{port}"
    config = configparser.RawConfigParser()
    settings = {
        "core": {
            "executor": "LocalExecutor",
            # One each for the hourly run, a backfill, maintenance, and short tasks such as alerts.
            "parallelism": "4",
            "dags_folder": str(dag_folder),
            "load_examples": "False",
            "dags_are_paused_at_creation": "False",
            # A mistake in a declaration is reported by file and line, which a stack trace would hide.
            "dagbag_import_error_tracebacks": "False",
            "simple_auth_manager_users": f"{ADMIN}:admin",
            "simple_auth_manager_passwords_file": str(password_file(project)),
            "fernet_key": keep["fernet_key"],
            "execution_api_server_url": f"{url}/execution/",
        },
        "database": {"sql_alchemy_conn": database.replace("postgresql://", "postgresql+psycopg2://", 1)},
        "api": {"host": LOOPBACK, "port": str(port), "base_url": url, "workers": "1", "secret_key": keep["secret_key"]},
        "api_auth": {"jwt_secret": keep["jwt_secret"]},
        "logging": {"base_log_folder": str(folder / "logs")},
        # Airflow notices a new DAG file within seconds. The default is five minutes.
        "dag_processor": {
            "refresh_interval": "5",
            "min_file_process_interval": "15",
            "dag_file_processor_timeout": "120",
        },
        # Tasks that ran when the scheduler was killed are retried within a minute. The default is five minutes.
        "scheduler": {
            "task_instance_heartbeat_timeout": "60",
            "orphaned_tasks_check_interval": "20",
            "scheduler_health_check_threshold": "20",
        },
    }
    # Airflow reads % as a reference to another setting.
    config.read_dict(
        {
            section: {key: value.replace("%", "%%") for key, value in values.items()}
            for section, values in settings.items()
        }
    )
    text = io.StringIO()
    config.write(text)
    write_secret(folder / "airflow.cfg", text.getvalue())
    write_secret(folder / "config" / "airflow_local_settings.py", _LOCAL_SETTINGS)


def environment(project: Project) -> dict[str, str]:
    """The environment of Airflow's processes: that of any child, AIRFLOW_HOME, and the project of the DAG files.

    Settings of another Airflow are removed, since with them this one would use the other's database. Connections and
    variables are passed on.
    """
    own = {
        name: value
        for name, value in child_environment().items()
        if not name.startswith("AIRFLOW__") and name != "AIRFLOW_CONFIG"
    }
    return {
        **own,
        "AIRFLOW_HOME": str(home(project)),
        "HOURLINE_PROJECT": str(project.root.absolute()),
        "HOURLINE_WORKSPACE": str(project.workspace),
        "PYTHONWARNINGS": "ignore",
    }
