"""The snapshot that all requests share, renewed in the background when the tables have changed, and old ones that were
asked for lately.
"""

import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from hourline_core.ledger.layout import Layout
from hourline_core.ledger.time_travel import token_of
from hourline_core.model import Project
from hourline_core.model.hours import Clock, wall_clock
from hourline_core.storage.open_tables import OpenTables
from serving_layer.changes import Step, changed_hours
from serving_layer.connection import Connection

log = logging.getLogger("hourline.http")

_POLL_SECONDS = 0.3
_RENEWED_SECONDS = 600.0
"""A snapshot is taken again that often in any case: files that it needs are vacuumed some time after newer versions do
not.
"""
_SETTLING_SECONDS = 60.0
"""The same where hours close by the time of day."""
_OLD = 4
"""So many snapshots are kept open beside the newest one."""


class Snapshots:
    """Connections at the newest snapshot, and at older ones; each caller gets one of its own. Threads may share this."""

    def __init__(self, project: Project, clock: Clock = wall_clock) -> None:
        self.project = project
        self._clock = clock
        self._lock = threading.Lock()
        self._old: OrderedDict[str, tuple[Connection, float]] = OrderedDict()
        self._watched = _Watched(project)
        self._by_wall_time = any(source.clock == "wall" for source in project.sources.values())
        self._newest = self._open(None)
        self._taken = time.monotonic()
        self.failing = False
        """Whether the tables could not be read when they were looked at last; answers are those of the last snapshot
        then.
        """

    @property
    def token(self) -> str:
        """Of the newest snapshot."""
        return self._newest.token

    @property
    def identity(self) -> str:
        """Of the tables themselves: those of another workspace in the same place have another."""
        return self._watched.identity

    def reader(self, as_of: str | None = None) -> Connection:
        """A connection at the newest snapshot, or at that of a token or time (ISO text, UTC), which the caller closes.

        Raises UsageError when there is no such answer, or no longer; TableError.
        """
        if as_of is not None:
            token = str(token_of(self.project, as_of, self._clock()))
            if token != self.token:
                return self._at(token)
        with self._lock:
            return self._newest.twin()

    def renew(self) -> Step | None:
        """Take a new snapshot if the tables have changed since the last one: what is other in it; None: it is still the
        newest.

        Raises TableError, and what reading the tables raises; the old snapshot stays then. For one thread alone.
        """
        changed = self._watched.changed()
        age = time.monotonic() - self._taken
        if not changed and not self.failing and age < (_SETTLING_SECONDS if self._by_wall_time else _RENEWED_SECONDS):
            return None
        taken = time.monotonic()
        newest = self._open(None)
        step = Step(newest.token, changed_hours(self._newest, newest))
        with self._lock:
            before, self._newest, self._taken = self._newest, newest, taken
            self._keep(before)
        return step

    def close(self) -> None:
        """Release the tables; connections that are in use stay open until they are closed."""
        with self._lock:
            self._newest.close()
            for connection, _ in self._old.values():
                connection.close()
            self._old.clear()

    def _at(self, token: str) -> Connection:
        with self._lock:
            if token in self._old:
                self._old.move_to_end(token)
                return self._old[token][0].twin()
        connection = self._open(token)
        with self._lock:
            self._keep(connection)
            return connection.twin()

    def _keep(self, connection: Connection) -> None:
        """An old one, for whoever asks for it again, as the next page of an answer does."""
        now = time.monotonic()
        if there := self._old.pop(connection.token, None):
            there[0].close()
        self._old[connection.token] = (connection, now)
        for token, (old, kept) in list(self._old.items()):
            if len(self._old) > _OLD or now - kept > _RENEWED_SECONDS:
                del self._old[token]
                old.close()  # whoever reads at it has a twin, which keeps it alive

    def _open(self, as_of: str | None) -> Connection:
        connection = Connection(self.project, self._clock, as_of=as_of)
        # Half of the cores for one query: a large one leaves the others some.
        connection.database.execute(f"SET threads = {max(1, (os.cpu_count() or 2) // 2)}")
        return connection


class Renewing(threading.Thread):
    """Renews the snapshots until it is stopped, and tells ``on_step`` what has changed."""

    def __init__(self, snapshots: Snapshots, on_step: Callable[[Step], None]) -> None:
        super().__init__(name="renewing", daemon=True)
        self._snapshots = snapshots
        self._on_step = on_step
        self._ended = threading.Event()

    def run(self) -> None:
        """Look every third of a second, but at most half of the time."""
        pause = _POLL_SECONDS
        while not self._ended.wait(pause):
            begun = time.monotonic()
            try:
                step = self._snapshots.renew()
                self._snapshots.failing = False
                if step:
                    self._on_step(step)
            except Exception as error:  # whatever it is, later it may be mended, and until then there are answers
                if not self._snapshots.failing:
                    log.error("the tables cannot be read, answers are those of %s: %s", self._snapshots.token, error)
                self._snapshots.failing = True
            pause = max(_POLL_SECONDS, time.monotonic() - begun)

    def stop(self) -> None:
        """End after what is under way."""
        self._ended.set()
        self.join()


class _Watched:
    """The tables whose versions tell that there is something new: progress and coverage are what a token is made of."""

    def __init__(self, project: Project) -> None:
        layout = Layout.of(project)
        self._options = layout.storage_options
        self._uris = (*map(layout.progress, project.sources.values()), layout.coverage)
        self._seen: list[tuple[str, int] | None] = []
        self.changed()

    @property
    def identity(self) -> str:
        """What tells these tables from others that were put in their place, whose tokens may be the same."""
        # By progress, which is there before any answer; coverage comes with the first publication.
        return ".".join(seen[0] if seen else "" for seen in self._seen[:-1])

    def changed(self) -> bool:
        """Whether any of them has another version than when it was looked at last, or is another."""
        with OpenTables(self._options) as opened:
            found = [
                (str(table.metadata().id), table.version()) if (table := opened.find(uri)) else None
                for uri in self._uris
            ]
        before, self._seen = self._seen, found
        return found != before
