"""The DAG files as an Airflow reads them; `test_airflow.py` runs them."""

import ast
import os
import re
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowException, AirflowFailException

import hourline.airflow
from hourline.airflow import Settings, report_audit
from hourline.airflow.alerts import run_is_late
from hourline.airflow.commands import run_command
from hourline.initialise import initialise
from hourline_core.errors import SetupError
from hourline_core.runtime.airflow.configuration import POOLS
from hourline_core.runtime.lease import lease
from tests.support.speed_process import wait_until

DAG_FOLDER = Path(__file__).parents[3] / "dags"
DAG_FILES = sorted(DAG_FOLDER.glob("*.py"))


def read_dag_files(monkeypatch: pytest.MonkeyPatch, project: Path) -> Any:
    """What Airflow makes of the DAG files, with ``project`` in its environment."""
    monkeypatch.setenv("HOURLINE_PROJECT", str(project))
    monkeypatch.delenv("HOURLINE_WORKSPACE", raising=False)
    return DagBag(DAG_FOLDER)


def imports(file: Path) -> dict[str, set[str]]:
    """By module, the names that a file imports from it."""
    imported: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            imported.setdefault(node.module, set()).update(name.name for name in node.names)
        if isinstance(node, ast.Import):
            imported.update({name.name: set() for name in node.names})
    return imported


def test_the_dag_files_are_these() -> None:
    assert [file.stem for file in DAG_FILES] == [
        "assets",
        "backfill",
        "hourly_recompute",
        "maintenance",
        "recompute_range",
    ]


@pytest.mark.parametrize("file", DAG_FILES, ids=lambda path: path.name)
def test_a_dag_file_imports_airflow_and_what_hourline_offers_it(file: Path) -> None:
    others = {module for module in imports(file) if module.split(".")[0] not in sys.stdlib_module_names}
    assert others == {"airflow.sdk", "hourline.airflow"}


def test_hourline_offers_exactly_what_the_dag_files_and_those_of_users_call() -> None:
    called = set().union(*(imports(file)["hourline.airflow"] for file in DAG_FILES))
    assert called | {"told_before"} == set(hourline.airflow.__all__)


def test_a_project_has_dags_of_its_own_as_its_schedule_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    initialise(tmp_path / "shop")
    with (tmp_path / "shop" / "hourline.yaml").open("a") as settings:
        settings.write(
            "schedule: {cron: 7 * * * *, timezone: Europe/Berlin, retries: 1, retry_delay: 5s, maintenance: 0 4 * * 0}\n"
        )
    bag = read_dag_files(monkeypatch, tmp_path / "shop")
    assert bag.import_errors == {}
    assert bag.dags["shop.recompute_range"].schedule is None
    assert bag.dags["shop.assets"].schedule == "@continuous"
    timetables = {
        name: (dag.timetable.expression, str(dag.timetable.timezone))
        for name, dag in sorted(bag.dags.items())
        if dag.schedule and name != "shop.assets"
    }
    assert timetables == {
        "shop.backfill": ("0 0 * * *", "UTC"),
        "shop.backfill_months": ("0 0 1 * *", "UTC"),
        "shop.hourly_recompute": ("7 * * * *", "Europe/Berlin"),
        "shop.maintenance": ("0 4 * * 0", "Europe/Berlin"),
    }
    dags = bag.dags.values()
    tried_on = [task for dag in dags for task in dag.tasks if task.task_id != "report" and dag.dag_id != "shop.assets"]
    assert {task.retries for task in tried_on} == {1}
    assert {dag.catchup for dag in dags} == {False}
    assert {task.pool for dag in dags for task in dag.tasks if dag.dag_id != "shop.assets"} == set(POOLS)


def test_a_project_that_does_not_check_is_told_with_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    initialise(tmp_path / "shop")
    with (tmp_path / "shop" / "hourline.yaml").open("a") as settings:
        settings.write("schedule:\n  cron: hourly\n")
    bag = read_dag_files(monkeypatch, tmp_path / "shop")
    assert not bag.dags
    assert len(bag.import_errors) == len(DAG_FILES)
    [error] = {text.splitlines()[-1] for text in bag.import_errors.values()}
    assert re.search(r"hourline.yaml:\d+: schedule.cron: got 'hourly', allowed are the five fields of cron", error)


def test_without_a_project_airflow_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOURLINE_PROJECT", raising=False)
    with pytest.raises(SetupError, match="HOURLINE_PROJECT is not set; set it to the project's folder"):
        Settings.of_environment()


def test_a_folder_without_a_project_is_refused_by_the_name_of_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOURLINE_PROJECT", str(tmp_path))
    with pytest.raises(SetupError) as refused:
        Settings.of_environment()
    assert str(refused.value) == (
        f"{tmp_path} is no Hourline project, it has no hourline.yaml; set HOURLINE_PROJECT to the project's folder in "
        "Airflow's environment, or name it in the DAG file, if that calls Settings.of_project"
    )


