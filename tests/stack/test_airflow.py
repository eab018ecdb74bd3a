"""The DAGs on the real Airflow, its scheduler and PostgreSQL included: whatever is killed, each hour ends up published
once, as the oracle has it.
"""

import configparser
import os
import re
import shutil
import signal
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

import hourline
from hourline_core.runtime.airflow.api import AirflowError
from hourline_core.runtime.airflow.configuration import home
from hourline_core.runtime.airflow.health import airflow_status
from hourline_core.runtime.airflow.stack import PARTS
from hourline_core.runtime.background import AIRFLOW, start, stop
from hourline_core.runtime.lease import lease_holder, turn
from serving_layer.reports.recomputing import report_recomputing
from tests.support import day_of_new_york, parcels
from tests.support.day_of_new_york import see_the_day_restated
from tests.support.scheduled_project import RunningAirflow, Scheduled, maintains, wait_for
from tests.support.speed_process import SpeedProcess, alive, descendants, wait_until
from tests.support.stack_project import StackProject

pytestmark = pytest.mark.heavy

HOURS = 3
BLOCKED = 0
"""The hour that does not pass its audit at first."""

SETTINGS = """
schedule:
  start: "{start}"
  catch_up: true
  retry_delay: 2s
  deadline: 1s
  alert: [{python}, -c, "import sys; print(sys.argv[1], file=open('alerts', 'a'))"]
"""
EXPECTATION = """
expectations:
  - expect_column_values_to_be_in_set: {{column: depot, value_set: [{depots}]}}
"""

DAILY = """
from airflow.sdk import DAG, Asset, DayWindow, PartitionedAssetTimetable, RollupMapper, StartOfDayMapper, task

asset = Asset(name="{project}.flow", uri="hourline://{project}/flow")
day = RollupMapper(upstream_mapper=StartOfDayMapper(), window=DayWindow())
with DAG("daily_invoices", schedule=PartitionedAssetTimetable(assets=asset, default_partition_mapper=day)):

    @task
    def write():
        pass

    write()

windows = Asset(name="{project}.flow_by_day.windows", uri="hourline://{project}/flow_by_day/windows")
with DAG("invoices_of_a_day", schedule=PartitionedAssetTimetable(assets=windows)):
    write()
"""
"""The DAGs of the guide that run for each day: by Airflow's roll-up of hours, and by a window."""


