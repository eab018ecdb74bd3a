"""A range with open hours on the command line and in Airflow: which hours are recomputed, and what is said of the rest.

The hours that are recomputed here have no events, so no Spark starts.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

import serving_layer
from hourline.airflow import Settings, backfill_day, recompute_hours, recompute_range
from tests.support.bare_tables import BareTables, hour
from tests.support.command_line import answer, hourline
from tests.support.project_files import write_project

FILES = {
    "hourline.yaml": "name: shop\n",
    "sources/clicks.yaml": """
        topic: clicks
        fields: {n: long, at: long}
        event_time: {expression: at, encoding: epoch_seconds}
    """,
    "metrics/totals.yaml": "source: clicks\nmeasures: {n: sum(n)}\n",
    "metrics/odd.yaml": "source: clicks\nmeasures: {n: sum(n)}\nwhere: n > 1\n",
}
DAY = hour(0)
"""Its first six hours are over, and have no events. The sixth, 05:00, is open, as is the seventh, which has an event."""
RANGE = ("--from", "2024-03-01", "--to", "2024-03-02")
QUIET = ("--from", "2024-03-01T03", "--to", "2024-03-01T06")
"""Hours without events, the last of which is open."""
REFUSED = (
    "2024-03-01T05:00Z has not closed yet: its events may still be arriving; give --skip-open to leave open hours out, "
    "or --include-open to recompute them all the same"
)
LEFT_OUT = "left out, since not closed yet: 2 hour(s), 2024-03-01T05:00Z … 2024-03-01T06:00Z, of odd, totals"
LATER = "the hourly run recomputes them once they have closed"
NO_HOUR = "nothing to recompute: no source has an hour from {} to {}; clear this task to run it again once there are events"


@pytest.fixture
def tables(tmp_path: Path) -> BareTables:
    """An event in the last hour of the day before, and one at six of the day."""
    tables = BareTables(write_project(tmp_path, FILES), hours=[-1, 6])
    tables.start()
    tables.micro_batch(2)
    return tables


def final(tables: BareTables) -> set[int]:
    """The hours of the day whose results are final."""
    with serving_layer.connect(tables.project.root) as connection:
        rows = connection.sql("SELECT hour FROM hours WHERE name = 'totals' AND state = 'final'").fetchall()
    return {(moment - DAY) // timedelta(hours=1) for (moment,) in rows}


def as_task(monkeypatch: pytest.MonkeyPatch, run_type: str = "manual", **context: Any) -> None:
    """Have the functions of the DAGs believe that they run in a task."""
    run = SimpleNamespace(start_date=datetime.now(UTC), run_type=run_type)
    given = {"params": {"metrics": None}, "dag_run": run, **context}
    monkeypatch.setattr("hourline.airflow.tasks.get_current_context", lambda: given)


def recompute_as_asked(tables: BareTables, monkeypatch: pytest.MonkeyPatch, start: str, end: str, **more: Any) -> Any:
    """What the task of `recompute_range` returns."""
    parameters = {"from": start, "to": end, "metrics": None, "include_open": False, **more}
    as_task(monkeypatch, params=parameters)
    return recompute_range(Settings.of_project(str(tables.project.root)))


@pytest.mark.parametrize("command", ["backfill", "recompute"])
def test_a_range_with_open_hours_is_refused_or_recomputed_without_them(tables: BareTables, command: str) -> None:
    folder = tables.project.root
    assert REFUSED in hourline(command, *RANGE, folder=folder, status=2)
    assert final(tables) == set()
    said = answer_with_notes(tables, command, *RANGE, "--skip-open")
    assert LEFT_OUT in said
    assert final(tables) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("command", ["backfill", "recompute"])
def test_open_hours_are_recomputed_when_they_are_included(tables: BareTables, command: str) -> None:
    assert "left out" not in answer_with_notes(tables, command, *QUIET, "--include-open")
    assert final(tables) == {3, 4, 5}
