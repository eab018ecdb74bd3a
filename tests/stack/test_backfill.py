"""Backfills: interrupted at any point, each hour is recomputed once, and the answers are right at every moment."""

import json
import signal
from collections import Counter
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

import serving_layer
from batch_layer.backfill import Backfill, estimate, hours_per_job, plan_backfill
from batch_layer.plan import plan
from hourline_core.errors import TableError
from hourline_core.model.hours import HourRange, hour_text
from tests.support import parcels
from tests.support.bare_tables import BareTables, hour
from tests.support.speed_process import SpeedProcess, wait_until
from tests.support.stack_project import StackProject
from tests.surface.test_command_line import NO_KAFKA, PROJECT, Failing, declared, failing, hourline  # noqa: F401 (fixtures)

pytestmark = pytest.mark.beside

ALL = HourRange(hour(0), hour(9))
DAYS = ["--from", hour_text(parcels.BEGIN), "--to", hour_text(parcels.BEGIN + timedelta(days=4))]


def test_a_backfill_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    tables = started(tmp_path, [0, 1, 2, 3, 0, 5])
    tables.publish(0, 1)  # covered before: to be done all the same
    planned = plan_backfill(tables.project, ALL)
    assert hours_of(planned) == {"totals": [0, 1, 2, 3, 5], "odd": [0, 1, 2, 3, 5]}
    assert not planned.resumed
    interrupt(planned, lambda: tables.publish(0, 2, metrics=["totals"]))

    tables.publish(3, metrics=["odd"])  # by the hourly recompute
    planned = plan_backfill(tables.project, ALL)
    assert planned.resumed
    assert hours_of(planned) == {"totals": [1, 3, 5], "odd": [0, 1, 2, 5]}
    assert plan_backfill(tables.project, HourRange(hour(0), hour(2))).resumed is False, (
        "another range, another backfill"
    )
    assert plan_backfill(tables.project, ALL, ["odd"]).resumed is False, "other metrics, another backfill"

    interrupt(planned, lambda: tables.publish(0, 1, 2, 3, 5))
    planned = plan_backfill(tables.project, ALL)
    assert planned.left == []
    planned.run()
    assert not plan_backfill(tables.project, ALL).resumed, "it was done"
    assert len(plan_backfill(tables.project, ALL).left) == 10
    tables.check()


def test_a_late_event_does_not_make_an_hour_be_done_twice(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, [0, 1, 5, 0])
    tables.start()
    tables.micro_batch(3)
    interrupt(plan_backfill(tables.project, ALL), lambda: tables.publish(0))
    tables.micro_batch(1)
    assert hours_of(plan_backfill(tables.project, ALL)) == {"totals": [1, 5], "odd": [1, 5]}
    assert next((item.hour, item.reason) for item in plan(tables.project)) == (hour(0), "revised")


def test_what_it_remembers_must_be_readable(tmp_path: Path) -> None:
    tables = started(tmp_path, [0])
    planned = plan_backfill(tables.project, ALL)
    interrupt(planned, lambda: None)
    assert planned.file
    planned.file.write_text('{"begun": ')
    with pytest.raises(TableError, match="delete it to begin anew"):
        plan_backfill(tables.project, ALL)


def test_an_estimate_by_the_pace_of_past_recomputes(tmp_path: Path) -> None:
    tables = started(tmp_path, [0, 1, 2, 2, 2])
    assert estimate(tables.project, plan_backfill(tables.project, ALL).wanted) is None
    tables.publish(0, 1)
    left = plan_backfill(tables.project, ALL).left
    assert estimate(tables.project, left) is None, "it was not timed"
    assert sum(item.events for item in left) == 10
    for events, seconds in ((100, 7.0), (300, 11.0)):  # 5 s a job, 20 ms an event
        tables.publish(0, cost={"events": events, "seconds": seconds})
    assert hours_per_job(tables.project) >= 3
    found = estimate(tables.project, left)
    assert found is not None
    assert abs(found.total_seconds() - 5.2) < 1e-6
    # One that recomputed much in no time does not make anything take less than none.
    tables.publish(0, cost={"events": 100_000, "seconds": 0.1})
    found = estimate(tables.project, left)
    assert found is not None
    assert 0 < found.total_seconds() < 11


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--from", "2024-05-06T22", "--to", "2024-05-06T20"], "reversed"),
        (["--from", "2024-05-06T22", "--to", "2024-05-06T22"], "--to 2024-05-06T23:00Z"),
        (["--from", "2024-05-06T22:30", "--to", "2024-05-07"], "not on the hour (UTC)"),
        (["--from", "2124-05-06T22", "--to", "2124-05-07"], "lies in the future"),
        (["--from", "2024-05-06T22", "--to", "2024-05-07", "--metric", "flwo"], "did you mean 'flow'?"),
    ],
)
def test_a_wrong_range_gets_one_sentence(failing: Failing, declared: Path, arguments: list[str], said: str) -> None:  # noqa: F811 (fixtures)
    assert said in failing.sentence("backfill", *arguments, folder=declared)


