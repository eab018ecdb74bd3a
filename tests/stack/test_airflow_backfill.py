"""Airflow's own backfill of three days up to now, on the real Airflow: killed in the middle of its work, and repeated.

The product's own commits have written the archive. The hours have few events, so no Spark starts.
"""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import serving_layer
from hourline_core.model.hours import hour_text
from hourline_core.runtime.background import AIRFLOW, start, stop
from hourline_core.runtime.lease import lease_holder
from tests.stack.test_airflow import kill, see_it_tried_again
from tests.support.scheduled_project import RunningAirflow, wait_for
from tests.support.speed_process import descendants
from tests.support.visits import BASE, Visit, Visits, first_of_each, hour, values

pytestmark = pytest.mark.heavy

DAYS, EVENTS, DAY = 3, 10, timedelta(days=1)
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
FIRST = (TODAY - (DAYS - 1) * DAY - BASE) // timedelta(hours=1)
"""The number of the first hour."""
NEWEST = (TODAY - BASE) // timedelta(hours=1) + 5
"""That of the newest hour. An hour closes an hour after its end by the source's clock, so the last two are open."""
HOURS, CLOSED = range(FIRST, NEWEST + 1), range(FIRST, NEWEST - 1)
SILENT = range(FIRST + 20, FIRST + 30)
"""Hours without events."""
SETTINGS = """\
name: site
schedule: {start: "2200-01-01T00:00:00Z", retry_delay: 2s}
"""
"""The hourly run would recompute all hours at once, so it does not run."""
SMALL_JOBS = "batch: {hours_per_job: 5}\n"
"""All of these hours fit into one job otherwise."""
LEFT_OUT = (
    f"left out, since not closed yet: visits: {hour(NEWEST - 1):%Y-%m-%dT%H:00Z}, {hour(NEWEST):%Y-%m-%dT%H:00Z}; "
    "the hourly run recomputes them once they have closed"
)


@pytest.fixture
def site(tmp_path: Path) -> Visits:
    site = Visits(tmp_path)
    (tmp_path / "metrics" / "unseen.yaml").unlink()
    (tmp_path / "hourline.yaml").write_text(SETTINGS + SMALL_JOBS)
    site.start()
    chosen = random.Random(1)  # noqa: S311 (the same numbers each time)
    # What repeats an id comes later, and is recognised. Otherwise Spark would explain why the number of events changes.
    for places in (range(EVENTS - 1), [EVENTS - 1]):
        site.micro_batch(*(visit(chosen, number, at) for number in HOURS if number not in SILENT for at in places))
    return site


def visit(chosen: random.Random, number: int, at: int) -> Visit:
    """A visit of an hour. Each closed hour has an id twice."""
    id = min(at, EVENTS - 2) if number in CLOSED else at
    return Visit(number, chosen.choice(["home", "shop", None]), chosen.randrange(200), f"{number}.{id}")


@pytest.fixture
def airflow(site: Visits) -> Iterator[RunningAirflow]:
    try:
        yield RunningAirflow(site.project, start(site.project, AIRFLOW))
    finally:
        stop(site.project, AIRFLOW)


