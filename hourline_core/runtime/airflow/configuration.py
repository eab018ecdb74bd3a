"""What Airflow reads: its environment, and ``airflow.cfg`` and secrets below AIRFLOW_HOME, with mode 0600."""

import base64
import configparser
import io
import json
import os
import secrets
from pathlib import Path

from hourline_core.errors import SetupError
from hourline_core.model import Project
from hourline_core.runtime.ports import LOOPBACK

ADMIN = "admin"
"""The one user of the UI and the API."""

HOURLY_POOL = "hourline_hourly"
BACKFILL_POOL = "hourline_backfill"

POOLS = {
    HOURLY_POOL: "the hourly recompute",
    BACKFILL_POOL: "backfills and maintenance, which neither block nor starve the hourly recompute",
}
"""The pools that the DAGs run in, one slot each: on one machine, each task of theirs is a Spark of its own."""


def home(project: Project) -> Path:
    """AIRFLOW_HOME."""
    return project.workspace / "airflow"


def password_file(project: Project) -> Path:
    """The JSON file with the password of ADMIN."""
    return home(project) / "passwords.json"


def kept_secrets(project: Project) -> dict[str, str]:
    """The secrets of this workspace's Airflow, generated the first time: database (its password), fernet_key,
    jwt_secret, secret_key.
    """
    file = home(project) / "secrets.json"
    if not file.exists():
        names = ("database", "jwt_secret", "secret_key")
        made = {name: secrets.token_urlsafe(32) for name in names} | {
            "fernet_key": base64.urlsafe_b64encode(os.urandom(32)).decode()
        }
        write_secret(password_file(project), json.dumps({ADMIN: secrets.token_urlsafe(12)}))
        write_secret(file, json.dumps(made))  # the last one: with it, both are there
    try:
        kept: dict[str, str] = json.loads(file.read_text())
    except (OSError, ValueError):
        raise SetupError(
            f"the secrets in {file} are damaged, as after a disk that was full: without them its database cannot be "
            f"opened; delete the folder {file.parent} while Airflow is down, and it begins anew (what is lost is "
            "Airflow's record of its runs, nothing of the results)"
        ) from None
    return kept


def write_secret(file: Path, text: str) -> None:
    """Write a file that nobody else can read, at no moment."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.partial")
    partial.unlink(missing_ok=True)
    partial.touch(mode=0o600)
    with partial.open("w", encoding="utf-8") as written:
        written.write(text)
        written.flush()
        os.fsync(written.fileno())  # or a power cut may leave an empty one
    partial.replace(file)


def configure(project: Project, dag_folder: Path, database: str, port: int) -> None:
    """Write airflow.cfg. ``database`` is a URL, ``postgresql://…``; ``port`` is that of its UI."""
    folder = home(project)
    keep = kept_secrets(project)
    url = f"http://{LOOPBACK}:{port}"
    config = configparser.RawConfigParser()
    settings = {
        "core": {
            "executor": "LocalExecutor",
            # The hourly run, a backfill, maintenance, and one for what takes a moment, such as an alert.
            "parallelism": "4",
            "dags_folder": str(dag_folder),
            "load_examples": "False",
            "dags_are_paused_at_creation": "False",
            # A project that does not check is told by file and line, which a stack trace would hide.
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
        # A new DAG file is seen within seconds, by default within five minutes.
        "dag_processor": {
            "refresh_interval": "5",
            "min_file_process_interval": "15",
            "dag_file_processor_timeout": "120",
        },
        # What was under way when the scheduler was killed is tried again within a minute, by default within five.
        "scheduler": {
            "task_instance_heartbeat_timeout": "60",
            "orphaned_tasks_check_interval": "20",
            "scheduler_health_check_threshold": "20",
        },
    }
    # Airflow takes % for a reference to another setting.
    config.read_dict(
        {
            section: {key: value.replace("%", "%%") for key, value in values.items()}
            for section, values in settings.items()
        }
    )
    text = io.StringIO()
    config.write(text)
    write_secret(folder / "airflow.cfg", text.getvalue())


def environment(project: Project) -> dict[str, str]:
    """The environment of Airflow's processes: this one's, AIRFLOW_HOME, and the project that the DAG files are for.

    Settings of another Airflow are left out: with them, this one would work on the other's database. The other's
    connections and variables are passed on.
    """
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("AIRFLOW__") and name != "AIRFLOW_CONFIG"
    }
    return {
        **own,
        "AIRFLOW_HOME": str(home(project)),
        "HOURLINE_PROJECT": str(project.root.absolute()),
        "HOURLINE_WORKSPACE": str(project.workspace),
        "PYTHONWARNINGS": "ignore",
    }
