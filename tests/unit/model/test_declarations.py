"""Declarations: what is read from files, and what is built in Python."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pydantic
import pytest

from hourline_core.errors import DeclarationError
from hourline_core.model import EventTime, Field, Project, Settings, load_project
from tests.support.flights import METRIC, SOURCE, delays_metric, flights_source
from tests.support.project_files import write_project


def test_files_and_python_build_the_same_declarations(tmp_path: Path) -> None:
    project = load_project(
        write_project(tmp_path, {"hourline.yaml": "", "sources/flights.yaml": SOURCE, "metrics/delays.yml": METRIC}), {}
    )
    assert project.sources == {"flights": flights_source()}
    assert project.metrics == {"delays": delays_metric()}
    assert project.metrics_of("flights") == [delays_metric()]
    assert project.metrics_of("others") == []


def test_dimensions_are_a_list_or_a_mapping() -> None:
    as_list = delays_metric(dimensions=["origin", {"late": "delay > 15"}])
    assert as_list == delays_metric(dimensions={"origin": "origin", "late": "delay > 15"})
    assert delays_metric(dimensions=[]).dimensions == {}


def test_every_item_knows_its_line(tmp_path: Path) -> None:
    project = load_project(
        write_project(tmp_path, {"hourline.yaml": "", "sources/flights.yaml": SOURCE, "metrics/delays.yml": METRIC}), {}
    )
    assert project.where_declared("metric", "delays", ("measures", "mean_delay")) == "metrics/delays.yml:5"
    assert project.where_declared("metric", "delays", ("dimensions", "late")) == "metrics/delays.yml:2"
    assert project.where_declared("source", "flights", ("fields", "delay", "type")) == "sources/flights.yaml:4"
    assert project.where_declared("source", "flights", ("where",)) == "sources/flights.yaml:1"


def test_a_project_built_in_python_is_checked_too(tmp_path: Path) -> None:
    project = Project(tmp_path, Settings(), {"flights": flights_source()}, {"delays": delays_metric()})
    assert project.where_declared("metric", "delays", ("measures", "n")) == "metric 'delays'"
    with pytest.raises(DeclarationError, match=r"metric 'delays': source: got 'flihgts', .* did you mean 'flights'"):
        Project(tmp_path, Settings(), {"flights": flights_source()}, {"delays": delays_metric(source="flihgts")})
    with pytest.raises(DeclarationError, match="source 'flights': got the key 'f', allowed is its name"):
        Project(tmp_path, Settings(), {"f": flights_source()}, {})


def test_declarations_are_frozen() -> None:
    with pytest.raises(pydantic.ValidationError):
        flights_source().topic = "another"


def test_yaml_does_not_guess_types(tmp_path: Path) -> None:
    source = "topic: 2024\nfields: {no: string, on: int, null: date}\nevent_time: no\nwhere: yes\nderived:\n"
    settings = "name: 007\nspark:\n  config: {spark.a: 1.10, spark.b: true}\nkafka:\n  # bootstrap: somewhere\nbatch: {hours_per_job: 24}\n"
    project = load_project(write_project(tmp_path, {"hourline.yaml": settings, "sources/s.yaml": source}), {})
    assert project.sources["s"].topic == "2024"
    assert list(project.sources["s"].fields) == ["no", "on", "null"]
    assert project.sources["s"].where == "yes"
    assert project.sources["s"].derived == {}
    assert project.name == "007"
    assert project.settings.spark.config == {"spark.a": "1.10", "spark.b": "true"}
    assert project.settings.batch.hours_per_job == 24


def test_moments_become_utc() -> None:
    source = flights_source(earliest="2013-01-01T00:00:00-05:00", latest=datetime(2014, 1, 1, tzinfo=UTC))
    assert source.earliest == datetime(2013, 1, 1, 5, tzinfo=UTC)
    assert source.earliest.tzinfo is UTC


@pytest.mark.parametrize(
    ("declared", "spark"),
    [
        ("long", "bigint"),
        ("boolean", "boolean"),
        ("decimal( 10, 2)", "decimal(10,2)"),
        ("struct<lat: double, tags: array<string>>", "struct<lat: double, tags: array<string>>"),
        ("map<string, decimal(10,2)>", "map<string, decimal(10,2)>"),
    ],
)
def test_field_types_are_spark_types(declared: str, spark: str) -> None:
    assert Field(type=declared).spark_type == spark


@pytest.mark.parametrize(
    ("expression", "kept"),
    [
        ("items", {"other", "line"}),
        ("split(lower(line), 'items')", {"items", "other"}),
        ('split(`Line`, "other")', {"items", "other"}),
        ("transform(items, i -> struct(i.other, line))", {"other"}),
        ("items.line", {"other", "line"}),
        ("sequence(1, 3)", {"items", "other", "line"}),
        ("items (other)", {"items", "line"}),
    ],
)
def test_the_fields_that_explode_reads_are_not_kept(expression: str, kept: set[str]) -> None:
    fields = {"items": Field(type="array<string>"), "other": Field(type="int"), "line": Field(type="string")}
    source = flights_source(fields=fields, explode={"element": expression}, event_time=EventTime(expression="element"))
    assert set(source.event_fields) == {*kept, "element"}


def test_declarations_import_no_engine() -> None:
    blocked = "import sys\nfor name in ('pyspark', 'duckdb', 'airflow', 'deltalake', 'confluent_kafka'): sys.modules[name] = None\n"
    subprocess.run([sys.executable, "-c", blocked + "import hourline_core.model, hourline.initialise"], check=True)