def test_open_hours_are_a_param_of_the_dag_of_a_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    initialise(tmp_path / "shop")
    dags = read_dag_files(monkeypatch, tmp_path / "shop").dags
    params = dags["shop.recompute_range"].params
    assert sorted(params) == ["from", "include_open", "metrics", "to"]
    assert (params["include_open"], params.get_param("include_open").schema["type"]) == (False, "boolean")
    assert [sorted(dags[f"shop.{name}"].params) for name in ("backfill", "backfill_months")] == [["metrics"]] * 2


def test_the_workspace_of_the_environment_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    initialise(tmp_path / "shop")
    monkeypatch.setenv("HOURLINE_PROJECT", str(tmp_path / "shop"))
    monkeypatch.setenv("HOURLINE_WORKSPACE", str(tmp_path / "elsewhere"))
    assert Settings.of_environment().workspace == str(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        (
            "2026-03-02T12",
            "2026-03-02T10",
            "the range 2026-03-02T12:00Z to 2026-03-02T10:00Z is reversed; give the earlier hour first",
        ),
        ("2026-03-02T10:30", "2026-03-02T12", "is not on the hour"),
        ("2126-03-02T10", "2126-03-02T12", "lies in the future"),
    ],
)
def test_a_wrong_range_fails_its_task_for_good_and_the_log_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, start: str, end: str, said: str
) -> None:
    initialise(tmp_path / "shop")
    with caplog.at_level("INFO"), pytest.raises(AirflowFailException, match="status 2") as raised:
        run_command(Settings.of_project(str(tmp_path / "shop")), "backfill", "--from", start, "--to", end)
    assert said in caplog.messages[-1]
    (line,) = str(raised.value).splitlines()
    assert said in line


def test_what_may_pass_by_itself_is_tried_again(tmp_path: Path) -> None:
    initialise(tmp_path / "shop")
    settings = Settings.of_project(str(tmp_path / "shop"))
    with lease(Path(settings.workspace), "speed"), pytest.raises(AirflowException, match="status 75") as raised:
        run_command(settings, "speed")  # which another process runs
    assert not isinstance(raised.value, AirflowFailException)


@pytest.mark.parametrize(("status", "for_good"), [(1, True), (2, True), (65, True), (70, False), (75, False)])
def test_a_status_says_whether_a_task_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, for_good: bool
) -> None:
    command = tmp_path / "command"
    command.write_text(f"#!/bin/sh\necho 'hourline: its sentence'\nexit {status}\n")
    command.chmod(0o700)
    initialise(tmp_path / "shop")
    settings = Settings.of_project(str(tmp_path / "shop"))
    monkeypatch.setattr("hourline.run_command._command", lambda *_: [str(command)])
    with pytest.raises(AirflowException, match=f"status {status}: its sentence") as raised:
        run_command(settings, "plan")
    assert isinstance(raised.value, AirflowFailException) == for_good


def test_a_run_logs_what_warns_and_fails_for_what_fails(caplog: pytest.LogCaptureFixture) -> None:
    warns = {"subject": "orders", "severity": "warn", "sentence": "no record has been read for 3h"}
    fails = {"subject": "speed layer", "severity": "fail", "sentence": "the speed layer has ended"}
    report_audit({"blocked": {}, "reports": [], "findings": [warns]})
    assert "found: orders: no record has been read for 3h" in caplog.text
    with pytest.raises(
        AirflowFailException, match=r"^found: speed layer: the speed layer has ended; `hourline quality`"
    ):
        report_audit({"blocked": {}, "reports": [], "findings": [warns, fails]})
    with pytest.raises(
        AirflowFailException, match=r"(?s)the speed layer has ended.*blocked by the audit.*visits: 2026"
    ):
        report_audit({"blocked": {"visits": ["2026-03-02T05:00Z"]}, "reports": [], "findings": [fails]})


def test_a_projects_ids_are_what_airflow_takes_whatever_its_folder_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    initialise(tmp_path / "my shop: north")
    bag = read_dag_files(monkeypatch, tmp_path / "my shop: north")
    assert "my_shop_north.maintenance" in bag.dags


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("./nope",), "cannot be run"),
        ((sys.executable, "-c", "raise SystemExit(3)"), "ended with status 3"),
        ((sys.executable, "-c", "import subprocess; subprocess.run(['sleep', '300'])"), "was ended after"),
    ],
)
def test_an_alert_whose_command_fails_or_hangs_is_logged_and_leaves_nothing_behind(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.setattr("hourline.airflow.alerts._TIMEOUT_SECONDS", 1)
    groups: list[int] = []

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, *given: Any, **how: Any) -> None:
            super().__init__(*given, **how)
            groups.append(self.pid)

    monkeypatch.setattr("hourline.airflow.alerts.subprocess.Popen", Noted)
    run_is_late({"dag_run": {"dag_id": "d", "dag_run_id": "r"}}, str(tmp_path), shlex.join(command), "45m")
    assert said in caplog.messages[-1]
    for group in groups:
        wait_until(partial(is_gone, group), "what the command has started lives on")


def is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False
