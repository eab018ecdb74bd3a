"""Airflow does not grow with its past: once a day, runs that ended long ago are forgotten, and their logs deleted."""

import os
import shutil
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hourline_core.model import Project
from hourline_core.model.hours import Clock, wall_clock
from hourline_core.runtime.airflow.configuration import environment, home
from hourline_core.runtime.supervised import Supervised

_EVERY = timedelta(days=1)
_LARGE_LOG = 20_000_000
"""The log of a part that is larger, in bytes, is moved aside; the one that was moved before it is then gone."""


class Housekeeping:
    """Forgets what is older than ``airflow.runs_kept``. Days are counted across restarts, by a file in AIRFLOW_HOME."""

    def __init__(self, project: Project, clock: Clock = wall_clock) -> None:
        self._project = project
        self._clock = clock
        self._last = home(project) / "hourline.cleaned"
        self._begun = datetime.min.replace(tzinfo=UTC)
        self._cleaning: Supervised | None = None
        self.log = project.workspace / "logs" / "airflow-clean.log"
        """What `airflow db clean` said."""

    def due(self) -> bool:
        """Whether a day has passed. What has just been set up has nothing to forget."""
        return self._clock() - max(self._last_time(), self._begun) >= _EVERY

    def begin(self) -> None:
        """Delete old logs, and have Airflow forget old runs, in a process of its own: that takes seconds."""
        self._begun = self._clock()
        self._note_time()
        oldest = self._clock() - self._project.settings.airflow.runs_kept
        delete_older(home(self._project) / "logs", oldest)
        for log in self._project.workspace.glob("logs/airflow-*.log"):
            cut_short(log)
        clean = (
            "db",
            "clean",
            "--clean-before-timestamp",
            oldest.isoformat(),
            "--skip-archive",
            "--error-on-cleanup-failure",
            "--yes",
        )
        self._cleaning = Supervised(
            [sys.executable, "-m", "airflow", *clean], log=self.log, env=environment(self._project)
        )

    def _last_time(self) -> datetime:
        with suppress(OSError, ValueError):  # it is not there, or was cut short
            return datetime.fromisoformat(self._last.read_text()).astimezone(UTC)
        self._note_time()
        return self._clock()

    def _note_time(self) -> None:
        with suppress(OSError):  # where the disk is full, days are counted without it
            self._last.write_text(self._clock().isoformat())

    def failed(self) -> bool:
        """Whether what was begun has ended, and failed; said once."""
        if self._cleaning is None or self._cleaning.alive():
            return False
        status = self._cleaning.wait()
        self._cleaning = None
        return status != 0

    def stop(self) -> None:
        """Leave what is under way to another day."""
        if self._cleaning is not None:
            self._cleaning.stop()


def delete_older(folder: Path, oldest: datetime) -> None:
    """Delete the files below ``folder`` that were last written before ``oldest`` (UTC), and the folders that are empty
    then.
    """
    for place, _, names in os.walk(folder, topdown=False):
        for name in names:
            file = Path(place, name)
            if file.lstat().st_mtime < oldest.timestamp():
                file.unlink()
        if not any(Path(place).iterdir()) and Path(place).stat().st_mtime < oldest.timestamp():
            Path(place).rmdir()


def cut_short(log: Path) -> None:
    """Move what a large log holds aside. The process that writes it goes on at its beginning, since it appends."""
    if log.stat().st_size > _LARGE_LOG:
        shutil.copyfile(log, log.with_suffix(".log.1"))
        os.truncate(log, 0)
