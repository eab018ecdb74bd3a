"""The snapshot that all requests share, and older ones that were asked for recently. It is renewed in the background
when the tables change.
"""

import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hourline_core.errors import TableError
from hourline_core.feed.changed_findings import ChangedFindings, findings_changed_after
from hourline_core.feed.feed_position import FeedPosition
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.time_travel import token_of
from hourline_core.model import Project
from hourline_core.model.hours import Clock, wall_clock
from hourline_core.storage.open_tables import OpenTables
from serving_layer.change_feed import Step, changed_hours, final_windows_of
from serving_layer.connection import Connection

log = logging.getLogger("hourline.serving")

_POLL_SECONDS = 0.3
_AWAITED_POLL_SECONDS = 0.1
"""The same, while somebody waits for the next snapshot."""
_RENEWED_SECONDS = 600.0
"""A snapshot is renewed at least this often: the files that it needs are vacuumed once newer versions do not need
them.
"""
_RENEWED_BY_WALL_SECONDS = 60.0
"""The same, if hours close by wall time."""
_OLD = 4
"""The maximum number of older snapshots that are kept open."""


class Snapshots:
    """Connections at the newest snapshot and at older ones. Each caller gets its own. Threads may share this object."""

    def __init__(self, project: Project, clock: Clock = wall_clock) -> None:
        self.project = project
        self._clock = clock
        self._lock = threading.Lock()
        self._old: OrderedDict[str, tuple[Connection, float]] = OrderedDict()
        self._watched = _Watched(project)
        self._newest = self._open(None)
        self._findings_failing = False
        self._findings = self._look_for_findings(None).up_to
        self.position = position_of(self._newest, self._findings)
        """The position in the feed of the newest snapshot."""
        self._renewed = time.monotonic()
        self._awaited = 0
        self.failing = False
        """Whether the last look at the tables failed. Then answers come from the last snapshot."""

    @property
    def token(self) -> str:
        """The token of the newest snapshot."""
        return self._newest.token

    @property
    def newest(self) -> Connection:
        """The connection at the newest snapshot, to see what it is. A question needs a ``reader``."""
        return self._newest

    @property
    def identity(self) -> str:
        """What identifies the tables themselves. Those of another workspace in the same place differ."""
        return self._watched.identity

    def reader(self, as_of: str | None = None) -> Connection:
        """A connection at the newest snapshot, or at that of a token or time (ISO text, UTC). The caller closes it.
        Raises TableError, and UsageError when there is no such answer, or no longer.
        """
        if as_of is not None:
            token = str(token_of(self.project, as_of, self._clock()))
            if token != self.token:
                return self._at(token)
        with self._lock:
            return self._newest.twin()

    def renew(self) -> Step | None:
        """Take a new snapshot if the tables have changed since the last one, and return the changes, with those of
        findings. None: nothing has changed.

        Raises TableError, and what reading the tables raises; then the old snapshot stays. For one thread only.
        """
        changed = self._watched.changed()
        age = time.monotonic() - self._renewed
        oldest = _RENEWED_BY_WALL_SECONDS if self.project.closes_by_wall_time else _RENEWED_SECONDS
        findings = self._look_for_findings(self._findings)
        if not changed and not self.failing and age < oldest:
            if not findings.changes:
                return None
            self._findings, self.position = findings.up_to, position_of(self._newest, findings.up_to)
            return Step(self.position, [], findings=findings.changes)
        began = time.monotonic()
        newest = self._open(None)
        hours = changed_hours(self._newest, newest)
        position = position_of(newest, findings.up_to)
        step = Step(position, hours, final_windows_of(self._newest, newest, hours or []), findings.changes)
        with self._lock:
            before, self._newest, self._renewed = self._newest, newest, began
            self._findings, self.position = findings.up_to, position
            self._keep(before)
        return step

    @contextmanager
    def looked_at_often(self) -> Iterator[None]:
        """Within the block, somebody waits for the next snapshot."""
        with self._lock:
            self._awaited += 1
        try:
            yield
        finally:
            with self._lock:
                self._awaited -= 1

    @property
    def pause(self) -> float:
        """The seconds between two looks at the tables."""
        return _AWAITED_POLL_SECONDS if self._awaited else _POLL_SECONDS

    def close(self) -> None:
        """Release the tables. Connections in use stay open until they are closed."""
        with self._lock:
            self._newest.close()
            for connection, _ in self._old.values():
                connection.close()
            self._old.clear()

    def _look_for_findings(self, since: int | None) -> ChangedFindings:
        """What was opened and closed after the version ``since``. A damaged table of findings ends no answer."""
        try:
            found = findings_changed_after(self.project, since)
        except TableError as error:
            if not self._findings_failing:
                log.error("the findings cannot be read, /changes tells none: %s", error)
            self._findings_failing = True
            return ChangedFindings((), since or 0)
        self._findings_failing = False
        return found

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
        """An older snapshot, kept for the next request for it, such as the next page of an answer."""
        now = time.monotonic()
        if there := self._old.pop(connection.token, None):
            there[0].close()
        self._old[connection.token] = (connection, now)
        for token, (old, kept) in list(self._old.items()):
            if len(self._old) > _OLD or now - kept > _RENEWED_SECONDS:
                del self._old[token]
                old.close()  # Readers of it have a cursor, which keeps it alive.

    def _open(self, as_of: str | None) -> Connection:
        connection = Connection(self.project, self._clock, as_of=as_of)
        # Half of the cores for one query, so that a large one leaves the others some.
        connection.database.execute(f"SET threads = {max(1, (os.cpu_count() or 2) // 2)}")
        return connection


