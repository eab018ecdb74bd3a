"""What Airflow knows of long ago is forgotten once a day; `test_airflow.py` has a real Airflow do it."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hourline import load_project
from hourline.initialise import initialise
from hourline_core.runtime.airflow.configuration import home
from hourline_core.runtime.airflow.run_retention import RunRetention, cut_short, delete_older

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def test_old_logs_go_and_folders_that_are_empty_then(tmp_path: Path) -> None:
    for name, days in (("a/old.log", 91), ("b/old.log", 91), ("b/new.log", 89), ("new.log", 1)):
        file = tmp_path / "logs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("said")
        os.utime(file, ((NOW - timedelta(days=days)).timestamp(),) * 2)
    delete_older(tmp_path / "logs", NOW - timedelta(days=90))
    assert {str(file.relative_to(tmp_path / "logs")) for file in tmp_path.rglob("*.log")} == {"b/new.log", "new.log"}
    assert (tmp_path / "logs" / "a").exists(), "a folder that has just been emptied may be about to be written to"
    os.utime(tmp_path / "logs" / "a", (0, 0))
    delete_older(tmp_path / "logs", NOW - timedelta(days=90))
    assert not (tmp_path / "logs" / "a").exists()


def test_a_log_that_airflow_deletes_meanwhile_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old.log").touch()
    os.utime(tmp_path / "old.log", (0, 0))
    monkeypatch.setattr(os, "walk", lambda folder, topdown: [(str(folder), [], ["gone.log", "old.log"])])
    delete_older(tmp_path, NOW)
    assert not list(tmp_path.iterdir())


def test_a_log_that_is_written_goes_on_at_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "airflow-scheduler.log"
    with log.open("ab") as file:
        file.write(b"x" * 20_000_001)
        file.flush()
        cut_short(log)
        file.write(b"more")
    assert log.read_bytes() == b"more"
    assert (tmp_path / "airflow-scheduler.log.1").stat().st_size == 20_000_001


def test_a_day_is_counted_across_restarts_and_again_where_its_file_was_cut_short(tmp_path: Path) -> None:
    initialise(tmp_path / "shop")
    project = load_project(tmp_path / "shop")
    home(project).mkdir(parents=True)
    assert not RunRetention(project, lambda: NOW).due(), "what has just been set up has nothing to forget"
    assert not RunRetention(project, lambda: NOW + timedelta(hours=23)).due()
    assert RunRetention(project, lambda: NOW + timedelta(hours=24)).due()
    for cut_off in ("", "2026-03", "2026-03-01T00:00:00"):
        (home(project) / "hourline.cleaned").write_text(cut_off)
        assert not RunRetention(project, lambda: NOW).due()
    assert RunRetention(project, lambda: NOW + timedelta(hours=24)).due()
