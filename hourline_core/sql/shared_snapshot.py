"""The newest snapshot, attached to a database that concurrent readers share.

A reader that waits for another one's opening gets the same snapshot, unless that opening had begun before it. What was
opened last stays for the next reader. A reader that comes before another commit waits only for the versions of the
tables.
"""

import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

import duckdb

from hourline_core.ledger.snapshot import Snapshot, take_snapshot
from hourline_core.model import Project
from hourline_core.model.hours import Clock
from hourline_core.sql.attach_on_demand import AttachedParts


class Opened(NamedTuple):
    """A snapshot with its tables, to be queried."""

    snapshot: Snapshot
    taken: datetime
    """When, in UTC."""
    database: duckdb.DuckDBPyConnection
    """Each reader has a cursor of it. It is freed with the last of them, once another snapshot was opened."""
    parts: AttachedParts
    damage: tuple[str, ...] = ()
    """What could not be read, or only at an older version: one sentence for each table."""


class _Last(NamedTuple):
    """What was opened last, of which project, by which clock, and when the opening began (monotonic seconds)."""

    project: Project
    clock: Clock
    began: float
    opened: Opened


class SharedSnapshot:
    """What was opened last, for all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: _Last | None = None

    def open(
        self,
        project: Project,
        clock: Clock,
        attachable: Callable[[Snapshot, datetime], tuple[duckdb.DuckDBPyConnection, AttachedParts]],
    ) -> Opened:
        """The newest snapshot. ``attachable`` gives a new database with its tables, if there is none. Raises
        TableError.
        """
        asked = time.monotonic()
        with self._lock:
            last = self._last
            known = last if last and (last.project, last.clock) == (project, clock) else None
            if known and known.began > asked:
                return known.opened
            began, taken, snapshot = time.monotonic(), clock(), take_snapshot(project)
            same = known is not None and known.opened.snapshot == snapshot
            reusable = same and not project.closes_by_wall_time
            if known and reusable:
                opened = known.opened._replace(taken=taken)
            else:
                self._last = None  # Otherwise the memory of both would be in use while the tables are attached.
                opened = Opened(snapshot, taken, *attachable(snapshot, taken))
            self._last = _Last(project, clock, began, opened)
            return opened

    def forget(self, database: duckdb.DuckDBPyConnection) -> None:
        """Give ``database`` to nobody else, since a part of it could not be attached. The next reader gets another."""
        with self._lock:
            if self._last and self._last.opened.database is database:
                self._last = None
