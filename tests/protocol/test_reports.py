"""The reports follow what is published: from the tables, whatever was killed or could not be written."""

from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from batch_layer.findings import look_and_record
from batch_layer.publication import Publication
from batch_layer.reports import follow as following
from batch_layer.reports.follow import follow
from hourline_core.feed.followers import report_followers
from hourline_core.feed.positions import REPORTS, read_position, write_position
from hourline_core.findings.look import look
from hourline_core.ledger.report_pages import page_name, page_path, report_site
from hourline_core.sql.database import open_database
from tests.support.bare_tables import BASE, BareTables, hour

NOW = BASE + timedelta(hours=3)
METRIC = "totals"


@pytest.fixture
def tables(tmp_path: Path) -> BareTables:
    tables = BareTables(tmp_path, hours=[0, 1, 2])
    tables.start()
    tables.micro_batch(3)
    return tables


def pages(tables: BareTables) -> set[str]:
    site = report_site(tables.project)
    return {str(page.relative_to(site)) for page in site.glob("runs/*/*.html")}


def page(publication: int) -> str:
    return page_path(publication, page_name("clicks", METRIC))


def of_others(publication: int) -> str:
    return page_path(publication, page_name("others", None))


def found(tables: BareTables) -> list[str]:
    with open_database(tables.project, lambda: NOW) as (database, snapshot):
        return [one.sentence for one in look(tables.project, database, snapshot, NOW) if one.kind == "reports"]


def test_each_audit_has_a_page_and_the_overview_links_to_it(tables: BareTables) -> None:
    for number in (0, 1):
        tables.publish(number, metrics=[METRIC], blocked=[1])
    assert pages(tables) == set()
    follow(tables.project, lambda: NOW)
    assert pages(tables) == {page(1), page(2), of_others(2)}  # The problem of the others is told by its last audit.
    trend = (report_site(tables.project) / "trends" / f"metric-{METRIC}.html").read_text()
    assert page(1) in trend
    assert page(2) in trend
    assert page(2) in (report_site(tables.project) / "index.html").read_text()  # its hour is blocked
    reports = next(one for one in report_followers(tables.project) if one.name == REPORTS)
    assert (reports.publication, reports.waiting) == (2, 0)


def test_a_page_shows_its_audit_as_it_was_when_later_ones_are_there(tables: BareTables) -> None:
    tables.publish(0, metrics=[METRIC])
    follow(tables.project, lambda: NOW)
    (report_site(tables.project) / page(1)).rename(report_site(tables.project) / "then.html")
    write_position(tables.project, REPORTS, 0)
    tables.publish(0, metrics=[METRIC], blocked=[0])
    follow(tables.project, lambda: NOW)
    then = (report_site(tables.project) / "then.html").read_text()
    assert (report_site(tables.project) / page(1)).read_text() == then


def test_what_a_killed_process_has_not_written_the_next_one_writes(tables: BareTables) -> None:
    tables.publish(0, metrics=[METRIC])
    with patch.object(following, "write_overview", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        follow(tables.project, lambda: NOW)
    assert read_position(tables.project, REPORTS) == 0
    tables.publish(1, metrics=[METRIC])
    follow(tables.project, lambda: NOW)
    assert {page(1), page(2)} <= pages(tables)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyError("a template's variable")])
def test_reports_that_cannot_be_written_are_a_finding_until_they_can(tables: BareTables, error: Exception) -> None:
    tables.publish(0, metrics=[METRIC])
    assert found(tables) == []
    with patch.object(following, "write_page", side_effect=error):
        follow(tables.project, lambda: NOW - timedelta(hours=1))
        follow(tables.project, lambda: NOW)
    [sentence] = found(tables)
    assert sentence.startswith("the reports of the audits cannot be written: ")
    assert sentence.endswith("; the hours are published")
    assert "Traceback" not in sentence
    assert Publication(tables.project).number == 2, "the hour is published"
    follow(tables.project, lambda: NOW)
    assert found(tables) == []
    assert page(1) in pages(tables)


def test_recording_findings_writes_what_was_left_out(tables: BareTables) -> None:
    tables.publish(0, metrics=[METRIC])
    with patch.object(following, "write_page", side_effect=OSError(28, "No space left on device")):
        follow(tables.project, lambda: NOW)
    assert "reports" not in {one.kind for one in look_and_record(tables.project, lambda: NOW)}
    assert page(1) in pages(tables)


def test_the_reports_of_other_tables_are_no_reason_to_leave_out_these(tables: BareTables) -> None:
    write_position(tables.project, REPORTS, 7)
    tables.publish(0, metrics=[METRIC])
    follow(tables.project, lambda: NOW)
    assert page(1) in pages(tables)
    assert read_position(tables.project, REPORTS) == 1


def test_hours_that_a_person_accepts_have_no_page(tables: BareTables) -> None:
    tables.findings = [{"metric": METRIC, "hour": hour(0), "expectation": "accepted", "success": True}]
    tables.publish(1, metrics=["odd"])
    follow(tables.project, lambda: NOW)
    assert page(1) not in pages(tables)
