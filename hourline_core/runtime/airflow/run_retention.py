"""Deletes Airflow's old runs and their logs once a day, so that its disk use stays bounded."""

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
"""Size in bytes beyond which the log of a part is moved aside. It replaces the log that was moved before."""


class RunRetention:
    """Deletes runs and logs older than ``airflow.runs_kept``. A file in AIRFLOW_HOME stores when it last did."""

    def __init__(self, project: Project, clock: Clock = wall_clock) -> None:
        self._project = project
        self._clock = clock
        self._last = home(project) / "hourline.cleaned"
        self._begun = datetime.min.replace(tzinfo=UTC)
        self._cleaning: Supervised | None = None
        self.log = project.workspace / "logs" / "airflow-clean.log"
        """The output of `airflow db clean`."""

    def due(self) -> bool:
        """Whether a day has passed since the last time, or since set-up."""
        return self._clock() - max(self._last_time(), self._begun) >= _EVERY

    def begin(self) -> None:
        """Delete old logs, and start the deletion of old runs in a separate process, since that takes seconds."""
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
        with suppress(OSError, ValueError):  # the file is missing or incomplete
            return datetime.fromisoformat(self._last.read_text()).astimezone(UTC)
        self._note_time()
        return self._clock()

    def _note_time(self) -> None:
        with suppress(OSError):  # if the disk is full, the time is known in memory only
            self._last.write_text(self._clock().isoformat())

    def failed(self) -> bool:
        """Whether the deletion has ended and failed. True only once for each failure."""
        if self._cleaning is None or self._cleaning.alive():
            return False
        status = self._cleaning.wait()
        self._cleaning = None
        return status != 0

    def stop(self) -> None:
        """Stop a running deletion. The next day's deletion does its work."""
        if self._cleaning is not None:
            self._cleaning.stop()


def delete_older(folder: Path, oldest: datetime) -> None:
    """Delete the files below ``folder`` that were last written before ``oldest`` (UTC), and empty folders. Raises
    OSError.
    """
    for place, _, names in os.walk(folder, topdown=False):
        for name in names:
            file = Path(place, name)
            with suppress(FileNotFoundError):  # Airflow has deleted it meanwhile.
                if file.lstat().st_mtime < oldest.timestamp():
                    file.unlink()
        with suppress(OSError):  # Airflow has deleted it meanwhile, or written into it.
            if not any(Path(place).iterdir()) and Path(place).stat().st_mtime < oldest.timestamp():
                Path(place).rmdir()


def cut_short(log: Path) -> None:
    """Move the content of a large log aside. Its process appends, so it continues at the start of the empty file."""
    if log.stat().st_size > _LARGE_LOG:
        shutil.copyfile(log, log.with_suffix(".log.1"))
        os.truncate(log, 0)
