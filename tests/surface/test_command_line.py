"""What a wrong word on the command line gets: one sentence, the right exit status, and never a stack trace."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hourline.cli import run
from hourline_core.runtime.lease import lease_holder
from tests.support import parcels
from tests.support.speed_process import alive, descendants, wait_until
from tests.support.stack_project import StackProject, write_project

pytestmark = pytest.mark.beside

NO_KAFKA = "127.0.0.1:1"
PROJECT = {
    name: text.replace("TOPIC", "command_line").replace("RECORDS_PER_BATCH", "500")
    for name, text in parcels.FILES.items()
}


def hourline(*arguments: str, folder: Path, status: int) -> str:
    """Run a command as a process that must end with ``status``; returns its standard output, or, of a failure, its
    standard error.
    """
    environment = {**os.environ, "KAFKA": NO_KAFKA, "HOURLINE_PROJECT": str(folder)}
    done = subprocess.run(
        [sys.executable, "-m", "hourline", *arguments],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout if status == 0 else done.stderr


class Failing:
    """Runs commands that must fail, in this process, since most of them take no time at all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def lines(self, *arguments: str, folder: Path, status: int) -> list[str]:
        """What is wrong, line by line, as a command says it that ends with ``status``."""
        self.monkeypatch.chdir(folder)
        self.monkeypatch.setenv("KAFKA", NO_KAFKA)
        self.monkeypatch.setattr(sys, "argv", ["hourline", *arguments])
        with pytest.raises(SystemExit) as ended:
            run()
        output = self.capsys.readouterr()
        assert (ended.value.code, output.out) == (status, "")
        assert "Traceback" not in output.err
        told, prefix, said = output.err.partition("hourline: ")
        assert prefix, told
        return said.splitlines()

    def sentence(self, *arguments: str, folder: Path, status: int = 2) -> str:
        """The one line that a mistake gets."""
        (line,) = self.lines(*arguments, folder=folder, status=status)
        return line


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Failing:
    return Failing(monkeypatch, capsys)


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that nothing was ever run for."""
    return write_project(tmp_path_factory.mktemp("declared"), PROJECT)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["recompute", "--from", "2024-05-06T22", "--to", "2024-05-06T20"], "reversed"),
        (["recompute", "--from", "2024-05-06T22", "--to", "2024-05-06T22"], "--to 2024-05-06T23:00Z"),
        (
            ["recompute", "--from", "2024-05-06T22:30", "--to", "2024-05-07"],
            "2024-05-06T22:30' is not on the hour (UTC)",
        ),
        (["recompute", "--from", "2024-05-06T22:00+05:30", "--to", "2024-05-07"], "not on the hour (UTC)"),
        (["recompute", "--from", "noon", "--to", "2024-05-07"], "'noon' is not an hour"),
        (["recompute", "--from", "2024-05-06T22"], "give both --from and --to"),
        (["recompute", "--from", "2124-05-06T22", "--to", "2124-05-07"], "lies in the future"),
        (["recompute", "--metric", "flwo"], "there is no metric 'flwo' — did you mean 'flow'?"),
        (["plan", "--metric", "Flow"], "there is no metric 'Flow' — did you mean 'flow'?"),
        (["plan", "--project", "elsewhere"], "there is no folder elsewhere"),
        (["query", "FROM flow", "--project", "metrics"], "metrics is no Hourline project"),
        (["query", "FROM flow"], "metric 'flow' has no tables yet"),
        (["query", "FROM flwo"], "there is no view 'flwo'"),
        (["query", "SELEC 1"], "syntax error"),
        (["query", "SELECT 1; SELECT 2"], "exactly one SELECT"),
        (["query", "DROP TABLE flow"], "exactly one SELECT"),
        (["query", "SELECT 1", "--output", "x.parquet"], "--format csv, json, jsonl or parquet"),
        (["query", "SELECT 1", "--format", "csv", "--output", "no/where.csv"], "the folder"),
        (["export", "x.db"], "want FILE.duckdb or FOLDER/"),
        (["export", "no/x.duckdb"], "the folder"),
        (["export", "metrics/"], "something else than an export"),
        (["schema", "metrics"], "did you mean 'metric'?"),
    ],
)
def test_a_wrong_argument_gets_one_sentence(failing: Failing, declared: Path, arguments: list[str], said: str) -> None:
    assert said in failing.sentence(*arguments, folder=declared)


@pytest.mark.parametrize(
    ("file", "right", "wrong", "said"),
    [
        ("metrics/flow.yaml", "sum(weight)", "smu(weight)", "metrics/flow.yaml:8: measures.weight: got 'smu(weight)'"),
        ("metrics/flow.yaml", "sum(weight)", "median(weight)", "cannot be merged"),
        ("metrics/flow.yaml", "source: scans", "source: scnas", "metrics/flow.yaml:1: source: got 'scnas'"),
        ("sources/scans.yaml", "weight: int", "weight: integer", "sources/scans.yaml:7: fields.weight"),
        ("sources/scans.yaml", "grace: 1h", "grase: 1h", "did you mean 'grace'?"),
        ("hourline.yaml", "${KAFKA}", "${KAFAK}", "hourline.yaml:2"),
        ("hourline.yaml", "kafka: {", "kafka: [", "hourline.yaml:2"),
    ],
)
def test_a_mistake_in_a_declaration_names_its_line(
    failing: Failing, tmp_path: Path, file: str, right: str, wrong: str, said: str
) -> None:
    assert right in PROJECT[file]
    write_project(tmp_path, {**PROJECT, file: PROJECT[file].replace(right, wrong, 1)})
    assert said in failing.sentence("plan", folder=tmp_path, status=1)


def test_every_mistake_is_told_at_once(failing: Failing, tmp_path: Path) -> None:
    flow = PROJECT["metrics/flow.yaml"].replace("sum(weight)", "smu(weight)").replace("mean(speed)", "maen(speed)")
    write_project(tmp_path, {**PROJECT, "metrics/flow.yaml": flow, "sources/again.yaml": PROJECT["sources/scans.yaml"]})
    said = failing.lines("plan", folder=tmp_path, status=1)
    assert len(said) == 3
    for part in ("smu(weight)", "did you mean 'mean(speed)'?", "one source per topic"):
        assert sum(part in line for line in said) == 1, said


@pytest.mark.stack
def test_what_only_spark_finds_is_found_before_anything_runs(tmp_path: Path) -> None:
    flow = PROJECT["metrics/flow.yaml"].replace("sum(weight)", "sum(wieght)").replace("mean(speed)", "mean(belt)")
    fragile = PROJECT["metrics/fragile.yaml"].replace("where: fragile and", "where: fragil and")
    write_project(tmp_path, {**PROJECT, "metrics/flow.yaml": flow, "metrics/fragile.yaml": fragile})
    said = hourline("check", folder=tmp_path, status=1).splitlines()
    assert "metrics/flow.yaml:8: measures.weight" in said[0]
    assert "did you mean 'weight'?" in said[0]
    assert any("metrics/fragile.yaml:9: where" in line and "did you mean 'fragile'?" in line for line in said), said
    assert not (tmp_path / ".hourline" / "tables").exists()


@pytest.mark.stack
def test_without_kafka_the_speed_layer_says_so(declared: Path) -> None:
    said = hourline("speed", "--drain", folder=declared, status=75)
    assert "127.0.0.1:1" in said.splitlines()[-1]


@pytest.mark.stack
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


@pytest.mark.stack
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


@pytest.mark.stack
def test_up_and_down_leave_nothing_running(failing: Failing, tmp_path: Path) -> None:
    files = {**PROJECT, "hourline.yaml": "spark: {master: 'local[2]'}\n"}
    write_project(tmp_path, files)
    workspace = tmp_path / ".hourline"
    try:
        up = hourline("up", folder=tmp_path, status=0)
        assert "up: Kafka at 127.0.0.1:" in up
        speed = lease_holder(workspace, "speed")
        assert speed is not None
        family = [speed, *descendants(speed)]
        assert len(family) > 2, "the speed layer, its JVM and Kafka"
        assert hourline("up", folder=tmp_path, status=0) == up, "it is up already"
        assert lease_holder(workspace, "speed") == speed
        assert "runs the speed layer" in failing.sentence("speed", folder=tmp_path, status=75)
        report = json.loads(hourline("status", "--format", "json", folder=tmp_path, status=0))
        assert [(source["lag"], source["records"]) for source in report["sources"]] == [(0, 0)]
    finally:
        hourline("down", folder=tmp_path, status=0)
    wait_until(lambda: not alive(family), f"{family} still run")
    assert "nothing was running" in hourline("down", folder=tmp_path, status=0)