@pytest.mark.parametrize("has_more", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_backfill_up_to_now_publishes_each_closed_hour_once_whatever_is_killed(
    airflow: RunningAirflow, site: Visits, has_more: bool
) -> None:
    """A month that is killed goes on where it was."""
    months = Counter(f"{hour(number):%Y-%m}" for number in CLOSED)
    ((longer, hours),) = months.most_common(1)
    killed = airflow.backfill(f"{min(months)}-01", f"{max(months)}-01", dag="backfill_months")
    task = see_it_work(airflow, site, longer)
    done = count_published(site)
    see_it_tried_again(airflow, kill(task))
    assert 0 < sum(f"{moment:%Y-%m}" == longer for moment in done) < hours, "it was not killed in the middle"
    see_told(airflow, dict.fromkeys(CLOSED, 1))
    airflow.await_backfill(killed)
    newest = see_backfilled(airflow, "backfill_months", dict.fromkeys(months, "success"))[max(months)]
    assert LEFT_OUT in log_of(airflow, newest)
    see_published(site, dict.fromkeys(CLOSED, 1))
    if has_more:
        see_backfills_repeated(airflow, site, months)
    assert not (site.project.workspace / "logs" / "spark-batch.log").exists(), "Spark has started"


def see_backfills_repeated(airflow: RunningAirflow, site: Visits, months: Collection[str]) -> None:
    """All months are backfilled again, then the days around today."""
    (site.project.root / "hourline.yaml").write_text(SETTINGS)
    airflow.await_backfill(airflow.backfill(f"{min(months)}-01", f"{max(months)}-01", dag="backfill_months"))
    see_told(airflow, dict.fromkeys(CLOSED, 2))
    see_published(site, dict.fromkeys(CLOSED, 2))

    yesterday, today = (f"{moment:%Y-%m-%d}" for moment in (TODAY - DAY, TODAY))
    airflow.await_backfill(airflow.backfill(yesterday, today))
    runs = see_backfilled(airflow, "backfill", {yesterday: "success", today: "success"})
    times = {number: 2 + (hour(number) >= TODAY - DAY) for number in CLOSED}
    see_told(airflow, times)
    see_published(site, times)
    assert LEFT_OUT in log_of(airflow, runs[today])
    assert "left out" not in log_of(airflow, runs[yesterday])

    before = f"{hour(FIRST) - DAY:%Y-%m-%d}"
    airflow.await_backfill(airflow.backfill(before))
    skipped = see_backfilled(airflow, "backfill", {before: "skipped"})[before]
    assert f"nothing to recompute: no source has an hour from {before}T00:00Z" in log_of(airflow, skipped)
    # Another backfill leaves it out, since its run was a success, unless it says otherwise.
    airflow.await_backfill(airflow.backfill(before, again=False))
    assert len(airflow.runs("backfill", "success")) == 3

    see_open_hours_recomputed_if_a_param_says_so(airflow)
    see_told(airflow, times | {number: 1 for number in HOURS if number not in CLOSED})


def see_open_hours_recomputed_if_a_param_says_so(airflow: RunningAirflow) -> None:
    """A range of open hours is skipped. With the param, they are recomputed."""
    asked = {"from": hour_text(hour(NEWEST - 1)), "to": hour_text(hour(NEWEST + 1)), "metrics": ["loads"]}
    skipped, done = (recompute_range(airflow, asked | param) for param in ({}, {"include_open": True}))
    assert [skipped["state"], done["state"]] == ["skipped", "success"]
    said = log_of(airflow, skipped)
    assert f"{LEFT_OUT}; with the param include_open, this DAG recomputes them now" in said
    assert "nothing to recompute: no hour from" in said
    assert "has closed yet" in said


def recompute_range(airflow: RunningAirflow, parameters: dict[str, Any]) -> dict[str, Any]:
    """The task of a run that a person has triggered, once the run was a success."""
    path = f"dags/{airflow.dag('recompute_range')}/dagRuns/{airflow.trigger('recompute_range', parameters)}"
    wait_for(lambda: airflow.api.get(path)["state"] == "success", "the run of the range is no success")
    task: dict[str, Any] = airflow.api.get(f"{path}/taskInstances/recompute")
    return task


def see_it_work(airflow: RunningAirflow, site: Visits, month: str) -> dict[str, Any]:
    """The task that recomputes a month. It has published some of the hours, and works on others."""
    dag, found = "backfill_months", list[str]()

    def is_running() -> bool:
        found[:] = [run["dag_run_id"] for run in airflow.runs(dag, "running") if run["partition_key"] == month]
        return bool(found)

    def is_at_work(pid: int) -> bool:
        has_turn = lease_holder(site.project.workspace, "batch") in descendants(pid)
        return has_turn and any(f"{moment:%Y-%m}" == month for moment in count_published(site))

    wait_for(is_running, f"{month} is not backfilled")
    return airflow.working(dag, found[0], "recompute", is_at_work)


def see_backfilled(airflow: RunningAirflow, dag: str, states: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The task of each partition of a backfill, by partition. Their runs were a success, the newest partition first."""
    runs = [run for run in airflow.runs(dag, "success") if run["partition_key"] in states]
    runs.sort(key=lambda run: str(run["start_date"]))
    assert [run["partition_key"] for run in runs] == sorted(states, reverse=True)
    tasks = {
        run["partition_key"]: airflow.api.get(
            f"dags/{airflow.dag(dag)}/dagRuns/{run['dag_run_id']}/taskInstances/recompute"
        )
        for run in runs
    }
    assert {partition: task["state"] for partition, task in tasks.items()} == states
    return tasks


def see_told(airflow: RunningAirflow, times: Mapping[int, int]) -> None:
    """The asset tells of each of these hours that number of times, and of no others."""
    expected = {f"{hour(number):%Y-%m-%dT%H:%M:%S}": count for number, count in times.items()}
    wait_for(lambda: airflow.times_told("loads").total() >= sum(times.values()), "the asset does not tell of all hours")
    assert airflow.times_told("loads") == expected


def see_published(site: Visits, times: Mapping[int, int]) -> None:
    """Each of these hours was published that number of times, and no others were. All results are those of plain Python."""
    assert count_published(site) == {hour(number): count for number, count in times.items()}
    groups: defaultdict[tuple[datetime, str | None, bool], list[Visit]] = defaultdict(list)
    for visit in first_of_each(site.visits):
        groups[hour(visit.hour), visit.page, visit.slow].append(visit)
    expected = {group: values(visits) for group, visits in groups.items()}
    with serving_layer.connect(site.project) as connection:
        rows = (
            connection.sql("SELECT hour, page, slow, visits, mean_ms, worst, pages FROM loads")
            .to_arrow_table()
            .to_pylist()
        )
        states = connection.sql("SELECT hour, state FROM hours WHERE name = 'loads'").fetchall()
    assert {(row.pop("hour"), row.pop("page"), row.pop("slow")): row for row in rows} == expected
    assert {moment for moment, state in states if state == "final"} == {hour(number) for number in CLOSED}


def count_published(site: Visits) -> Counter[datetime]:
    """How often each hour was published."""
    with serving_layer.connect(site.project) as connection:
        return Counter(moment for (moment,) in connection.sql("SELECT hour FROM publications").fetchall())


def log_of(airflow: RunningAirflow, task: Mapping[str, Any]) -> str:
    """What the last try of a task has logged."""
    return json.dumps(airflow.api.get(f"{path_of(task)}/logs/{task['try_number']}"))


def path_of(task: Mapping[str, Any]) -> str:
    """Where Airflow's API has a task."""
    return f"dags/{task['dag_id']}/dagRuns/{task['dag_run_id']}/taskInstances/{task['task_id']}"
