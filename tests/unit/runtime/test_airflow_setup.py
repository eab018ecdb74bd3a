"""What an Airflow of Hourline's own is set up with: its settings, its secrets, its PostgreSQL. `test_airflow.py` runs
the whole of it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import cast

import psycopg
import pytest
from airflow import settings as airflow_settings
from airflow.configuration import AirflowConfigParser

import hourline_core.model
from hourline import Project, load_project
from hourline.initialise import initialise
from hourline_core.errors import SetupError
from hourline_core.runtime.airflow.api import AirflowApi
from hourline_core.runtime.airflow.configuration import configure, environment, home, kept_secrets
from hourline_core.runtime.airflow.health import import_errors
from hourline_core.runtime.airflow.postgres import Postgres
from tests.support.speed_process import PATIENCE, alive, descendants, wait_until


def shop(root: Path) -> Project:
    initialise(root)
    return load_project(root)


def test_airflow_reads_what_was_written_wherever_the_workspace_lies(tmp_path: Path) -> None:
    root = tmp_path / "100% my 'shop' %(core)s"
    initialise(root)
    with (root / "hourline.yaml").open("a") as settings:
        settings.write(f"tables: {tmp_path / 'tables'}\n")
    project = load_project(root)
    configure(project, tmp_path / "50% dags", "postgresql://u:a%40b@host/db", 8080)
    config = AirflowConfigParser()
    config.read(home(project) / "airflow.cfg")
    assert config.get("core", "dags_folder") == str(tmp_path / "50% dags")
    assert config.get("logging", "base_log_folder") == str(home(project) / "logs")
    assert config.get("database", "sql_alchemy_conn") == "postgresql+psycopg2://u:a%40b@host/db"
    assert (home(project) / "airflow.cfg").stat().st_mode & 0o777 == 0o600


def test_airflow_imports_the_model_before_it_forks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = shop(tmp_path / "shop")
    configure(project, tmp_path / "dags", "postgresql://u:p@host/db", 8080)
    monkeypatch.setattr(airflow_settings, "AIRFLOW_HOME", str(home(project)))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    airflow_settings.prepare_syspath_for_config_and_plugins()  # type: ignore[no-untyped-call]
    airflow_settings.import_local_settings()  # type: ignore[no-untyped-call]
    assert sys.modules["airflow_local_settings"].hourline_core.model is hourline_core.model


def test_settings_of_another_airflow_do_not_reach_this_one_but_its_connections_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgresql://other")
    monkeypatch.setenv("AIRFLOW_CONFIG", "/etc/other.cfg")
    monkeypatch.setenv("AIRFLOW_HOME", "/srv/other")
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", "http://shop")
    monkeypatch.setenv("LC_ALL", "tr_TR.UTF-8")
    project = shop(tmp_path / "shop")
    monkeypatch.setenv("HOURLINE_PROJECT", "/srv/other")
    passed_on = ("AIRFLOW", "HOURLINE_PROJECT", "HOURLINE_WORKSPACE")
    assert {name: value for name, value in environment(project).items() if name.startswith(passed_on)} == {
        "AIRFLOW_HOME": str(home(project)),
        "AIRFLOW_CONN_SHOP": "http://shop",
        "HOURLINE_PROJECT": str(tmp_path / "shop"),
        "HOURLINE_WORKSPACE": str(project.workspace),
    }
    assert environment(project)["LC_ALL"] == "C.UTF-8", "what any child has"


def test_secrets_that_were_cut_short_are_one_sentence(tmp_path: Path) -> None:
    project = shop(tmp_path / "shop")
    kept = kept_secrets(project)
    assert kept_secrets(project) == kept
    file = home(project) / "secrets.json"
    file.write_text(json.dumps(kept)[:20])
    with pytest.raises(SetupError, match=r"are damaged, perhaps by a full disk; .* delete the folder"):
        kept_secrets(project)


def test_an_error_of_all_dag_files_is_told_once() -> None:
    class Answers:
        def import_errors(self) -> list[dict[str, str]]:
            texts = {"b.py": "hourline.yaml:3: wrong\n", "a.py": "hourline.yaml:3: wrong\n", "c.py": "no module 'x'\n"}
            return [{"filename": f"/dags/{name}", "stack_trace": text} for name, text in texts.items()]

    assert import_errors(cast("AirflowApi", Answers())) == [
        "a.py, b.py: hourline.yaml:3: wrong",
        "c.py: no module 'x'",
    ]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (
            "mysql://u:secret@localhost/db",
            "airflow.database: got something else, allowed is postgresql://user:password@host:port/database",
        ),
        (
            "postgresql://u:secret@127.0.0.1:1/db",
            "airflow.database in hourline.yaml cannot be reached: ",
        ),
    ],
)
def test_a_wrong_database_is_one_sentence(tmp_path: Path, url: str, said: str) -> None:
    initialise(tmp_path / "shop")
    with (tmp_path / "shop" / "hourline.yaml").open("a") as settings:
        settings.write(f"airflow: {{database: '{url}'}}\n")
    command = [sys.executable, "-m", "hourline", "airflow", "run", "--project", str(tmp_path / "shop")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr
    assert "secret" not in done.stderr


def test_postgresql_keeps_its_data_lets_nobody_in_without_the_password_and_ends_with_its_parent(tmp_path: Path) -> None:
    with Postgres(tmp_path / "data", "secret", tmp_path / "log") as server, psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE kept (n int)")
    with Postgres(tmp_path / "data", "secret", tmp_path / "log") as server, psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchall() == [(0,)]
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(server.url.replace("secret", "guess"))
    arguments = f"Path({str(tmp_path / 'data')!r}), 'secret', Path({str(tmp_path / 'log')!r})"
    code = f"from hourline_core.runtime.airflow.postgres import *; Postgres({arguments}).__enter__(); print('up', flush=True); input()"
    parent = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdout
    assert parent.stdout.readline() == b"up\n"
    family = descendants(parent.pid)
    assert family
    parent.kill()
    parent.wait()
    wait_until(lambda: not alive(family), "PostgreSQL outlives its parent")


def test_postgresql_starts_after_a_power_cut_though_its_old_process_id_is_anothers(tmp_path: Path) -> None:
    with Postgres(tmp_path / "data", "secret", tmp_path / "log") as server:
        lock = (tmp_path / "data" / "postmaster.pid").read_text()
    other = subprocess.Popen(["sleep", "300"])
    try:
        (tmp_path / "data" / "postmaster.pid").write_text("\n".join([str(other.pid), *lock.splitlines()[1:]]))
        with (
            Postgres(tmp_path / "data", "secret", tmp_path / "log") as server,
            psycopg.connect(server.url) as connection,
        ):
            assert connection.execute("SELECT 1").fetchall() == [(1,)]
    finally:
        other.kill()
        other.wait()


def test_postgresql_that_was_killed_is_started_again_at_the_same_address(tmp_path: Path) -> None:
    with Postgres(tmp_path / "data", "secret", tmp_path / "log") as server:
        url = server.url
        os.kill(server.pid, 9)
        wait_until(lambda: not server.alive(), "it was killed")
        server.start()
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_a_mistake_in_a_metric_hides_neither_the_status_nor_the_way_to_stop(tmp_path: Path) -> None:
    shop(tmp_path / "shop")
    (tmp_path / "shop" / "metrics" / "wrong.yaml").write_text("mesures: {n: count}\n")
    for command, status, said in (
        (["airflow", "status", "--format", "json"], 1, '"healthy": false'),
        (["airflow", "down"], 0, "nothing was running"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "hourline", *command, "--project", str(tmp_path / "shop")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (status, "")
        assert said in done.stdout
