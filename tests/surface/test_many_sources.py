"""The commands for a project of many sources: what is wrong comes first, and nothing takes more than a screen or two."""

from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from batch_layer.plan import PlannedHour
from hourline.cli import app
from hourline.cli.plan import say_planned
from hourline.cli.status import Order, say_status
from serving_layer.connection import Connection
from serving_layer.reports.findings import find_findings
from serving_layer.reports.status import report_project_status
from tests.support.command_line import answer
from tests.support.many_sources import END, NOW, ManySources, Size, write_many_sources

SOURCES, METRICS, PROBLEMS = 6, 12, 5


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> ManySources:
    size = Size(sources=SOURCES, metrics=METRICS, hours=30, problems=PROBLEMS, audited=5, expectations=1)
    return write_many_sources(tmp_path_factory.mktemp("many"), size)


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def test_status_tells_what_is_wrong_then_a_row_for_each_source_that_needs_a_look_first(many: ManySources) -> None:
    lines = answer("status", folder=many.project.root).splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("many: ")) + 1
    assert [" blocks " in line for line in lines[first : first + PROBLEMS + 1]] == [*[True] * PROBLEMS, False]
    names, row = _table(lines)
    assert names == ["s3", "s1", "s2", "s4", "s5", "s6"]  # All but s6 are blocked. s3 and s6 wait for a recompute.
    assert row["s6"].split()[-1] == "...................!..~~"
    assert ". final, ~ provisional, ! revised, x blocked" in lines


def test_status_is_bounded_and_in_natural_order_by_name(many: ManySources, capsys: pytest.CaptureFixture[str]) -> None:
    report = report_project_status(many.project, 24)
    report.sources = [
        one.model_copy(update={"source": f"s{number}"}) for number in range(100, 0, -1) for one in report.sources[:1]
    ]
    report.wrong *= 100
    say_status(many.project, report, None, Order.NAME)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 60
    assert _table(lines)[0] == [f"s{number}" for number in range(1, 41)]
    more = len(report.wrong) - 10
    assert f"… and {more} more; `hourline quality` lists the findings and the problems of hours" in lines
    assert "… and 60 more; `hourline status --source NAME` shows one" in lines


def _table(lines: list[str]) -> tuple[list[str], dict[str, str]]:
    """The names in the table of sources, in order, and the row of each."""
    head = next(number for number, line in enumerate(lines) if line.startswith("source "))
    rows = [line for line in lines[head + 1 :] if line[:1] == "s" and line[1].isdigit()]
    return [row.split()[0] for row in rows], {row.split()[0]: row for row in rows}


def test_status_of_one_source_lists_its_hours_and_what_is_wrong_with_it(many: ManySources) -> None:
    lines = answer("status", "--source", "s6", "--last", "3", folder=many.project.root).splitlines()
    shown = [line.split() for line in lines[-3:]]
    hours = ["2026-03-02 09:00", "2026-03-02 10:00", "2026-03-02 11:00"]
    assert [" ".join(cells[:2]) for cells in shown] == hours
    assert [cells[2:4] for cells in shown] == [["s6", "final"], ["s6", "provisional"], ["s6", "provisional"]]
    assert not [line for line in lines if " blocks " in line]


def test_the_status_counts_the_closed_hours_in_the_weakest_state(many: ManySources) -> None:
    report = report_project_status(many.project, 1)
    for status in report.sources:
        number = int(status.source[1:])
        blocked = set[object]().union(*(many.blocked.get(f"m{of}", set()) for of in (number, number + SOURCES)))
        revised = number % 3 == 0  # a late event of each kind, three times
        wanted = ("blocked", len(blocked)) if blocked else ("revised", 1) if revised else ("final", 28)
        assert (status.state, status.hours) == wanted, status.source
        assert status.oldest_open == END - timedelta(hours=2)
        # The progress of all sources is read at once.
        assert (status.accepted, status.rejected) == (30 * 6 + 6 * revised, 28 if number == 5 else 0)
        assert [(one.topic, one.clock) for one in status.partitions] == [(status.source, END - timedelta(minutes=1))]
    states = {metric.metric: (metric.state, metric.hours) for metric in report.metrics}
    assert states["m1"] == ("blocked", len(many.blocked["m1"]))
    assert states["m7"] == ("final", 28)  # The other metric of s1 is not blocked.


def test_what_is_found_is_of_each_source_by_itself(many: ManySources) -> None:
    with Connection(many.project, lambda: NOW) as connection:
        found = {(one.source, one.kind): one.numbers for one in find_findings(connection)}
    assert {source: numbers["rejected"] for (source, kind), numbers in found.items() if kind == "rejected"} == {
        "s5": 28
    }


def test_quality_shows_many_problems_as_a_table_and_one_as_a_card(many: ManySources) -> None:
    lines = _blocked("quality", folder=many.project.root)
    rows = [line.split() for line in lines if " blocked " in line and "rule" in line]
    assert {(row[2], int(row[5])) for row in rows} == {(of, len(hours)) for of, hours in many.blocked.items()}
    assert len(lines) <= PROBLEMS + 20  # with what is found of the sources
    card = _blocked("quality", "--problem", rows[0][0], folder=many.project.root)
    assert [line.split()[0] for line in card if "blocked" in line and "rule" in line] == [rows[0][0]]
    assert f"hourline recompute --problem {rows[0][0]}" in "\n".join(card)
    wrong = CliRunner().invoke(app, ["quality", "--problem", "none", "--project", str(many.project.root)])
    assert "no problem 'none' is open here" in str(wrong.exception)


def test_plan_groups_many_hours_by_metric_and_reason(capsys: pytest.CaptureFixture[str]) -> None:
    def planned(metric: str, reason: str, back: int) -> PlannedHour:
        return PlannedHour("s", metric, END - timedelta(hours=back), reason, 2, True, None, None)

    many = [planned("m10", "revised", back) for back in range(60)]
    say_planned([*many, planned("m9", "revised", 5), planned("m10", "blocked", 7), planned("m10", "blocked", 3)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines[1:4]] == [
        ["m10", "revised", "60"],
        ["m10", "blocked", "2"],
        ["m9", "revised", "1"],
    ]
    assert lines[1].split()[3:] == ["2026-02-28", "01:00", "2026-03-02", "12:00", "120"]
    assert lines[4:] == ["63 hours × metrics in all; `hourline plan --format json` lists them"]
    say_planned(many[:40])
    assert len(capsys.readouterr().out.splitlines()) == 41


def _blocked(*arguments: str, folder: Path) -> list[str]:
    """The output of a command that says by its exit status that hours are blocked."""
    done = CliRunner().invoke(app, [*arguments, "--project", str(folder)], catch_exceptions=False)
    assert done.exit_code == 1, done.output
    return done.stdout.splitlines()
