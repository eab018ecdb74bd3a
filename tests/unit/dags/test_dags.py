"""The DAGs as they are declared; `test_airflow.py` runs them."""

import ast
import os
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from dags.backfill import backfill
from dags.hourly_recompute import hourly_recompute
from dags.maintenance import maintenance
from hourline.airflow.alerts import run_is_late
from hourline.airflow.commands import run
from hourline.airflow.settings import BACKFILL_POOL, HOURLY_POOL, Settings
from hourline.initialise import initialise
from hourline_core.errors import DeclarationError
from hourline_core.runtime.airflow.configuration import POOLS
from hourline_core.runtime.lease import lease
from tests.support.speed_process import wait_until

DAGS = Path(__file__).parents[3] / "dags"


@pytest.mark.parametrize("file", sorted(DAGS.glob("*.py")), ids=lambda path: path.name)
def test_dags_import_nothing_at_the_top_but_airflow_and_the_standard_library(file: Path) -> None:
    top = ast.parse(file.read_text()).body
    imported = {node.module for node in top if isinstance(node, ast.ImportFrom) and node.module}
    imported |= {name.name for node in top if isinstance(node, ast.Import) for name in node.names}
    assert {name.partition(".")[0] for name in imported} - set(sys.stdlib_module_names) <= {
        "airflow",
        "dags",
        "hourline",
    }


def test_a_project_has_dags_of_its_own_as_its_schedule_says(tmp_path: Path) -> None:
    initialise(tmp_path / "shop")
    with (tmp_path / "shop" / "hourline.yaml").open("a") as settings:
        settings.write(
            "schedule: {cron: 7 * * * *, timezone: Europe/Berlin, retries: 1, retry_delay: 5s, maintenance: 0 4 * * 0}\n"
        )
    found = Settings.of(str(tmp_path / "shop"), None)
    dags = [make(found) for make in (hourly_recompute, backfill, maintenance)]
    assert [dag.dag_id for dag in dags] == [
        f"{found.name}.{name}" for name in ("hourly_recompute", "backfill", "maintenance")
    ]
    timetables: list[Any] = [dag.timetable for dag in dags]
    assert [(timetable.expression, str(timetable.timezone)) for timetable in timetables] == [
        ("7 * * * *", "Europe/Berlin"),
        ("0 0 * * *", "UTC"),
        ("0 4 * * 0", "Europe/Berlin"),
    ]
    assert {task.retries for dag in dags for task in dag.tasks if task.task_id != "report"} == {1}
    assert {dag.catchup for dag in dags} == {False}


def test_the_pools_are_those_that_an_airflow_of_hourlines_own_has() -> None:
    assert {HOURLY_POOL, BACKFILL_POOL} == set(POOLS)


def test_a_project_that_does_not_check_is_refused_with_file_and_line(tmp_path: Path) -> None:
    initialise(tmp_path / "shop")
    with (tmp_path / "shop" / "hourline.yaml").open("a") as settings:
        settings.write("schedule:\n  cron: hourly\n")
    with pytest.raises(
        DeclarationError, match=r"hourline.yaml:\d+: schedule.cron: got 'hourly', allowed are the five fields of cron"
    ):
        Settings.of(str(tmp_path / "shop"), None)


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        ("2026-03-02T12", "2026-03-02T10", "is reversed"),
        ("2026-03-02T10:30", "2026-03-02T12", "is not on the hour"),
        ("2126-03-02T10", "2126-03-02T12", "lies in the future"),
    ],
)
def test_a_wrong_range_fails_its_task_for_good_and_the_log_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, start: str, end: str, said: str
) -> None:
    initialise(tmp_path / "shop")
    with caplog.at_level("INFO"), pytest.raises(AirflowFailException, match="status 2") as raised:
        run(Settings.of(str(tmp_path / "shop"), None), "backfill", "--from", start, "--to", end)
    assert said in caplog.messages[-1]
    assert said in str(raised.value)


def test_what_may_pass_by_itself_is_tried_again(tmp_path: Path) -> None:
    initialise(tmp_path / "shop")
    settings = Settings.of(str(tmp_path / "shop"), None)
    with lease(Path(settings.workspace), "speed"), pytest.raises(AirflowException, match="status 75") as raised:
        run(settings, "speed")  # which another process runs
    assert not isinstance(raised.value, AirflowFailException)


def test_a_projects_ids_are_what_airflow_takes_whatever_its_folder_is_called(tmp_path: Path) -> None:
    initialise(tmp_path / "my shop: north")
    [dag] = [make(Settings.of(str(tmp_path / "my shop: north"), None)) for make in (maintenance,)]
    assert dag.dag_id == "my_shop_north.maintenance"


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
