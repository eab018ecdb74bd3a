"""Silence, and any other unusual volume, is a finding of the hour: in the answer of `quality`, in the reports, and,
where it is declared so, a reason to block.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

import serving_layer
from batch_layer import recompute as recomputing
from batch_layer.aggregate import aggregate
from batch_layer.audit import run_audit
from batch_layer.audit.validator import Validator
from batch_layer.job import open_job
from batch_layer.plan import plan
from batch_layer.read_archive import read_events
from batch_layer.recompute import recompute
from batch_layer.stage import StagedSource, stage
from hourline.cli.quality import say_quality
from hourline_core.ledger.report_pages import report_site
from hourline_core.model import Expectation, Volume
from hourline_core.model.hours import wall_clock
from serving_layer.reports.quality import AuditedHour, QualityReport, report_quality
from tests.support.bare_tables import METRICS, SOURCE, BareTables, hour

EVENTS = [*range(24), 30]
"""A feed that never sleeps for a day, and is then silent for six hours, of which five have closed."""


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BareTables]:
    def start(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started for hours without events")

    monkeypatch.setattr(recomputing, "spark_session", start)
    tables = BareTables(tmp_path, EVENTS)
    tables.start()
    tables.micro_batch(len(EVENTS))
    yield tables
    tables.check()


def declare(tables: BareTables, volume: Volume | None = None, *expectations: Expectation) -> None:
    declared = {"volume": volume or Volume(), "expectations": list(expectations)}
    tables.project = replace(tables.project, sources={SOURCE.name: SOURCE.model_copy(update=declared)})


def recompute_silence(tables: BareTables) -> None:
    recompute(tables.project, [item for item in plan(tables.project) if item.events == 0])


def stage_silence(tables: BareTables, held: ExitStack) -> StagedSource:
    planned = [item for item in plan(tables.project) if item.events == 0]
    job = held.enter_context(open_job(tables.project, planned, wall_clock, lambda: pytest.fail("Spark was started")))
    return stage(aggregate(held.enter_context(read_events(job, job.sources[0], None))))


def quality(tables: BareTables) -> QualityReport:
    with serving_layer.connect(tables.project) as connection:
        return report_quality(connection)


def hours_with(audits: list[AuditedHour], outcome: str) -> set[object]:
    return {audit.hour for audit in audits if audit.outcome == outcome}


def test_three_silent_hours_of_a_feed_that_never_sleeps_warn(
    tables: BareTables, capsys: pytest.CaptureFixture[str]
) -> None:
    recompute_silence(tables)
    report = quality(tables)
    assert (report.blocked, report.warned, report.passed) == (0, 3 * len(METRICS), 2 * len(METRICS))
    assert hours_with(report.hours, "warned") == {hour(26), hour(27), hour(28)}
    say_quality(report, findings=True)
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if "2024-03-02 02:00" in line]
    told = "totals warned warn expect_column_values_to_be_between hours of silence hours of silence: 3"
    assert [*["2024-03-02", "02:00"], *told.split()] in lines
    page = (report_site(tables.project) / "index.html").read_text()
    assert "hours of silence" in page
    with serving_layer.connect(tables.project) as connection:
        rows = connection.sql(
            "SELECT hour, found FROM quality WHERE origin = 'history' AND severity = 'warn' AND NOT success ORDER BY hour"
        ).fetchall()
    assert rows == [(hour(number), f"hours of silence: {length}") for number, length in ((26, 3), (27, 4), (28, 5))]


def test_a_declared_minimum_blocks_hours_without_events_until_it_is_changed(tables: BareTables) -> None:
    declare(tables, Volume(min=1))
    recompute_silence(tables)
    silent = {hour(number) for number in range(24, 29)}
    report = quality(tables)
    assert (report.blocked, hours_with(report.hours, "blocked")) == (5 * len(METRICS), silent)
    assert {finding.found for audit in report.hours for finding in audit.findings if finding.severity == "fail"} == {
        "0, where at least 1 is declared"
    }
    assert not [item for item in plan(tables.project) if item.events == 0], "nothing has changed that would let it pass"
    declare(tables, Volume(min=1, severity="warn"))
    assert {(item.hour, item.reason) for item in plan(tables.project) if item.events == 0} == {
        (moment, "blocked") for moment in silent
    }
    recompute_silence(tables)
    report = quality(tables)
    assert (report.blocked, hours_with(report.hours, "warned")) == (0, silent)


def test_of_the_expectations_on_events_those_on_a_whole_hour_are_about_hours_without_events_too(
    tables: BareTables,
) -> None:
    at_least_one = Expectation(type="expect_table_row_count_to_be_between", parameters={"min_value": 1})
    of_a_column = Expectation(type="expect_column_values_to_be_between", parameters={"column": "n", "min_value": 5})
    declare(tables, None, at_least_one, of_a_column)
    recompute_silence(tables)
    report = quality(tables)
    assert (report.blocked, hours_with(report.hours, "blocked")) == (
        5 * len(METRICS),
        {hour(number) for number in range(24, 29)},
    )
    failed = {finding.expectation for audit in report.hours for finding in audit.findings if finding.severity == "fail"}
    assert failed == {"expect_table_row_count_to_be_between"}


def test_of_two_sources_that_are_audited_at_once_the_one_whose_audit_raises_is_blocked_alone(
    tables: BareTables, tmp_path: Path
) -> None:
    other = BareTables(tmp_path / "other", EVENTS)
    other.start()
    other.micro_batch(len(EVENTS))
    declare(tables, None, Expectation(type="expect_table_row_count_to_be_between", parameters={"max_value": 1}))
    silent = {hour(number) for number in range(24, 29)}
    with ExitStack() as held:
        staged = [stage_silence(of, held) for of in (tables, other)]
        both = run_audit.audit(staged)
        with patch.object(Validator, "evaluate_all_facts", side_effect=RuntimeError("out of memory")):
            assert [one.findings for one in run_audit.audit(staged)] == [one.findings for one in both]
        with patch.object(run_audit, "validate_events", side_effect=RuntimeError("out of memory")):
            raising = run_audit.audit(staged)
    blocked = [[set(of.blocked(metric.aggregation)) for metric in of.staged.metrics] for of in (*both, *raising)]
    assert blocked == [[set(), set()], [set(), set()], [silent, silent], [set(), set()]]
    assert raising[1].findings == both[1].findings
