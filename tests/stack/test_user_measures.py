"""The class of a user-defined measure fails at an event: nothing of it counts until the class is mended."""

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
from tests.support.user_classes import SPREAD

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


def reading(hour: int, values: Any) -> list[dict[str, Any]]:
    return [{"at": (START + timedelta(hours=hour, seconds=n)).isoformat(), "x": x} for n, x in enumerate(values)]


def variance(bodies: list[dict[str, Any]]) -> Any:
    return pytest.approx(statistics.variance(body["x"] for body in bodies), rel=1e-9)


def answers(project: StackProject) -> dict[datetime, tuple[Any, ...]]:
    """By hour with events: their number, their spread and the state."""
    with serving_layer.connect(project.project) as connection:
        rows = connection.sql("SELECT hour, n, spread, state FROM spreads WHERE n > 0").fetchall()
    return {hour: tuple(values) for hour, *values in rows}
