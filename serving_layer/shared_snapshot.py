"""The newest snapshot, attached to a database that all who ask for it together share.

A reader who has to wait for another one's opening takes what that one gets, unless it had begun before; and what was
opened last stays for the next reader, also when nobody uses it: one who comes before anything else was committed waits
for the versions of the tables alone.
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
    """What was opened last, of which project, by which clock, and when that began (monotonic seconds)."""

    project: Project
    clock: Clock
    began: float
    opened: Opened


_lock = threading.Lock()
_last: _Last | None = None


def open_newest(
    project: Project, clock: Clock, attached: Callable[[Snapshot, datetime], duckdb.DuckDBPyConnection]
) -> Opened:
    """The newest snapshot, with a connection of the caller's own; ``attached`` makes a database where it is not at
    hand. Raises TableError.
    """
    global _last  # noqa: PLW0603 (there is one, as with an lru_cache of size 1)
    asked = time.monotonic()
    with _lock:
        known = _last if _last and (_last.project, _last.clock) == (project, clock) else None
        if known and known.began > asked:
            opened = known.opened
        else:
            began, taken, snapshot = time.monotonic(), clock(), take_snapshot(project)
            # By wall time, which hours are closed changes by itself.
            lasting = (
                known
                and known.opened.snapshot == snapshot
                and not any(source.clock == "wall" for source in project.sources.values())
            )
            opened = Opened(snapshot, taken, known.opened.database if known and lasting else attached(snapshot, taken))
            _last = _Last(project, clock, began, opened)
        connection = opened.database.cursor()
    connection.execute("SET TimeZone = 'UTC'")  # which a cursor does not inherit
    return replace(opened, database=connection)
