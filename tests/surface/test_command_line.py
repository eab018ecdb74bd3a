"""What the command line says of itself; and what a wrong word gets: one sentence, the right exit status, and never a
stack trace.
"""

import importlib.metadata
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer

from hourline import load_project
from hourline.cli import app, run
from hourline.cli.output import say_table, signed_number
from hourline.cli.progress import progress
from hourline.cli.recompute_progress import recompute_progress
from hourline_core.model.hours import wall_clock
from hourline_core.runtime.running_recomputes import RecomputeProgress, Work
from tests.support.command_line import NO_KAFKA, PROJECT, Failing
from tests.support.project_files import write_project

REVERSED = "the range 2024-05-06T22:00Z to 2024-05-06T20:00Z is reversed; give the earlier hour first"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["recompute", "--from", "2024-05-06T22", "--to", "2024-05-06T22"], "give 2024-05-06T23:00Z as its end"),
        (
            ["recompute", "--from", "2024-05-06T22:30", "--to", "2024-05-07"],
            "2024-05-06T22:30' is not on the hour (UTC)",
        ),
        (["recompute", "--from", "2024-05-06T22:00+05:30", "--to", "2024-05-07"], "not on the hour (UTC)"),
        (["recompute", "--from", "noon", "--to", "2024-05-07"], "'noon' is not an hour"),
        (["recompute", "--from", "2024-05-06T22"], "give both --from and --to"),
        (["recompute", "--from", "2124-05-06T22", "--to", "2124-05-07"], "lies in the future"),
        (["recompute", "--metric", "flwo"], "there is no metric 'flwo' — did you mean 'flow'?"),
        (["recompute", "--problem", "beef", "--metric", "flow"], "give --problem alone"),
        (["recompute", "--problem", "beef"], "has no problem 'beef'; `hourline quality` lists the open ones"),
        (["accept", "flow", "--reason", "x"], "got flow, want one metric and one hour: `hourline accept flow HOUR"),
        (["accept", "beef", "--reason", "x"], "has no problem 'beef'; `hourline quality` lists the open ones"),
        (["accept", "flwo", "2024-05-06T22", "--reason", "x"], "there is no metric 'flwo' — did you mean 'flow'?"),
        (
            ["accept", "flow", "2024-05-06T22", "x", "--reason", "x"],
            "got flow 2024-05-06T22 x, want one metric and one",
        ),
        (
            ["publish", "--accept", "flow", "2024-05-06T22", "--reason", "it is right"],
            '`hourline accept flow 2024-05-06T22 --reason "it is right"`',
        ),
        (["plan", "--metric", "Flow"], "there is no metric 'Flow' — did you mean 'flow'?"),
        (["plan", "--project", "elsewhere"], "there is no folder elsewhere"),
        (["query", "FROM flow", "--project", "metrics"], "metrics is no Hourline project"),
        (["query", "FROM flow"], "metric 'flow' has no tables yet"),
        (["query", "FROM Flow_states"], "metric 'flow' has no tables yet"),
        (["query", "FROM events_scans"], "source 'scans' has no tables yet"),
        (["query", "FROM rejected_scans"], "source 'scans' has no tables yet"),
        (["query", "FROM event_scans"], "there is no view 'event_scans' — did you mean 'events_scans'?"),
        (["query", "FROM flwo"], "there is no view 'flwo'"),
        (["query", "SELEC 1"], "syntax error"),
        (["query", "SELECT 1; SELECT 2"], "exactly one SELECT"),
        (["query", "DROP TABLE flow"], "exactly one SELECT"),
        (["query", "SELECT 1", "--output", "x.parquet"], "--format csv, json, jsonl or parquet"),
        (["query", "SELECT 1", "--format", "csv", "--output", "no/where.csv"], "the folder"),
        (["export", "x.db"], "want FILE.duckdb or FOLDER/"),
        (["export", "no/x.duckdb"], "the folder"),
        (["export", "metrics/"], "something else than an export"),
        (["advise", "grace", "scnas"], "there is no source 'scnas' — did you mean 'scans'?"),
        (["advise", "grace", "scans", "--from", "noon"], "'noon' is not an hour"),
        (["advise", "grace", "scans"], "nothing of 'scans' is archived yet"),
        (["schema", "metrics"], "did you mean 'metric'?"),
        (["show", "flwo"], "there is no metric 'flwo' — did you mean 'flow'?"),
        (["topics", "tail", "x", "--from", "0", "--last", "3"], "got --from and --last, allowed is one of them"),
        (["topics", "tail", "x", "--from", "noon"], "allowed are beginning, end, an offset, and a time"),
        (["topics", "tail", "x", "--from", "2024-05-06T22:00"], "a time with its offset from UTC"),
        (["topics", "tail", "x", "--source", "scnas"], "there is no source 'scnas' — did you mean 'scans'?"),
        (["topics", "create", "x", "--config", "cleanup.policy"], "want KEY=VALUE"),
        (["topics", "create", "x", "--config", "a=1", "--config", "a=2"], "allowed is each key once"),
        (["topics", "delete", "command_line", "--yes"], "is read by source 'scans'; add --accept-loss"),
        (["topics", "delete", "x"], "there is no terminal to ask for confirmation; add --yes"),
        (["test", "late"], "there is no test 'late'"),
        (["test"], "write tests/NAME.yaml, or record one with --record METRIC HOUR"),
        (["test", "--junit", "no/where.xml"], "the folder"),
        (["test", "late", "--record", "flow", "2024-05-06T20"], "give --record alone"),
        (["test", "--record", "flwo", "2024-05-06T20"], "there is no metric 'flwo' — did you mean 'flow'?"),
        (["test", "--record", "flow", "noon"], "'noon' is not an hour"),
        (["test", "--record", "flow", "2024-05-06T20"], "'flow' has no hour 2024-05-06T20:00Z"),
    ],
)
def test_a_wrong_argument_gets_one_sentence(failing: Failing, declared: Path, arguments: list[str], said: str) -> None:
    assert said in failing.sentence(*arguments, folder=declared)


