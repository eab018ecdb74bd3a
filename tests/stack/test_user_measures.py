"""The class of a user-defined measure or a keyed fold fails at an event: nothing of it counts until the class is mended.
Events are folded in their order, whichever layer counted them.
"""

import json
import statistics
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import serving_layer
from hourline import load_project
from hourline_core.errors import MeasureError
from tests.support.oracle import SourceRule
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject
from tests.support.user_classes import SPREAD, TRAIL, UNTIL_THIRD

START = datetime(2024, 5, 6, 20, tzinfo=UTC)
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
    "measures/spread.py": FAILING,
}


def test_a_class_that_fails_stops_the_stream_until_it_is_mended(kafka: str, tmp_path: Path) -> None:
    project = StackProject(write_project(tmp_path, FILES), kafka, {"readings": SourceRule(lambda _: START, {})})
    early, failing, later = reading(0, range(50)), reading(0, [1300]), reading(2, range(0, 90, 3))
    project.send("readings", early)
    project.drain()
    assert answers(project) == {START: (50, variance(early), "provisional")}

    project.send("readings", failing)
    with pytest.raises(MeasureError) as caught:
        project.drain()
    assert (
        "the measure 'spread' failed in add for the event at user_measures partition 0 offset 50 (ValueError: thirteen "
        "hundred, measures/spread.py:18): mend measures/spread.py, or leave such events out with `where`"
    ) in str(caught.value)
    assert answers(project) == {START: (50, variance(early), "provisional")}

    # The declaration with the class as it was is served, and cannot go on.
    (tmp_path / "measures/spread.py").write_text(SPREAD)
    project.project = load_project(tmp_path, {"KAFKA": kafka})
    project.send("readings", later)
    project.drain()
    project.recompute()
    assert answers(project) == {
        START: (51, variance(early + failing), "final"),
        START + timedelta(hours=2): (30, variance(later), "provisional"),
    }


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
    with pytest.raises(MeasureError, match="failed in step for the event at keyed_folds partition 0 offset 1"):
        project.drain()

    (tmp_path / "folds/trail.py").write_text(TRAIL)
    project.project = load_project(tmp_path, {"KAFKA": kafka})
    project.drain()
    assert trails(project) == {"ada": ("1300,3", None, "provisional")}
    project.send("steps", [step("ada", 20, 2), step("ada", 10, 9), *(step("bo", n, n) for n in range(9))])
    project.send("steps", [step("clock", 7200 + n, 1) for n in range(5)])
    project.drain()
    folded = {"ada": ("1300,9,2,3", 20.0), "bo": (None, 2.0)}
    assert trails(project) == {who: (*values, "provisional") for who, values in folded.items()}

    project.recompute()
    assert trails(project) == {who: (*values, "final") for who, values in folded.items()}
    with serving_layer.connect(project.project) as connection:
        warned = connection.answer("SELECT about, hour, rows FROM quality WHERE NOT success ORDER BY ALL").fetchall()
    ((about, of, rows),) = warned
    assert (about, of) == ("events of trail beyond 5", START)
    assert [json.loads(row)["who"] for row in rows] == ["bo"]
    project.send("steps", [step("ada", 15, 7), step("bo", 9, 9)])
    project.drain()
    assert trails(project) == {"ada": ("1300,9,7,2,3", 15.0, "revised"), "bo": (None, 2.0, "revised")}


def step(who: str, second: int, x: int) -> dict[str, Any]:
    return {"at": (START + timedelta(seconds=second)).isoformat(), "who": who, "x": x}


def trails(project: StackProject) -> dict[str, tuple[Any, ...]]:
    """By who took steps in the first hour: the two folds and the state."""
    with serving_layer.connect(project.project) as connection:
        sql = f"SELECT who, trail, until_third, state FROM trails WHERE hour = '{START:%F %T}+00'"
        return {who: tuple(values) for who, *values in connection.answer(sql).fetchall()}


def reading(hour: int, values: Any) -> list[dict[str, Any]]:
    return [{"at": (START + timedelta(hours=hour, seconds=n)).isoformat(), "x": x} for n, x in enumerate(values)]


def variance(bodies: list[dict[str, Any]]) -> Any:
    return pytest.approx(statistics.variance(body["x"] for body in bodies), rel=1e-9)


def answers(project: StackProject) -> dict[datetime, tuple[Any, ...]]:
    """By hour with events: their number, their spread and the state."""
    with serving_layer.connect(project.project) as connection:
        rows = connection.answer("SELECT hour, n, spread, state FROM spreads WHERE n > 0").fetchall()
    return {hour: tuple(values) for hour, *values in rows}
