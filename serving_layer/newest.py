"""The database of the newest snapshot that this process has opened: whoever opens the same one next has its tables attached already.

It stays until another one is opened, also when nobody uses it: a reader who comes again before anything was committed waits for nothing else than
the versions of the tables.
"""

import threading
from collections.abc import Callable

import duckdb

from hourline.declarations import Project
from hourline.snapshot import Snapshot

_lock = threading.Lock()
_newest: tuple[Project, Snapshot, duckdb.DuckDBPyConnection] | None = None


def database_of(project: Project, snapshot: Snapshot, attached: Callable[[], duckdb.DuckDBPyConnection]) -> duckdb.DuckDBPyConnection:
    """A connection of the caller's own to the database of ``snapshot``; ``attached`` makes that where it is not at hand.

    Of those who open the same one together, one does.
    """
    global _newest  # noqa: PLW0603 (there is one, as with an lru_cache of size 1)
    if any(source.clock == "wall" for source in project.sources.values()):
        return attached()  # which hours are settled changes by itself
    with _lock:
        if _newest is None or _newest[:2] != (project, snapshot):
            _newest = project, snapshot, attached()
        connection = _newest[2].cursor()
    connection.execute("SET TimeZone = 'UTC'")  # which a cursor does not inherit
    return connection