def position_of(connection: Connection, findings: int) -> str:
    """The position in the feed of a snapshot, and of the version ``findings`` of the table of findings."""
    confirmations = connection.snapshot.other_tables.get("confirmations", 0)
    return str(FeedPosition(connection.token, findings, confirmations))


class Renewing(threading.Thread):
    """Renews the snapshots until it is stopped, and passes changes to ``on_step``."""

    def __init__(self, snapshots: Snapshots, on_step: Callable[[Step], None]) -> None:
        super().__init__(name="renewing", daemon=True)
        self._snapshots = snapshots
        self._on_step = on_step
        self._ended = threading.Event()

    def run(self) -> None:
        """Look every third of a second, or more often if somebody waits, but for at most half of the time."""
        pause = self._snapshots.pause
        while not self._ended.wait(pause):
            begun = time.monotonic()
            try:
                step = self._snapshots.renew()
                self._snapshots.failing = False
                if step:
                    self._on_step(step)
            except Exception as error:  # Whatever it is, it may be mended later. Until then there are answers.
                if not self._snapshots.failing:
                    log.error("the tables cannot be read, answers are those of %s: %s", self._snapshots.token, error)
                self._snapshots.failing = True
            pause = max(self._snapshots.pause, time.monotonic() - begun)

    def stop(self) -> None:
        """End after the current look."""
        self._ended.set()
        self.join()


class _Watched:
    """The tables whose versions show that something is new: progress and coverage, of which a token is made, and what a
    person has confirmed, which changes the states of hours.
    """

    def __init__(self, project: Project) -> None:
        layout = Layout.of(project)
        self._options = layout.storage_options
        self._progress = [layout.progress(source) for source in project.sources.values()]
        self._uris = (*self._progress, layout.coverage, layout.confirmations)
        self._seen: list[tuple[str, int] | None] = []
        self.changed()

    @property
    def identity(self) -> str:
        """What distinguishes these tables from others in their place, whose tokens may be the same."""
        # By progress, which exists before any answer. The others come later.
        return ".".join(seen[0] if seen else "" for seen in self._seen[: len(self._progress)])

    def changed(self) -> bool:
        """Whether any of them has another version than at the last look, or is another table."""
        with OpenTables(self._options) as opened:
            found = [
                (str(table.metadata().id), table.version()) if (table := opened.find(uri)) else None
                for uri in self._uris
            ]
        before, self._seen = self._seen, found
        return found != before