@pytest.fixture
def project(kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StackProject:
    monkeypatch.setenv("KAFKA", kafka)
    # The last hour lies in the next day: it is left to the hourly run when the day is backfilled.
    monkeypatch.setattr(parcels, "BEGIN", day_of_new_york.BEGIN)
    project = parcels.make(tmp_path, kafka, topic="scheduled", few=True)
    with (tmp_path / "hourline.yaml").open("a") as settings:
        # Runs enough to catch up with, also for a machine that does nothing else.
        first = datetime.now(UTC) - timedelta(days=5)
        settings.write(SETTINGS.format(start=first.isoformat(), python=sys.executable))
    expect(tmp_path, "north, south, west")
    (tmp_path / "metrics" / "flow_by_day.yaml").write_text("from: flow\nwindow: 1 day\n")
    (tmp_path / "metrics" / f"{day_of_new_york.METRIC}.yaml").write_text(day_of_new_york.DECLARED)
    return StackProject(tmp_path, kafka, project.rules)


@pytest.fixture
def speed(project: StackProject) -> Iterator[SpeedProcess]:
    """It starts before Airflow, whose first maintenance would keep it from starting."""
    with SpeedProcess(project) as speed:
        speed.wait_until_ready()
        yield speed


@pytest.fixture
def scheduled(project: StackProject, speed: SpeedProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scheduled]:
    name, root = project.project.name, project.root
    files = {
        "daily_invoices.py": DAILY.format(project=name),
        "of_new_york.py": day_of_new_york.dag_file(name, str(root)),
    }
    try:
        with with_other_dags(root / "checkout", files, monkeypatch):
            url = start(project.project, AIRFLOW)
        yield Scheduled(project, url)
    finally:
        stop(project.project, AIRFLOW)


@contextmanager
def with_other_dags(checkout: Path, files: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within the block, processes start in a checkout whose DAG folder has these files, too."""
    here = Path(hourline.__file__).parents[1]
    checkout.mkdir()
    for package in ("batch_layer", "hourline", "hourline_core", "serving_layer", "speed_layer"):
        (checkout / package).symlink_to(here / package)
    shutil.copytree(here / "dags", checkout / "dags")
    for file, text in files.items():
        (checkout / "dags" / file).write_text(text)
    with monkeypatch.context() as context:
        context.chdir(checkout)
        context.setenv("PYTHONPATH", os.pathsep.join([str(checkout), os.environ.get("PYTHONPATH", "")]))
        yield


@pytest.mark.parametrize("has_more", [False, pytest.param(True, marks=pytest.mark.long)])
def test_hours_go_on_being_published_whatever_is_killed(
    scheduled: Scheduled, speed: SpeedProcess, has_more: bool
) -> None:
    stack, rand = scheduled.stack, scheduled.stack.random
    # A day that began with some events, and was silent up to the first of the hours below.
    stack.send_everywhere("scans", parcels.scans(rand, 8, first_hour=-parcels.BEGIN.hour, hours=1))
    for hour in range(HOURS):
        events = parcels.scans(rand, 60, first_hour=hour, hours=1)
        if hour == BLOCKED:
            events += [{**event, "scan": f"{event['scan']}!", "depot": "nowhere"} for event in events[:3]]
        late = parcels.scans(rand, 10, first_hour=hour - 1, hours=1) if hour else []
        # The hour closes when the next but one has begun in all partitions, since `grace` is an hour.
        before = scheduled.recomputing()
        stack.send("scans", [*late, *events])
        stack.send_everywhere("scans", parcels.scans(rand, 8, first_hour=hour + 2, hours=1))
        if hour == 1:
            task = see_status_name(scheduled, before)
            if has_more:  # In CI, test_airflow_backfill.py kills a task.
                see_it_tried_again(scheduled, kill(task))
        if hour == 2:
            see_an_accepted_hour_told(scheduled)
            expect(stack.root, "north, south, west, nowhere")
            scheduled.backfill(f"{parcels.BEGIN:%Y-%m-%d}")
            scheduled.another_recompute(before)
            os.kill(scheduled.part("scheduler"), signal.SIGKILL)
        wait_for(partial(is_covered, scheduled, hour), f"hour {hour} was not published")
    wait_for(lambda: set(scheduled.covered().values()) == {"final"}, "the blocked hour was not tried again")
    with hourly_run_paused(scheduled):
        wait_for(lambda: scheduled.runs("backfill", "success"), "the backfill did not come to its end")
        assert scheduled.runs("hourly_recompute", "failed"), "the run whose hour was blocked"
        for metric in stack.rules["scans"].metrics:
            # Airflow tells of an hour after it was published.
            wait_for(partial(is_told, scheduled, metric), f"the asset of {metric} does not tell of all hours")
            assert scheduled.told(metric) == {f"{hour:%Y-%m-%dT%H:%M:%S}" for hour in scheduled.covered()}
        wait_for(partial(has_fired, scheduled), "the day's rollup has not fired")
        assert airflow_status(scheduled.project).healthy
    if has_more:
        # The day closes in New York, too.
        stack.send_everywhere("scans", parcels.scans(rand, 8, first_hour=9, hours=1))
        see_the_day_restated(scheduled, speed)
        runs_the_other_dags(scheduled)
    with (stack.root / "metrics" / "flow.yaml").open("a") as file:
        file.write("wheer: fragile\n")
    wait_for(lambda: airflow_status(scheduled.project).errors, "the mistake was not seen")
    [error] = airflow_status(scheduled.project).errors
    assert re.search(r"metrics/flow.yaml:\d+: wheer: is not a known key — did you mean 'where'\?$", error)
    expect(stack.root, "north, south, west, nowhere")
    everything = descendants(lease_holder(scheduled.project.workspace, "airflow") or 0)
    assert len(everything) > len(PARTS)
    stop(scheduled.project, AIRFLOW)
    wait_until(lambda: not alive(everything), "the stop of Airflow leaves processes behind")
    stack.note_cutoffs()
    keys = [(row["metric"], row["hour"]) for row in stack.table("coverage", "") if row["hour"]]
    assert max(Counter(keys).values()) == 1, "coverage has each hour once"
    assert stack.check() > 100
    alerts = (stack.root / "alerts").read_text()
    assert f"{scheduled.dag('hourly_recompute')}: the run " in alerts
    assert "has failed" in alerts
    assert "is late" in alerts


@contextmanager
def hourly_run_paused(scheduled: Scheduled) -> Iterator[None]:
    """Until the next hour closes, more runs would find nothing to do, and take time from what is waited for."""
    scheduled.pause(scheduled.dag("hourly_recompute"), True)
    yield
    scheduled.pause(scheduled.dag("hourly_recompute"), False)


def is_covered(scheduled: Scheduled, hour: int) -> bool:
    return parcels.BEGIN + timedelta(hours=hour) in scheduled.covered()


def is_told(scheduled: Scheduled, metric: str) -> bool:
    return scheduled.told(metric) >= {f"{hour:%Y-%m-%dT%H:%M:%S}" for hour in scheduled.covered()}


def see_an_accepted_hour_told(scheduled: Scheduled) -> None:
    """An hour that a person publishes on the command line is told of like any other."""
    assert "blocked" in scheduled.covered().values()
    first = f"{parcels.BEGIN:%Y-%m-%dT%H}"
    assert f"{first}:00:00" not in scheduled.told("flow")
    scheduled.stack.command("accept", "flow", first, "--reason", "the depot is new")
    wait_for(lambda: f"{first}:00:00" in scheduled.told("flow"), "the asset does not tell of an accepted hour")


def has_fired(scheduled: Scheduled) -> bool:
    """Whether Airflow has run the DAGs of the day whose hours are all final, most of them without events."""
    keys = [
        {run["partition_key"] for run in scheduled.api.get(f"dags/{dag}/dagRuns", state="success")["dag_runs"]}
        for dag in ("daily_invoices", "invoices_of_a_day")
    ]
    return keys == [{f"{parcels.BEGIN:%Y-%m-%d}"}] * 2


def see_status_name(scheduled: Scheduled, before: dict[str, Any] | None) -> dict[str, Any]:
    """`hourline status` shows the recompute that runs after ``before`` with its task. Returns the task."""
    task = scheduled.another_recompute(before)
    name = f"{task['dag_id']}.{task['task_id']}"
    wait_until(
        lambda: name in [one.task for one in report_recomputing(scheduled.project)], f"status does not show {name}"
    )
    return task


def kill(task: dict[str, Any]) -> dict[str, Any]:
    """Kill -9 a task in the middle of its work: all that it has started goes with it. Returns the task."""
    family = descendants(task["pid"])
    os.kill(task["pid"], signal.SIGKILL)
    wait_until(lambda: not alive(family), "a killed task leaves processes behind")
    return task


def see_it_tried_again(scheduled: RunningAirflow, task: dict[str, Any]) -> None:
    def tried_again() -> bool:
        path = f"dags/{task['dag_id']}/dagRuns/{task['dag_run_id']}/taskInstances/{task['task_id']}"
        again = scheduled.api.get(path)
        return bool(again["state"] == "success" and again["try_number"] > task["try_number"])

    wait_for(tried_again, "the task that was killed was not tried again")


def runs_the_other_dags(scheduled: Scheduled) -> None:
    recomputes_a_range_and_maintains_the_tables(scheduled)
    backfills_a_day_without_closed_hours(scheduled)
    forgets_what_is_long_past(scheduled)


def recomputes_a_range_and_maintains_the_tables(scheduled: Scheduled) -> None:
    """Triggered by a person. The asset tells of the hours of the range again, and of no others. A range without an end,
    and a DAG that would have no task, are refused. Maintenance is killed in the middle, and tried again: a file that no
    version of a table needs is gone. (A backfill that is killed: test_backfill.py.)
    """
    metrics = list(scheduled.stack.rules["scans"].metrics)
    told = {metric: scheduled.times_told(metric) for metric in metrics}
    table = next(Path(scheduled.project.tables).glob("final/flow/**/*.parquet")).parent
    lost = table / "part-00000-lost.parquet"
    lost.touch()
    os.utime(lost, (0, 0))
    first, end = (parcels.BEGIN + timedelta(hours=number) for number in (1, 3))
    asked = {"from": f"{first:%Y-%m-%dT%H}", "to": f"{end:%Y-%m-%dT%H}", "metrics": ["flow"]}
    with pytest.raises(AirflowError, match="manual runs"):
        scheduled.trigger("backfill", {"metrics": ["flow"]})
    with pytest.raises(AirflowError, match="param to"):
        scheduled.trigger("recompute_range", {**asked, "to": None})
    run = scheduled.trigger("recompute_range", asked)
    path = f"dags/{scheduled.dag('recompute_range')}/dagRuns/{run}"
    wait_for(lambda: scheduled.api.get(path)["state"] == "success", "the range was not recomputed")
    again = {f"{first + timedelta(hours=number):%Y-%m-%dT%H:%M:%S}": 1 for number in range(2)}
    wait_for(
        lambda: scheduled.times_told("flow") - told["flow"] == Counter(again), "the asset does not tell of the range"
    )
    assert scheduled.times_told("fragile") == told["fragile"]
    # The tables are small. It would have ended before it is seen, if it had not to wait for its turn.
    with turn(scheduled.project.workspace, "batch", lambda process: None):
        run = scheduled.trigger("maintenance", {})
        killed = kill(scheduled.working("maintenance", run, "maintain", maintains))
    see_it_tried_again(scheduled, killed)
    assert not lost.exists()


def backfills_a_day_without_closed_hours(scheduled: Scheduled) -> None:
    """The day with open hours gets its closed ones. The next one has none: it is skipped, and runs again once it is
    cleared.
    """
    first = parcels.BEGIN.replace(hour=0) + timedelta(days=1)
    last = first + timedelta(days=1)
    told = scheduled.times_told("flow")
    scheduled.backfill(f"{first:%Y-%m-%d}", f"{last:%Y-%m-%d}")
    path = f"dags/{scheduled.dag('backfill')}"

    def runs() -> dict[str, str]:
        return {run["partition_key"]: run["dag_run_id"] for run in scheduled.runs("backfill", "success")}

    wait_for(lambda: {f"{first:%Y-%m-%d}", f"{last:%Y-%m-%d}"} <= runs().keys(), "the days were not backfilled")
    task = f"{path}/dagRuns/{{}}/taskInstances/recompute"
    assert scheduled.api.get(task.format(runs()[f"{first:%Y-%m-%d}"]))["state"] == "success"
    closed = Counter(f"{hour:%Y-%m-%dT%H:%M:%S}" for hour in scheduled.covered() if hour >= first)
    wait_for(lambda: scheduled.times_told("flow") - told == closed, "the asset does not tell of the closed hours alone")
    run = runs()[f"{last:%Y-%m-%d}"]
    skipped = scheduled.api.get(task.format(run))
    assert skipped["state"] == "skipped"
    scheduled.clear(scheduled.dag("backfill"), run, "recompute")

    def is_skipped_again() -> bool:
        again = scheduled.api.get(task.format(run))
        return bool(again["state"] == "skipped" and again["try_number"] > skipped["try_number"])

    wait_for(is_skipped_again, "the task that was cleared was not run again")


def forgets_what_is_long_past(scheduled: Scheduled) -> None:
    """A day later, a run that ended longer ago than runs are kept is gone from the database, and the others are not."""
    runs = {run["dag_run_id"] for run in scheduled.runs("hourly_recompute", "success")}
    past = min(runs)
    config = configparser.ConfigParser()
    config.read(home(scheduled.project) / "airflow.cfg")
    with psycopg.connect(config["database"]["sql_alchemy_conn"].replace("+psycopg2", "")) as connection:
        connection.execute("UPDATE dag_run SET start_date = start_date - interval '91 days' WHERE run_id = %s", [past])
    (home(scheduled.project) / "hourline.cleaned").write_text((datetime.now(UTC) - timedelta(days=1)).isoformat())
    wait_for(
        lambda: past not in {run["dag_run_id"] for run in scheduled.runs("hourly_recompute", "success")},
        "an old run was not forgotten",
    )
    assert runs - {past} <= {run["dag_run_id"] for run in scheduled.runs("hourly_recompute", "success")}


def expect(root: Path, depots: str) -> None:
    """Have the audit expect these depots."""
    declared = textwrap.dedent(parcels.keep_few(parcels.FILES)["metrics/flow.yaml"])
    (root / "metrics" / "flow.yaml").write_text(declared + EXPECTATION.format(depots=depots))