def commands_with_a_range() -> dict[str, Any]:
    """By its words, each command with --from and --to."""
    waiting, found = [("", typer.main.get_command(app))], {}
    while waiting:
        words, command = waiting.pop()
        waiting += [(f"{words} {name}".strip(), one) for name, one in getattr(command, "commands", {}).items()]
        if {"--from", "--to"} <= {option for parameter in command.params for option in parameter.opts}:
            found[words] = command
    return found


def test_every_command_refuses_a_reversed_range_by_the_same_sentence(failing: Failing, declared: Path) -> None:
    needed = {"audit": ["flow"], "advise grace": ["scans"]}
    assert {"audit", "advise grace", "backfill", "recompute"} <= commands_with_a_range().keys()
    for words in commands_with_a_range():
        reversed_range = ["--from", "2024-05-06T22", "--to", "2024-05-06T20"]
        said = failing.sentence(*words.split(), *needed.get(words, []), *reversed_range, folder=declared)
        assert said.endswith(REVERSED), words


@pytest.mark.parametrize(
    ("file", "right", "wrong", "said"),
    [
        ("metrics/flow.yaml", "sum(weight)", "smu(weight)", "metrics/flow.yaml:8: measures.weight: got 'smu(weight)'"),
        ("metrics/flow.yaml", "sum(weight)", "mode(weight)", "cannot be merged"),
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


def test_a_name_that_is_a_word_of_sql_is_told_to_need_quotes(failing: Failing, tmp_path: Path) -> None:
    write_project(
        tmp_path, {**PROJECT, "metrics/by.yaml": "source: scans\ndimensions: [depot]\nmeasures: {order: count}\n"}
    )
    said = failing.sentence("query", "SELECT order FROM by", folder=tmp_path)
    assert said.endswith('; in double quotes, a word of SQL is a name: "by", "order"')
    assert "no tables yet" in failing.sentence("query", 'SELECT "order" FROM "by"', folder=tmp_path)


def test_every_mistake_is_told_at_once(failing: Failing, tmp_path: Path) -> None:
    flow = PROJECT["metrics/flow.yaml"].replace("sum(weight)", "smu(weight)").replace("mean(speed)", "maen(speed)")
    write_project(tmp_path, {**PROJECT, "metrics/flow.yaml": flow, "sources/again.yaml": PROJECT["sources/scans.yaml"]})
    said = failing.lines("plan", folder=tmp_path, status=1)
    assert len(said) == 3
    for part in ("smu(weight)", "did you mean 'mean(speed)'?", "one source per topic"):
        assert sum(part in line for line in said) == 1, said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--from", "2024-05-06T22", "--to", "2024-05-06T22"], "give 2024-05-06T23:00Z as its end"),
        (["--from", "2024-05-06T22:30", "--to", "2024-05-07"], "not on the hour (UTC)"),
        (["--from", "2124-05-06T22", "--to", "2124-05-07"], "lies in the future"),
        (["--from", "2024-05-06T22", "--to", "2024-05-07", "--metric", "flwo"], "did you mean 'flow'?"),
    ],
)
def test_a_wrong_range_to_backfill_gets_one_sentence(
    failing: Failing, declared: Path, arguments: list[str], said: str
) -> None:
    assert said in failing.sentence("backfill", *arguments, folder=declared)


