"""The class of a user-defined measure fails for an event: its metric does not count it until the class is mended. Where
a keyed fold fails, its group has no value. Events are folded in their order, whichever layer counted them.
"""

import json
import statistics
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import serving_layer
from hourline import load_project
from serving_layer.reports.findings import find_findings
from serving_layer.reports.status import report_project_status
from tests.support.oracle import SourceRule
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject
from tests.support.user_classes import SPREAD, TRAIL, UNTIL_THIRD

pytestmark = pytest.mark.long  # In CI, tests/protocol/test_quarantine.py has failing classes.

START = datetime(2024, 5, 6, 20, tzinfo=UTC)
AFTER, LAST = START + timedelta(hours=1), START + timedelta(hours=2)
FAILURE = "ValueError: thirteen hundred, measures/spread.py:18"
FAILING = SPREAD.replace(
    "def add(self, state, x):",
    "def add(self, state, x):\n        if x == 1300:\n            raise ValueError('thirteen hundred')",
)
FILES = {
    "hourline.yaml": """\
        kafka: {bootstrap: "${KAFKA}"}
        spark: {master: "local[2]"}
        """,
    "sources/readings.yaml": "topic: user_measures\nfields: {at: timestamp, x: int}\nevent_time: at\ngrace: 0s\n",
    "metrics/spreads.yaml": "source: readings\nmeasures: {n: count, spread: spread(x)}\n",
    "metrics/others.yaml": "source: readings\nmeasures: {n: count, most: max(x)}\n",
    "measures/spread.py": FAILING,
}


def test_an_event_that_a_class_fails_for_is_in_quarantine_until_the_class_is_mended(kafka: str, tmp_path: Path) -> None:
    project = StackProject(write_project(tmp_path, FILES), kafka, {"readings": SourceRule(lambda _: START, {})})
    early, failing, later = reading(0, range(50)), reading(0, [1300]), reading(1, range(0, 90, 3))
    project.send("readings", early + failing)
    project.send("readings", later)
    project.drain()
    before = {START: (50, variance(early), "provisional"), AFTER: (30, variance(later), "provisional")}
    assert answers(project) == before
    assert other_answers(project) == {START: (51, 1300), AFTER: (30, 87)}
    assert quarantine(project) == [(50, "spreads", "spread", "measures/spread.py", FAILURE)]
    (status,) = report_project_status(project.project, 5).sources
    assert (status.accepted, status.quarantined) == (81, 1)
    assert FAILURE in found_kinds(project)["quarantine"]

    project.recompute()
    assert answers(project) == {**before, START: (50, variance(early), "final")}
    assert other_answers(project) == {START: (51, 1300), AFTER: (30, 87)}
    with serving_layer.connect(project.project) as connection:
        warned = connection.sql("SELECT metric, hour, unexpected, found, rows FROM quality WHERE NOT success")
        ((metric, hour, number, found, rows),) = warned.fetchall()
    assert (metric, hour, number) == ("spreads", START, 1)
    assert found == (
        f"1 event is in quarantine and not counted; spread failed at user_measures partition 0 offset 50 ({FAILURE})"
    )
    assert [(row["offset"], row["message"]) for row in map(json.loads, rows)] == [(50, FAILURE)]

    (tmp_path / "measures/spread.py").write_text(SPREAD)
    project.project = load_project(tmp_path, {"KAFKA": kafka})
    project.send("readings", latest := reading(2, [4, 1300]))
    project.drain()
    # The class as it was goes on until the mended one has counted every hour.
    assert answers(project) == {
        START: (50, variance(early), "final"),
        AFTER: (30, variance(later), "provisional"),
        LAST: (1, None, "provisional"),
    }
    project.recompute()
    assert answers(project) == {
        START: (51, variance(early + failing), "final"),
        AFTER: (30, variance(later), "final"),
        LAST: (2, variance(latest), "provisional"),
    }
    (status,) = report_project_status(project.project, 5).sources
    assert status.quarantined == 0
    assert "quarantine" not in found_kinds(project)


STEP_FAILED = "ZeroDivisionError: integer division or modulo by zero, folds/trail.py:14"
FOLD_FILES = {
    "hourline.yaml": FILES["hourline.yaml"],
    "sources/steps.yaml": "topic: keyed_folds\nfields: {at: timestamp, who: string, x: int}\nevent_time: at\ngrace: 0s\n",
    "metrics/trails.yaml": """\
        source: steps
        dimensions: [who]
        measures: {n: count, trail: trail(x), until_third: until_third(x) where x > 1}
        """,
    "folds/trail.py": TRAIL.replace("[*state, x]", "[*state, x // (x != 1300)]"),
    "folds/until_third.py": UNTIL_THIRD,
}


