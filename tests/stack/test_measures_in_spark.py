"""Spark assigns the windows of the model, and a measure that it cannot evaluate is told with its line."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline import load_project
from hourline_core.compute.check import find_unresolved
from hourline_core.compute.panes import assign_pane
from hourline_core.model import EventTime, Field, Project, Settings, Source
from hourline_core.model.windows import HOURLY, TumblingWindow
from hourline_core.runtime.spark import spark_session
from tests.support.project_files import write_project
from tests.support.user_classes import CLASSES

MOMENT = datetime(2024, 2, 29, 23, 59, 59, 999999, tzinfo=UTC)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    settings = Settings.model_validate({"spark": {"master": "local[2]"}})
    source = Source(
        name="rows", topic="rows", fields={"at": Field(type="string")}, event_time=EventTime(expression="at")
    )
    session = spark_session(Project(tmp_path_factory.mktemp("measures"), settings, {"rows": source}, {}), "test")
    yield session
    session.stop()


def test_spark_assigns_the_windows_of_the_model(spark: SparkSession) -> None:
    moments = [datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), datetime(1970, 1, 1, tzinfo=UTC), MOMENT]
    moments += [MOMENT - timedelta(microseconds=number * 987_654_321_987) for number in range(3000)]
    for window in (HOURLY, TumblingWindow(timedelta(minutes=7)), TumblingWindow(timedelta(days=1))):
        frame = spark.createDataFrame([(moment,) for moment in [*moments, None]], "moment timestamp")
        rows = frame.select("moment", F.expr(assign_pane("moment", window.pane)).alias("pane")).toArrow().to_pylist()
        assert rows == [{"moment": moment, "pane": moment and window.assign(moment)} for moment in [*moments, None]]


def test_a_mistake_in_a_condition_is_told_with_its_line(spark: SparkSession, tmp_path: Path) -> None:
    said = {
        "sum(big) where big": ".where: 'big' is of type bigint; a condition is boolean",
        "count where bgi > 0": ".where: there is no field 'bgi' — did you mean 'big'?",
        "max(big) where rand() < 0.5": ".where: 'rand' gives another value each time",
        "ratio(n, y)\n  y: max(at)": ": 'y' is max(at) of type timestamp; ratio(n, y) needs two numbers",
        "top(array(big), 3)": ": top(array(big), 3) needs a number, text, date or time; got array<bigint>",
        "every(big)": ": every(big) needs a condition, such as x > 0; got bigint",
    }
    files = {"sources/s.yaml": "topic: t\nfields: {big: long, at: timestamp}\nevent_time: at\n", "hourline.yaml": ""}
    for number, measure in enumerate(said):
        files[f"metrics/m{number}.yaml"] = f"source: s\nmeasures:\n  n: count where big > 0\n  x: {measure}\n"
    mistakes = find_unresolved(spark, load_project(write_project(tmp_path, files)))
    for number, (words, mistake) in enumerate(zip(said.values(), mistakes, strict=True)):
        assert mistake.startswith(f"metrics/m{number}.yaml:4: measures.x{words}")


def test_a_comment_that_hides_the_rest_of_what_is_evaluated_is_told(spark: SparkSession, tmp_path: Path) -> None:
    files = {
        "hourline.yaml": "",
        "sources/s.yaml": "topic: t\nfields: {big: long, at: timestamp}\nevent_time: at\n",
        "metrics/m.yaml": "source: s\nmeasures:\n  x: sum(big) where big > 0 -- not negative\n",
    }
    (mistake,) = find_unresolved(spark, load_project(write_project(tmp_path, files)))
    assert mistake.startswith("metrics/m.yaml")
    assert "Syntax error" in mistake


def test_a_class_that_does_not_merge_is_told_with_its_line(spark: SparkSession, tmp_path: Path) -> None:
    files = {
        "hourline.yaml": "",
        "sources/s.yaml": "topic: t\nfields: {big: long, at: timestamp}\nevent_time: at\n",
        "metrics/m.yaml": "source: s\nmeasures:\n  x: spread(big)\n  y: spread(big, 1)\n  z: ratio(w, x)\n  w: known_words(cast(at as string))\n",
        "measures/spread.py": CLASSES["spread"],
        "measures/known_words.py": CLASSES["known_words"],
    }
    assert find_unresolved(spark, load_project(write_project(tmp_path, files))) == [
        "metrics/m.yaml:4: measures.y: measures/spread.py:16: got the arguments big, 1, add takes x",
        "metrics/m.yaml:5: measures.z: 'w' is known_words(cast(at as string)) of type string; ratio(w, x) needs two numbers",
    ]
    files["metrics/m.yaml"] = files["metrics/m.yaml"].replace("  y: spread(big, 1)\n", "")
    assert find_unresolved(spark, load_project(write_project(tmp_path, files))) == [
        "metrics/m.yaml:4: measures.z: 'w' is known_words(cast(at as string)) of type string; ratio(w, x) needs two numbers"
    ]
    files["metrics/m.yaml"] = files["metrics/m.yaml"].replace("ratio(w, x)", "count")
    assert find_unresolved(spark, load_project(write_project(tmp_path, files))) == []
    files["measures/known_words.py"] = CLASSES["known_words"].replace("sorted({*one, *other})", "one + other")
    assert find_unresolved(spark, load_project(write_project(tmp_path, files))) == [
        "metrics/m.yaml:5: measures.w: measures/known_words.py:16: merge(a, b) and merge(b, a) differ: with the states a of [''], b of ['ab'], they give ',ab' and 'ab,'; parts of the events are merged in any order, so both have to be equal"
    ]
