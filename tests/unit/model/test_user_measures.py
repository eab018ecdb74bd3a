"""Classes in ``measures/`` become words for measures, and their text a part of the declaration."""

from pathlib import Path

import pytest

from hourline import load_project
from hourline_core.errors import DeclarationError
from hourline_core.model import Metric, declaration_hash, from_stored, to_stored
from tests.support.project_files import write_project
from tests.support.user_classes import CLASSES

FILES = {
    "hourline.yaml": "",
    "sources/s.yaml": "topic: t\nfields: {at: timestamp, a: double, total: double}\nevent_time: at\n",
    "metrics/m.yaml": "source: s\nmeasures:\n  x: weighted_mean(a + 1, total) where a > 0\n",
    "measures/weighted_mean.py": CLASSES["weighted_mean"],
}


def metric_of(folder: Path, files: dict[str, str]) -> tuple[Metric, str]:
    project = load_project(write_project(folder, {**FILES, **files}), {})
    return project.metrics["m"], declaration_hash(project.sources["s"], project.metrics["m"])


def mistakes(folder: Path, files: dict[str, str]) -> list[str]:
    with pytest.raises(DeclarationError) as caught:
        metric_of(folder, files)
    return str(caught.value).splitlines()


def test_a_metric_names_a_class_as_it_names_any_measure(tmp_path: Path) -> None:
    metric, _ = metric_of(tmp_path, {})
    measure = metric.measures["x"]
    assert str(measure) == "weighted_mean(a + 1, total) where a > 0"
    assert measure.user_measure and measure.user_measure.code == CLASSES["weighted_mean"]
    assert measure.arguments == ["a + 1", "total"]


def test_a_metric_in_sql_names_it_too(tmp_path: Path) -> None:
    sql = "sql: SELECT weighted_mean(a + 1, total) FILTER (WHERE a > 0) AS x FROM s GROUP BY 'all'\n"
    _, in_sql = metric_of(tmp_path, {"metrics/m.yaml": sql.replace(" GROUP BY 'all'", "")})
    assert in_sql == metric_of(tmp_path, {"metrics/m.yaml": FILES["metrics/m.yaml"]})[1]


def test_a_changed_text_is_a_changed_declaration_of_the_metrics_that_use_it(tmp_path: Path) -> None:
    _, known = metric_of(tmp_path, {})
    _, changed = metric_of(tmp_path, {"measures/weighted_mean.py": f"{CLASSES['weighted_mean']}\n# other\n"})
    assert changed != known
    (tmp_path / "measures/weighted_mean.py").write_text(CLASSES["weighted_mean"])
    assert metric_of(tmp_path, {"measures/spread.py": CLASSES["spread"]})[1] == known


def test_what_is_stored_with_a_table_has_the_text_of_its_class(tmp_path: Path) -> None:
    project = load_project(write_project(tmp_path, FILES), {})
    source, metric = project.sources["s"], project.metrics["m"]
    text = to_stored(source, metric)
    (tmp_path / "measures/weighted_mean.py").unlink()
    assert from_stored(text, source, metric.window)[1] == metric


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {"measures/weighted_mean.py": "class WeightedMean:\n    def add(:\n"},
            "measures/weighted_mean.py:2: this is not Python (invalid syntax)",
        ),
        (
            {"measures/weighted_mean.py": "class Mean: ...\n"},
            "measures/weighted_mean.py:1: allowed is a file with the class WeightedMean, named as the file is; it has Mean",
        ),
        (
            {"measures/avg.py": "class Avg: ...\n"},
            "measures/avg.py:1: got the name 'avg', which is a word for another measure: rename the file",
        ),
        (
            {"measures/Best.py": "class Best: ...\n"},
            "measures/Best.py:1: got the name 'Best', allowed are lower-case letters, digits and _: rename the file",
        ),
    ],
)
def test_a_file_that_is_no_measure_is_told_alone(tmp_path: Path, files: dict[str, str], said: str) -> None:
    assert mistakes(tmp_path, files) == [said]


@pytest.mark.parametrize(
    ("measure", "ending"),
    [
        ("weighted_man(a, total)", " — did you mean 'weighted_mean(a, total)'?"),
        (
            "weighted_mean",
            "got 'weighted_mean' without an argument, allowed is weighted_mean(x) with a field or expression",
        ),
        ("centre(a)", "; or define it with a class in measures/centre.py"),
    ],
)
def test_a_measure_that_names_no_class_is_told(tmp_path: Path, measure: str, ending: str) -> None:
    (said,) = mistakes(tmp_path, {"metrics/m.yaml": f"source: s\nmeasures:\n  x: {measure}\n"})
    assert said.startswith("metrics/m.yaml:3: measures.x: got ") and said.endswith(ending)
