"""Commands that need Spark, Kafka or the tables of a project: what they print, leave as it is, and do without.

All tests of CI that read the finished project are here, since each worker that runs one of them makes it anew.
"""

import json
import textwrap
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.support.blocked_imports import READING, command_line, without
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


@pytest.mark.heavy
def test_a_dry_run_of_a_reset_lists_all_and_touches_nothing(finished_project: StackProject, tmp_path: Path) -> None:
    project = finished_project.copy(tmp_path)
    checkpoints = project.project.workspace / "checkpoints"
    checkpoints.mkdir(exist_ok=True)
    tables = sorted(log.parent for log in Path(project.project.tables).glob("**/_delta_log"))
    before = {table: DeltaTable(table).version() for table in tables}
    of_source, of_metric = (project.command("reset", name, "--dry-run") for name in ("scans", "flow"))
    for listed in ("progress/scans", "read again", "checkpoints/"):
        assert listed in of_source
    assert "skipped" in project.command("reset", "scans", "--to", "2020-01-01T00:00:00Z", "--dry-run")
    covered = sum(metric == "flow" for metric, _ in project.cutoffs)
    for listed in ("progress/scans", "provisional/flow/", f"{covered} row(s) of metric flow are deleted"):
        assert listed in of_metric
    assert {table: DeltaTable(table).version() for table in tables} == before
    assert checkpoints.exists()
    assert "as sequence" in project.command("reset", "scans", "--yes")
    assert not checkpoints.exists()


def test_reading_needs_neither_spark_nor_java(finished_project: StackProject) -> None:
    script = """\
        import serving_layer
        with serving_layer.connect({root!r}) as connection:
            print(connection.sql("SELECT sum(scans) FROM flow").fetchone()[0])
        """
    done = without(READING, textwrap.dedent(script).format(root=str(finished_project.root)), finished_project)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


def test_query_and_status_need_neither_spark_nor_java(finished_project: StackProject) -> None:
    root = str(finished_project.root)
    done = without(
        READING,
        command_line("query", "SELECT DISTINCT state FROM hours", "--format", "json", "--project", root),
        finished_project,
    )
    assert done.returncode == 0, done.stderr
    assert {row["state"] for row in json.loads(done.stdout)} == {"final", "revised", "provisional"}
    done = without(READING, command_line("status", "--format", "json", "--project", root), finished_project)
    assert done.returncode == 0, done.stderr
    (source,) = json.loads(done.stdout)["sources"]
    assert source["records"] == len(finished_project.sent["scans"])
    assert source["lag"] is None, "there is no Kafka client to ask with"
