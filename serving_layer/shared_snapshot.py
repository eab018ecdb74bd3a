"""The newest snapshot, attached to a database that concurrent readers share.

A reader that waits for another one's opening gets the same snapshot, unless that opening had begun before it. What was
opened last stays for the next reader. A reader that comes before another commit waits only for the versions of the
tables.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

import duckdb

from hourline_core.ledger.snapshot import Snapshot, take_snapshot
from hourline_core.model import Project
from hourline_core.model.hours import Clock


@dataclass(frozen=True)
class Opened:
    """A snapshot with its tables attached."""

    snapshot: Snapshot
    taken: datetime
    """When, in UTC."""
    database: duckdb.DuckDBPyConnection


class _Last(NamedTuple):
    """What was opened last, of which project, by which clock, and when the opening began (monotonic seconds)."""

    project: Project
    clock: Clock
    began: float
    opened: Opened


class SharedSnapshot:
    """What was opened last, for all threads. A process has one: NEWEST."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: _Last | None = None

    def open(
        self, project: Project, clock: Clock, attached: Callable[[Snapshot, datetime], duckdb.DuckDBPyConnection]
    ) -> Opened:
        """The newest snapshot, with a connection of the caller's own. ``attached`` makes a database if there is
        none. Raises TableError.
        """
        asked = time.monotonic()
        with self._lock:
            last = self._last
            known = last if last and (last.project, last.clock) == (project, clock) else None
            if known and known.began > asked:
                opened = known.opened
            else:
                began, taken, snapshot = time.monotonic(), clock(), take_snapshot(project)
                # By wall time, the closed hours change without a commit.
                by_wall = any(source.clock == "wall" for source in project.sources.values())
                reusable = known is not None and known.opened.snapshot == snapshot and not by_wall
                database = known.opened.database if known and reusable else attached(snapshot, taken)
                opened = Opened(snapshot, taken, database)
                self._last = _Last(project, clock, began, opened)
            connection = opened.database.cursor()
        connection.execute("SET TimeZone = 'UTC'")  # which a cursor does not inherit
        return replace(opened, database=connection)


NEWEST = SharedSnapshot()
