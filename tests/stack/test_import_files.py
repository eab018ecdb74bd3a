"""History imported from files: each row once, however often it is imported or killed, exact beside the stream, and
never late.
"""

import signal
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import pytest
from typer.testing import CliRunner

import serving_layer
from hourline.cli import app
from hourline_core.runtime.lease import lease
from serving_layer.reports.late import list_imports
from serving_layer.reports.status import report_project_status
from speed_layer.import_files import find_history, import_files
from speed_layer.spark_session import speed_session
from tests.support import parcels
from tests.support.speed_process import SpeedProcess
from tests.support.stack_project import StackProject

pytestmark = pytest.mark.heavy

GARBAGE = [
    b"{",
    b"",
    b"[]",
    b'{"depot": "north", "at": "2924-05-06T20:00:00Z"}',
    b'{"depot": null, "at": "2024-05-06T20:00:00Z"}',
]


def test_history_killed_in_the_middle_and_imported_again_then_the_stream(kafka: str, tmp_path: Path) -> None:
    project = parcels.make(tmp_path / "parcels", kafka, topic="import_history", records_per_batch=200, few=True)
    bodies = parcels.scans(project.random, 650, first_hour=0, hours=6)
    history = project.write_history(tmp_path / "history.jsonl", "scans", [*bodies[:300], *GARBAGE, *bodies[300:]])
    # Another file, with some of the same events.
    more = project.write_history(
        tmp_path / "more.parquet",
        "scans",
        [*parcels.scans(project.random, 100, first_hour=1, hours=5), *bodies[500:530]],
    )

    # The speed layer has never run. Killed when the third chunk is archived, and not finished.
    with SpeedProcess(
        project, str(history), str(more), "--source", "scans", command="import", failpoint="kill after append events 3"
    ) as process:
        assert process.wait() == -signal.SIGKILL, process.lines
    assert project.check_answers() > 200
    said = run_import(project, history, more)
    assert "imported 255 rows of history.jsonl" in said
    assert "(400 were imported before)" in said
    assert "imported 130 rows of more.parquet" in said
    assert "not recomputed, since they have not closed yet: 2 hour(s), 2024-05-07T00:00Z … 2024-05-07T01:00Z" in said
    project.note_cutoffs()
    assert len(project.cutoffs) == 2 * 4, said
    assert project.check() > 300

    # Again, and by another name: nothing is left, and Spark is not even started.
    same = history.rename(tmp_path / "same.jsonl")
    with patch("speed_layer.spark_session.spark_session", side_effect=AssertionError("Spark was started")):
        assert run_import(project, same, more).splitlines() == [
            "same.jsonl: all of its 655 rows were imported before",
            "more.parquet: all of its 130 rows were imported before",
            "not recomputed, since they have not closed yet: 2 hour(s), 2024-05-07T00:00Z … 2024-05-07T01:00Z",
            "No hour needs a recompute.",
        ]

    # The stream begins, and knows the ids of what was imported.
    assert lag(project) == (0, 0)
    project.send("scans", [*parcels.scans(project.random, 200, first_hour=3, hours=5), *bodies[600:]])
    assert lag(project) == (250, 0)
    finished = project.drain()
    assert sum(done.duplicates for done in finished) > 10
    assert project.check() > 300

    # Older history, while the stream has come further: it is not late, and the stream goes on where it was.
    older = project.write_history(
        tmp_path / "older.jsonl", "scans", parcels.scans(project.random, 300, first_hour=-3, hours=5)
    )
    late_before = late(project)
    assert late_before > 0
    imported = import_here(project, older)
    assert imported == [300, 300]
    assert late(project) == late_before
    with serving_layer.connect(project.project) as connection:
        revised = {hour: events for _, hour, events in list_imports(connection)}
    cutoffs = {hour: cutoff for (_, hour), cutoff in project.cutoffs.items()}
    of_file = [event for event in project.events("scans") if event.partition == max(project.files.values())]
    assert revised == Counter(
        event.hour for event in of_file if not event.duplicate and event.sequence > cutoffs.get(event.hour, 10**9)
    )
    assert sum(revised.values()) > 20
    assert lag(project) == (0, 0)
    assert project.check() > 300


def run_import(project: StackProject, *files: Path) -> str:
    """What `hourline import` says, which must succeed."""
    arguments = ["import", *map(str, files), "--source", "scans", "--project", str(project.root)]
    done = CliRunner().invoke(app, arguments, env={"KAFKA": project.kafka}, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def import_here(project: StackProject, file: Path) -> list[int]:
    """Import a file in this process; how many rows that were, and how many of them accepted or duplicates."""
    source = project.project.sources["scans"]
    with lease(project.project.workspace, "speed"), speed_session(project.project) as spark:
        (done,) = import_files(spark, project.project, source, find_history(project.project, source, [str(file)]))
    return [done.rows, done.accepted + done.duplicates]


def late(project: StackProject) -> int:
    with serving_layer.connect(project.project) as connection:
        ((late,),) = connection.sql("SELECT sum(late)::BIGINT FROM hours WHERE kind = 'source'").fetchall()
        assert connection.sql("SELECT count(*) FROM late_events").fetchall() == [(late,)]
    return int(late)


def lag(project: StackProject) -> tuple[int | None, int]:
    (status,) = report_project_status(project.project, last=1).sources
    return status.lag, status.skipped