def test_events_are_folded_in_their_order_in_both_layers(kafka: str, tmp_path: Path) -> None:
    rule = SourceRule(lambda body: datetime.fromisoformat(body["at"]), {})
    project = StackProject(write_project(tmp_path, FOLD_FILES), kafka, {"steps": rule})
    project.send("steps", [step("ada", 30, 3), step("ada", 0, 1300)])
    project.send("steps", [step("eve", 5, 4), step("clock", 3600, 1)])
    project.drain()
    assert trails(project) == {"ada": (None, None, "provisional"), "eve": ("4", None, "provisional")}
    project.recompute()
    assert trails(project) == {"ada": (None, None, "final"), "eve": ("4", None, "final")}
    assert warnings(project) == [("failure of trail", START, {"who": "ada", "failure of trail": STEP_FAILED})]

    (tmp_path / "folds/trail.py").write_text(TRAIL)
    project.project = load_project(tmp_path, {"KAFKA": kafka})
    project.send("steps", [step("clock", 7200 + n, 1) for n in range(5)])
    project.drain()
    project.recompute()
    eve = {"eve": ("4", None)}
    assert trails(project) == {who: (*values, "final") for who, values in {"ada": ("1300,3", None), **eve}.items()}
    project.send("steps", [step("ada", 20, 2), step("ada", 10, 9), *(step("bo", n, n) for n in range(9))])
    project.drain()
    folded = {"ada": ("1300,9,2,3", 20.0), "bo": (None, 2.0), **eve}
    assert trails(project) == {who: (*values, "revised") for who, values in folded.items()}

    project.recompute()
    assert trails(project) == {who: (*values, "final") for who, values in folded.items()}
    assert [(about, of, row["who"]) for about, of, row in warnings(project)][1:] == [
        ("events of trail beyond 5", START, "bo")
    ]
    project.send("steps", [step("ada", 15, 7), step("bo", 9, 9)])
    project.drain()
    assert trails(project) == {
        "ada": ("1300,9,7,2,3", 15.0, "revised"),
        "bo": (None, 2.0, "revised"),
        "eve": ("4", None, "revised"),
    }


def warnings(project: StackProject) -> list[tuple[str, datetime, dict[str, Any]]]:
    """What was warned of in all audits so far: the column, the hour, and the group without the hour."""
    with serving_layer.connect(project.project) as connection:
        sql = "SELECT about, hour, unnest(rows) FROM quality WHERE NOT success ORDER BY publication"
        rows = connection.sql(sql).fetchall()
    groups = [(about, of, json.loads(row)) for about, of, row in rows]
    return [(about, of, {name: cell for name, cell in row.items() if name != "hour"}) for about, of, row in groups]


def step(who: str, second: int, x: int) -> dict[str, Any]:
    return {"at": (START + timedelta(seconds=second)).isoformat(), "who": who, "x": x}


def trails(project: StackProject) -> dict[str, tuple[Any, ...]]:
    """By who took steps in the first hour: the two folds and the state."""
    with serving_layer.connect(project.project) as connection:
        sql = f"SELECT who, trail, until_third, state FROM trails WHERE hour = '{START:%F %T}+00'"
        return {who: tuple(values) for who, *values in connection.sql(sql).fetchall()}


def reading(hour: int, values: Any) -> list[dict[str, Any]]:
    return [{"at": (START + timedelta(hours=hour, seconds=n)).isoformat(), "x": x} for n, x in enumerate(values)]


def variance(bodies: list[dict[str, Any]]) -> Any:
    return pytest.approx(statistics.variance(body["x"] for body in bodies), rel=1e-9)


def other_answers(project: StackProject) -> dict[datetime, tuple[Any, ...]]:
    """By hour with events: the values of the metric without a class."""
    with serving_layer.connect(project.project) as connection:
        rows = connection.sql("SELECT hour, n, most FROM others WHERE n > 0").fetchall()
    return {hour: tuple(values) for hour, *values in rows}


def found_kinds(project: StackProject) -> dict[str, str]:
    """By kind, the sentence of each finding."""
    with serving_layer.connect(project.project) as connection:
        return {one.kind: one.sentence for one in find_findings(connection)}


def quarantine(project: StackProject) -> list[tuple[Any, ...]]:
    with serving_layer.connect(project.project) as connection:
        sql = 'SELECT "offset", metric, measure, file, message FROM quarantine_readings'
        return connection.sql(sql).fetchall()


def answers(project: StackProject) -> dict[datetime, tuple[Any, ...]]:
    """By hour with events: their number, their spread and the state."""
    with serving_layer.connect(project.project) as connection:
        rows = connection.sql("SELECT hour, n, spread, state FROM spreads WHERE n > 0").fetchall()
    return {hour: tuple(values) for hour, *values in rows}
