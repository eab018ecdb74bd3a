"""All hours of a problem are accepted, or planned again, by its id, on real Delta tables without Spark."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

import serving_layer
from batch_layer.accept import accept, accept_problems
from batch_layer.plan import plan_problem
from batch_layer.publication import Publication
from hourline.cli.quality import say_quality
from hourline_core.errors import ConflictError, UsageError
from hourline_core.ledger.layout import QUALITY_SCHEMA
from hourline_core.ledger.report_pages import report_site
from hourline_core.model.hours import wall_clock
from hourline_core.storage import commits
from hourline_core.storage.opening import open_table
from serving_layer.reports.quality import QualityReport, report_quality
from tests.support.bare_tables import BASE, METRICS, BareTables, hour


class CrashError(Exception):
    """The process dies here."""


@pytest.fixture
def tables(tmp_path: Path) -> BareTables:
    """Hours 1 and 3 failed in one recompute, hour 5 in a later one, and hour 7 is open. Hour 0 was final before."""
    tables = BareTables(tmp_path, hours=[*range(8), 0, 1])
    tables.start()
    tables.micro_batch(8)
    tables.publish(0, 2)
    tables.publish(1, 3, blocked=(1, 3))
    tables.micro_batch(2)
    tables.publish(0, 5, blocked=(0, 5))
    return tables


def quality(tables: BareTables) -> QualityReport:
    with serving_layer.connect(tables.project) as connection:
        return report_quality(connection)


def ids(tables: BareTables) -> dict[str | None, str]:
    return {problem.metric: problem.id for problem in quality(tables).problems}


def shown(tables: BareTables) -> dict[str | None, str]:
    """What the commands of the cards accept, by metric."""
    given = {
        problem.metric: re.findall(r"accept (\S+) --reason", problem.accept or "")
        for problem in quality(tables).problems
    }
    return {metric: one for metric, (one,) in given.items()}


def blocked(tables: BareTables) -> set[tuple[str, int]]:
    return {
        (one.metric, (one.hour - BASE) // timedelta(hours=1))
        for problem in quality(tables).problems
        for one in problem.hours
    }


def test_one_command_accepts_all_hours_of_a_problem_whoever_has_staged_them(tables: BareTables) -> None:
    report = quality(tables)
    assert report.advice.startswith("2 problems block 4 hours: ")
    (totals, _) = sorted(report.problems, key=lambda problem: problem.metric != "totals")
    assert [one.hour for one in totals.hours] == [hour(number) for number in (0, 1, 3, 5)]
    assert [one.readers for one in totals.hours] == ["earlier result", *["provisional result"] * 3]
    tables.check()
    done = accept_problems(tables.project, [shown(tables)["totals"]], "ada", "a sale", wall_clock)
    assert sorted(done.published) == [("totals", hour(number)) for number in (0, 1, 3, 5)]
    assert (done.left, done.since) == ({}, [])
    tables.check()
    assert blocked(tables) == {("odd", number) for number in (0, 1, 3, 5)}
    with pytest.raises(UsageError, match=f"problem '{totals.id}' is closed"):
        accept_problems(tables.project, [totals.id], "ada", "again", wall_clock)
    with serving_layer.connect(tables.project) as connection:
        told = connection.sql("SELECT hour, found FROM quality WHERE origin = 'person' ORDER BY hour").fetchall()
        cutoffs = connection.sql("SELECT hour, cutoff FROM publications WHERE current AND metric = 'totals' ORDER BY 1")
        assert dict(cutoffs.fetchall()) == {
            **dict.fromkeys(map(hour, (1, 2, 3)), 1),
            **dict.fromkeys(map(hour, (0, 5)), 2),
        }
    assert told == [(hour(number), "ada: a sale") for number in (0, 1, 3, 5)]
    assert "There is nothing" not in (report_site(tables.project) / "index.html").read_text()
    accept_problems(tables.project, [shown(tables)["odd"]], "ada", "a sale", wall_clock)
    assert "There is nothing to do" in (report_site(tables.project) / "index.html").read_text()
    tables.check()


def test_an_hour_that_another_problem_blocks_too_waits_for_both(tables: BareTables) -> None:
    """As if the audit of hours 1 and 3 had found something else in hour 3."""
    quality_table = open_table(tables.layout.quality, {})
    (like,) = quality_table.to_pyarrow_table(filters=[("metric", "=", "totals"), ("hour", "=", hour(3))]).to_pylist()
    commits.append(quality_table, pa.Table.from_pylist([{**like, "expectation": "other"}], QUALITY_SCHEMA), {})
    (second,) = (problem for problem in quality(tables).problems if problem.expectation == "other")
    (first,) = (one.id for one in quality(tables).problems if (one.metric, one.expectation) == ("totals", "rows_match"))
    assert second.accept is None
    assert f"{first} blocks all of these hours, too; accepting both publishes 4 hours" in (second.waits_for or "")
    other, newest = second.id, 3
    with pytest.raises(UsageError, match=f"look at {first}, and .* accept {first}@3 {other}@2 --reason"):
        accept_problems(tables.project, [f"{other}@{newest}"], "ada", "a sale", wall_clock)
    done = accept_problems(tables.project, [f"{first}@{newest}"], "ada", "a sale", wall_clock)
    assert done.left == {other: [("totals", hour(3))]}
    assert {cell for cell in blocked(tables) if cell[0] == "totals"} == {("totals", 3)}
    both = [f"{first}@{newest}", f"{other}@{newest}"]
    assert len(accept_problems(tables.project, both, "ada", "a sale", wall_clock).published) == 1
    tables.check()


def test_an_hour_that_failed_after_the_problem_was_shown_is_not_published(tables: BareTables) -> None:
    seen = shown(tables)["totals"]
    tables.publish(3, 7, blocked=(3, 7))  # hour 3 with other rows, and hour 7 for the first time
    done = accept_problems(tables.project, [seen], "ada", "a sale", wall_clock)
    assert sorted(done.published) == [("totals", hour(number)) for number in (0, 1, 5)]
    assert done.since == [("totals", hour(number)) for number in (3, 7)]
    assert {cell for cell in blocked(tables) if cell[0] == "totals"} == {("totals", 3), ("totals", 7)}
    with pytest.raises(UsageError, match=f"failed again since that was shown, .*accept {shown(tables)['totals']} "):
        accept_problems(tables.project, [seen], "ada", "a sale", wall_clock)
    with pytest.raises(UsageError, match=f"look at its 2 hours .*accept {shown(tables)['totals']} "):
        accept_problems(tables.project, [ids(tables)["totals"]], "ada", "a sale", wall_clock)
    tables.check()


@pytest.mark.parametrize(
    "again", [pytest.param((), id="mended", marks=pytest.mark.long), pytest.param((0, 1, 3, 5), id="blocked again")]
)
def test_what_another_process_does_between_two_publications_is_not_overwritten(
    tables: BareTables, again: tuple[int, ...]
) -> None:
    seen, publish = shown(tables)["totals"], Publication.publish

    def overtake(publication: Publication, *given: Any) -> None:
        publish(publication, *given)
        with patch.object(Publication, "publish", publish):
            tables.publish(0, 1, 3, 5, blocked=again)

    with patch.object(Publication, "publish", overtake), pytest.raises(ConflictError, match=r"2 accepted hour.s. are"):
        accept_problems(tables.project, [seen], "ada", "a sale", wall_clock)
    assert {cell for cell in blocked(tables) if cell[0] == "totals"} == {("totals", number) for number in again}
    tables.check()


def test_the_overview_is_written_once_after_all_publications(tables: BareTables) -> None:
    with patch("batch_layer.accept.follow") as renewed:
        accept_problems(tables.project, [shown(tables)["totals"]], "ada", "a sale", wall_clock)
    assert renewed.call_count == 1


def test_what_was_accepted_before_a_crash_stays_and_the_rest_is_accepted_under_the_same_id(tables: BareTables) -> None:
    id = shown(tables)["totals"]
    published: list[int] = []
    publish = Publication.publish

    def publish_once(publication: Publication, *given: Any) -> None:
        if published:
            raise CrashError
        published.append(publication.number)
        publish(publication, *given)

    with patch.object(Publication, "publish", publish_once), pytest.raises(CrashError):
        accept_problems(tables.project, [id], "ada", "a sale", wall_clock)
    tables.check()
    left = {cell for cell in blocked(tables) if cell[0] == "totals"}
    assert 0 < len(left) < 4
    assert id.startswith(f"{ids(tables)['totals']}@")
    done = accept_problems(tables.project, [id], "ada", "a sale", wall_clock)
    assert {(metric, (moment - BASE) // timedelta(hours=1)) for metric, moment in done.published} == left
    tables.check()


def test_the_hours_of_a_problem_are_planned_again_and_no_others(tables: BareTables) -> None:
    planned = plan_problem(tables.project, ids(tables)["totals"])
    assert {(item.metric, item.hour) for item in planned} == {("totals", hour(number)) for number in (0, 1, 3, 5)}
    with pytest.raises(UsageError, match="this project has no problem 'deadbeef'"):
        plan_problem(tables.project, "deadbeef")


def test_the_hours_of_a_metric_that_was_declared_again_are_not_planned(tables: BareTables) -> None:
    """The speed layer has not started with the new declaration yet."""
    id, odd = ids(tables)["totals"], ids(tables)["odd"]
    changed = METRICS["totals"].model_copy(update={"where": "n > 0"})
    tables.project = replace(tables.project, metrics={**METRICS, "totals": changed})
    with pytest.raises(UsageError, match=r"can be recomputed now: metric 'totals' has changed; .*`hourline up`"):
        plan_problem(tables.project, id)
    assert len(plan_problem(tables.project, odd)) == 4


def test_a_source_that_has_stopped_is_told_beside_one_that_goes_on(tables: BareTables) -> None:
    """Its four weeks are not those of the other source."""
    tables.publish(0, 1, 3, 5)
    quality_table = open_table(tables.layout.quality, {})
    known = quality_table.to_pyarrow_table(filters=[("metric", "=", "totals"), ("hour", "=", hour(5))]).to_pylist()
    like = max(known, key=lambda row: row["publication"])
    rows = [
        {**like, "expectation": "other", "severity": "warn", "success": False},
        {**like, "source": "others", "metric": None, "hour": hour(60 * 24)},
    ]
    commits.append(quality_table, pa.Table.from_pylist(rows, QUALITY_SCHEMA), {})
    report = quality(tables)
    assert report.advice == "You need not do anything; 1 problem only warned."
    assert (report.warned, report.passed) == (1, 2 * len({0, 1, 2, 3, 5}) - 1)


def test_a_problem_that_fails_again_after_it_was_closed_is_a_new_one(tables: BareTables) -> None:
    before = ids(tables)
    tables.publish(0, 1, 3, 5)
    assert quality(tables).problems == []
    tables.publish(3, blocked=(3,))
    after = ids(tables)
    assert after.keys() == before.keys() and not set(after.values()) & set(before.values())


def test_text_says_first_what_to_do_and_has_a_card_for_each_problem(
    tables: BareTables, capsys: pytest.CaptureFixture[str]
) -> None:
    say_quality(quality(tables), findings=False)
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("2 problems block 4 hours: fix the data")
    cards = [line for line in told if "rows_match" in line]
    assert len(cards) == len(METRICS)
    assert "hours    4, 2024-03-01 00:00 to 2024-03-01 05:00 UTC" in told
    assert "         ██·█·█" in told
    assert any(line.startswith("retry    hourline recompute --problem ") for line in told)
    accept(tables.project, METRICS["odd"], hour(3), "ada", "right", wall_clock)
    say_quality(quality(tables), findings=False)
    assert "         ██···█" in capsys.readouterr().out.splitlines()
