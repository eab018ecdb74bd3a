"""Backfills: interrupted at any point, each hour is recomputed once, and the answers are right at every moment."""

import signal
from collections import Counter
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

import serving_layer
from hourline_core.errors import UsageError
from hourline_core.model.hours import hour_text
from hourline_core.runtime.lease import lease, turn
from serving_layer.reports.recomputing import report_recomputing
from tests.stack.test_merge import running
from tests.support import parcels
from tests.support.speed_process import SpeedProcess, wait_until
from tests.support.stack_project import StackProject

pytestmark = pytest.mark.heavy

HOURS = 6
RANGE = ["--from", hour_text(parcels.BEGIN), "--to", hour_text(parcels.BEGIN + timedelta(hours=HOURS))]


@pytest.mark.long  # test_airflow_backfill.py kills a backfill, too.
@pytest.mark.parametrize("native", [True, False])
def test_a_range_killed_beside_the_stream_is_recomputed_once(
    native: bool, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = parcels.make(tmp_path, kafka, topic=f"backfill_{native}".lower(), few=True, native=native)
    with (project.root / "hourline.yaml").open("a") as settings:
        settings.write("batch: {hours_per_job: 2}\n")
    monkeypatch.setenv("KAFKA", kafka)
    with running(project):
        project.send("scans", parcels.scans(project.random, 300, first_hour=0, hours=10))
        wait_until(lambda: all_read(project), "the stream has stopped", every_seconds=0.3)
        # In the second job, one of two metrics is in final, and nothing of it is published.
        workspace = project.project.workspace
        with ExitStack() as held, lease(workspace, "batch"):
            options = {"command": "backfill", "failpoint": "kill after overwrite final 3"}
            process = held.enter_context(SpeedProcess(project, *RANGE, **options))
            process.wait_for("waiting for process")
            assert progress_of(project) == [(0, HOURS)]
            killed = held.pop_all()
        with killed:
            # The backfill waits already, so this turn is between its first job and its second one.
            with turn(workspace, "batch", lambda process: None):
                process.wait_for("published")
                wait_until(lambda: progress_of(project) == [(2, HOURS)], "the status does not show its progress")
            # Late, in hours that are done already.
            project.send("scans", parcels.scans(project.random, 50, first_hour=0, hours=2))
            assert process.wait() == -signal.SIGKILL, process.lines
        assert progress_of(project) == []
        with serving_layer.connect(project.project) as connection:
            covered = connection.sql(
                "SELECT count(DISTINCT hour) FROM hours WHERE kind = 'metric' AND state IN ('final', 'revised')"
            )
            assert covered.fetchall() == [(2,)], "one job"
        with SpeedProcess(project, *RANGE, command="backfill") as process:
            assert process.wait() == 0, process.lines
        said = "".join(process.lines)
        assert f"resuming: 2 of {HOURS} hours were done" in said
        assert "published 2 hour(s)" in said
        assert f"{HOURS} of {HOURS} hours" in said
        wait_until(lambda: all_read(project), "the stream has stopped", every_seconds=0.3)
    assert list((project.project.workspace / "backfills").iterdir()) == []
    with serving_layer.connect(project.project) as connection:
        published = connection.sql("SELECT DISTINCT metric, hour, published FROM drift").fetchall()
    times = Counter((metric, of) for metric, of, _ in published)
    assert len(times) == 2 * HOURS
    assert set(times.values()) == {1}, "each hour of each metric was recomputed once"
    project.note_cutoffs()
    assert project.check() > 200


@pytest.mark.long
def test_a_dry_run_says_what_and_why_and_changes_nothing(finished_project: StackProject) -> None:
    tables_before = sorted(Path(finished_project.project.tables).rglob("*.json"))
    with pytest.raises(UsageError, match=r"has not closed yet.*--include-open"):
        finished_project.command("backfill", *RANGE)
    said = finished_project.command("backfill", *RANGE, "--dry-run", "--include-open").splitlines()
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
    said_of_none = finished_project.command("backfill", "--from", "2020-01-01", "--to", "2020-01-02")
    assert "no source has an hour" in said_of_none


def progress_of(project: StackProject) -> list[tuple[int, int]]:
    """The hours that are done, and all hours, of each recompute that runs, as `hourline status` shows them."""
    return [(one.hours_done, one.hours) for one in report_recomputing(project.project)]


def all_read(project: StackProject) -> bool:
    """Whether the speed layer has finished all that was sent."""
    read = sum(row["records"] for row in project.table("progress", "scans", ["records"]))
    return bool(read == len(project.sent["scans"]))