def said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[str]:
    """The lines that a command prints on a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "argv", ["hourline", *arguments])
    with pytest.raises(SystemExit) as ended:
        run()
    assert not ended.value.code
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("group", [[], ["advise"], ["airflow"], ["topics"]])
def test_the_help_has_a_whole_sentence_for_each_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, group: list[str]
) -> None:
    lines = said(capsys, monkeypatch, *group, "--help")
    commands = [line for line in lines if re.match(r"  [a-z]+  ", line)]
    assert commands
    assert all(line.endswith(".") and not line.endswith("...") for line in commands), commands


def test_the_help_lists_commands_by_what_one_does_with_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\n".join(said(capsys, monkeypatch, "--help"))
    panels = dict(re.findall(r"^([A-Z][a-z]+):\n((?:  .*\n?)+)", text, re.MULTILINE))
    assert list(panels) == ["Options", "Build", "Run", "Recompute", "Ask", "Operate"]
    assert "  airflow " in panels["Run"]
    assert "  query " in panels["Ask"]


def test_the_version_is_that_of_the_package(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said(capsys, monkeypatch, "--version") == [f"hourline {importlib.metadata.version('hourline')}"]


def test_what_show_prints_of_a_metric_in_sql_is_the_same_metric(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KAFKA", NO_KAFKA)
    statement = "SELECT size, TUMBLE(event_time, INTERVAL '1' HOUR), AVG(speed) FILTER (WHERE weight > 1) AS speed"
    in_sql = f"description: x\nsql: |\n  {statement}\n  FROM scans WHERE note <> 'it''s: #1' GROUP BY 1\n"
    write_project(tmp_path, {**PROJECT, "metrics/flow.yaml": in_sql})
    meant = load_project(tmp_path).metrics["flow"]
    shown = "\n".join(said(capsys, monkeypatch, "show", "flow", "--project", str(tmp_path)))
    write_project(tmp_path, {**PROJECT, "metrics/flow.yaml": shown})
    assert load_project(tmp_path).metrics["flow"] == meant


@pytest.mark.parametrize(
    ("moments", "shown"),
    [
        (["08:00", "09:30"], ["08:00", "09:30"]),
        (["08:00", "09:30:07"], ["08:00:00", "09:30:07"]),
        (["08:00", "09:30:07.250"], ["08:00:00.000", "09:30:07.250"]),
        (["08:00:00.000001"], ["08:00:00.000001"]),
    ],
)
def test_a_column_of_times_is_as_exact_as_its_most_exact_one(
    capsys: pytest.CaptureFixture[str], moments: list[str], shown: list[str]
) -> None:
    times = [datetime.fromisoformat(f"2026-03-02T{moment}").replace(tzinfo=UTC) for moment in moments]
    hour = datetime(2026, 3, 2, 8, tzinfo=UTC)
    say_table(["hour", "at"], [(hour, None), *((hour, time) for time in times)])
    _, _, *rows = capsys.readouterr().out.splitlines()
    assert [row.rstrip() for row in rows] == [f"2026-03-02 08:00  2026-03-02 {text}" for text in shown]


@pytest.mark.parametrize(
    ("amount", "shown"),
    [(94.8388320065324, "+94.8388"), (-1234567.0, "-1,234,567"), (-0.000396825396, "-0.000396825"), (0.0, "+0")],
)
def test_a_difference_has_as_many_digits_as_a_person_reads(amount: float, shown: str) -> None:
    assert signed_number(amount) == shown


def test_a_recompute_of_several_jobs_tells_hours_and_events(capfd: pytest.CaptureFixture[str]) -> None:
    def tell(*done: tuple[int, int], estimated: timedelta | None = None) -> str:
        with recompute_progress("backfill") as move:
            for one in ((0, 0), *done):
                move(RecomputeProgress(wall_clock(), Work(*one), Work(24, 9_000), None if one[0] else estimated))
        return capfd.readouterr().err

    assert tell((8, 1_000), (24, 9_000)) == "24 of 24 hours, 9,000 of 9,000 events\n"
    assert tell((24, 9_000), estimated=timedelta(seconds=50)) == "", "one job says by itself what it has published"
    assert tell((24, 9_000), estimated=timedelta(minutes=12)) == (
        "24 hours are left, 9,000 events, about 12 min by the pace of the last recomputes\n"
    )


def test_without_a_terminal_progress_is_a_line_now_and_then(capfd: pytest.CaptureFixture[str]) -> None:
    seconds = 0.0
    with progress("export", "tables", 12, clock=lambda: seconds) as move:
        for done in range(1, 13):
            seconds = float(done)
            move(done)
    shown = [line.split(" of ")[0] for line in capfd.readouterr().err.splitlines()]
    assert shown == ["5", "10", "12"]
