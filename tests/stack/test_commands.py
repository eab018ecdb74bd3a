"""Commands that need Spark, Kafka or the tables of a project: what they print, and what they leave running."""

import json
from pathlib import Path

import pytest

from tests.support.command_line import PROJECT, Failing, hourline
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject


def test_what_only_spark_finds_is_found_before_anything_runs(tmp_path: Path) -> None:
    flow = PROJECT["metrics/flow.yaml"].replace("sum(weight)", "sum(wieght)").replace("mean(speed)", "mean(belt)")
    fragile = PROJECT["metrics/fragile.yaml"].replace("where: fragile and", "where: fragil and")
    test = "given: [x]\nexpect: {flwo: []}\n"
    files = {"metrics/flow.yaml": flow, "metrics/fragile.yaml": fragile, "tests/t.yaml": test}
    write_project(tmp_path, {**PROJECT, **files})
    said = hourline("check", folder=tmp_path, status=1).splitlines()
    assert "metrics/flow.yaml:8: measures.weight" in said[0]
    assert "did you mean 'weight'?" in said[0]
    assert any("metrics/fragile.yaml:12: where" in line and "did you mean 'fragile'?" in line for line in said), said
    assert said[-1] == "tests/t.yaml:2: expect.flwo: there is no metric 'flwo' — did you mean 'flow'?"
    assert not (tmp_path / ".hourline" / "tables").exists()


def test_without_kafka_the_speed_layer_says_so(
    failing: Failing, declared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hourline_core.runtime.kafka.TIMEOUT_SECONDS", 0.5)
    assert "127.0.0.1:1" in failing.sentence("speed", "--drain", folder=declared, status=75)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT parcls FROM flow", "there is no column 'parcls' — did you mean 'parcels'?"),
        ("FROM flwo", "there is no view 'flwo' — did you mean 'flow'?"),
        ("SELECT sum(depot) FROM flow", "the query cannot be answered"),
        ("SELECT depot::INT FROM flow", "the query cannot be answered"),
    ],
)
def test_a_wrong_query_gets_one_sentence(failing: Failing, finished_project: StackProject, sql: str, said: str) -> None:
    assert said in failing.sentence("query", sql, folder=finished_project.root)


def test_results_in_every_format(finished_project: StackProject, tmp_path: Path) -> None:
    import duckdb

    sql = "SELECT hour, depot, sum(price) AS price FROM flow GROUP BY ALL ORDER BY ALL"
    rows = json.loads(hourline("query", sql, "--format", "json", folder=finished_project.root, status=0))
    assert len(rows) > 5
    lines = hourline("query", sql, "--format", "jsonl", folder=finished_project.root, status=0)
    assert [json.loads(line) for line in lines.splitlines()] == rows
    csv = hourline("query", sql, "--format", "csv", folder=finished_project.root, status=0)
    assert csv.splitlines()[0] == "hour,depot,price"
    assert len(csv.splitlines()) == len(rows) + 1
    file = tmp_path / "o'clock.parquet"
    hourline("query", sql, "--format", "parquet", "--output", str(file), folder=finished_project.root, status=0)
    assert len(duckdb.read_parquet(str(file)).fetchall()) == len(rows)
    table = hourline("query", sql, folder=finished_project.root, status=0)
    assert table.splitlines()[0].split() == ["hour", "depot", "price"]