@pytest.mark.stack
def test_four_days_killed_twice_beside_the_stream_are_recomputed_once(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = parcels.make(tmp_path, kafka, topic="backfill")
    monkeypatch.setenv("KAFKA", kafka)
    with SpeedProcess(project) as speed:
        speed.wait_until_ready()
        project.send("scans", parcels.scans(project.random, 900, first_hour=0, hours=100))
        wait_until(lambda: all_read(project), "the stream has stopped")
        for place in ("after overwrite coverage 2", "after overwrite final 3"):
            with SpeedProcess(project, *DAYS, command="backfill", failpoint=f"kill {place}") as process:
                process.wait_for("published")
                project.send(
                    "scans", parcels.scans(project.random, 50, first_hour=0, hours=4)
                )  # late, in hours that are done already
                assert process.wait() == -signal.SIGKILL, process.lines
        with serving_layer.connect(project.project) as connection:
            covered = connection.sql(
                "SELECT count(DISTINCT hour) FROM hours WHERE kind = 'metric' AND state IN ('final', 'revised')"
            )
            assert covered.fetchall() == [(72,)], "two jobs of the first one, one job of the second one"
        with SpeedProcess(project, *DAYS, command="backfill") as process:
            assert process.wait() == 0, process.lines
        said = "".join(process.lines)
        assert "resuming: 72 of 96 hours were done" in said
        assert "published 24 hour(s)" in said
        assert "96 of 96 hours" in said
        wait_until(lambda: all_read(project), "the stream has stopped")
        speed.process.send_signal(signal.SIGINT)  # Ctrl-C
        assert speed.wait() == 0, speed.lines
        assert "stopping after the micro-batch under way\n" in speed.lines
    assert list((project.project.workspace / "backfills").iterdir()) == []
    with serving_layer.connect(project.project) as connection:
        published = connection.sql("SELECT DISTINCT metric, hour, published FROM drift").fetchall()
    times = Counter((metric, of) for metric, of, _ in published)
    assert len(times) == 2 * 96
    assert set(times.values()) == {1}, "each hour of each metric was recomputed once"
    project.note_cutoffs()
    assert project.check() > 3000


@pytest.mark.stack
def test_a_dry_run_says_what_and_why_and_changes_nothing(finished_project: StackProject) -> None:
    root = finished_project.root
    tables_before = sorted(Path(finished_project.project.tables).rglob("*.json"))
    day = ["--from", hour_text(parcels.BEGIN), "--to", hour_text(parcels.BEGIN + timedelta(days=1))]
    refused = hourline("backfill", *day, folder=root, status=2)
    assert "has not closed yet" in refused
    assert "--include-open" in refused
    said = hourline("backfill", *day, "--dry-run", "--include-open", folder=root, status=0).splitlines()
    assert said[0].split() == ["from", "(UTC)", "to", "(UTC)", "hours", "why", "metrics", "events"]
    rows = [line.split() for line in said[1:-3]]
    assert [(row[4], " ".join(row[5:-3])) for row in rows] == [
        ("1", "forced"),
        ("1", "revised"),
        ("1", "forced"),
        ("2", "never covered"),
    ]
    assert said[-2].startswith("5 hours, 10 hours × metrics, ")
    assert "by the pace of the last recomputes" in said[-1]
    assert sorted(Path(finished_project.project.tables).rglob("*.json")) == tables_before
    assert not (finished_project.project.workspace / "backfills").exists()
    assert "no source has events" in hourline(
        "backfill", "--from", "2020-01-01", "--to", "2020-01-02", folder=root, status=0
    )


def all_read(project: StackProject) -> bool:
    """Whether the speed layer has finished all that was sent."""
    return bool(sum(row["records"] for row in project.table("progress", "scans")) == len(project.sent["scans"]))


def started(folder: Path, hours: list[int]) -> BareTables:
    """Tables with these events, all of which are closed."""
    tables = BareTables(folder, [*hours, 30])
    tables.start()
    tables.micro_batch(len(hours) + 1)
    return tables


def interrupt(planned: Backfill, after: object) -> None:
    """Run it until ``after`` has been done."""

    def recompute(*arguments: object, **options: object) -> None:
        assert callable(after)
        after()
        raise KeyboardInterrupt

    with patch("batch_layer.backfill.recompute", recompute), pytest.raises(KeyboardInterrupt):
        planned.run()
    assert planned.file
    assert set(json.loads(planned.file.read_text())) == {"begun", "pinned"}


def hours_of(planned: Backfill) -> dict[str, list[int]]:
    return {
        metric: [
            hours for hours in range(9) for item in planned.left if (item.metric, item.hour) == (metric, hour(hours))
        ]
        for metric in ("totals", "odd")
    }
