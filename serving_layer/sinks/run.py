"""Runs all sinks of a project, each in a thread of its own: one that fails stops no other."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import duckdb

from hourline_core.errors import FaultError, HourlineError
from hourline_core.faults import explain_fault, log_fault
from hourline_core.machine import Surroundings
from hourline_core.model import Project, Sink
from hourline_core.model.hours import wall_clock
from hourline_core.runtime.sink_state import read_sink_state, write_sink_state
from serving_layer.connection import Connection
from serving_layer.sinks.sender import Sender, StoppedError
from serving_layer.snapshots import Renewing, Snapshots

_LOOK_SECONDS = 0.1
"""How often a sink looks for a new snapshot."""
_PAUSES = (1.0, 2.0, 5.0, 15.0, 30.0)
"""The seconds until a sink that has failed tries again: after the first failure, the second, and so on."""
_STOP_SECONDS = 35.0
"""The maximum time for which a stop waits for what is being sent. Nothing is lost or wrong after a longer one."""

Say = Callable[[str], None]
"""Says one sentence to a person."""


class RunningSink:
    """One sink, and what is known of it. For one thread."""

    def __init__(self, project: Project, sink: Sink, say: Say, stop: threading.Event | None) -> None:
        """Without ``stop``, it sends once."""
        self.sink = sink
        self._project, self._say, self._stop, self._clock = project, say, stop, wall_clock
        self._state = read_sink_state(project.workspace, sink.name)
        self._sender: Sender | None = None
        self._failures = 0
        self._said_ready = False

    def send(self, connect: Callable[[], Connection]) -> HourlineError | None:
        """Send how the results at the snapshot of a connection differ from what was sent. Returns the reason if
        something was not taken.
        """
        try:
            if self._sender is None:
                self._sender = Sender(self._project, self.sink, self._clock, stops=self._stops)
            connection = connect()
            token = connection.token
            sent, gone = self._sender.send_changes(connection)
        except StoppedError:
            return None
        except Exception as error:
            if self._stops():
                return None  # Its connections may have been closed under it.
            return self._failed(error)
        now = self._clock()
        if self._failures:
            self._say(f"sink {self.sink.name}: goes on")
        elif not self._said_ready:
            self._say(f"sink {self.sink.name}: {self.sink.place} has the results of {self.sink.metric} ({sent:,} sent)")
        self._failures, self._said_ready = 0, True
        self._note(
            token=token,
            checked=now,
            sent=self._state.sent + sent,
            gone=self._state.gone + gone,
            last_sent=now if sent else self._state.last_sent,
            failing_since=None,
            reason=None,
        )
        return None

    @property
    def pause(self) -> float:
        """The seconds until the next try: what ``emit`` says, or up to 30 after a failure."""
        if self._failures:
            return _PAUSES[min(self._failures, len(_PAUSES)) - 1]
        return self.sink.interval.total_seconds()

    @property
    def has_failed(self) -> bool:
        """Whether the last try failed."""
        return self._failures > 0

    def note_running(self, running: bool) -> None:
        """Note whether this process sends until it is stopped."""
        self._note(running=running)

    def close(self) -> None:
        """End its connections."""
        if self._sender is not None:
            sender, self._sender = self._sender, None
            with suppress(duckdb.Error):
                sender.close()

    def _stops(self) -> bool:
        return self._stop is not None and self._stop.is_set()

    def _failed(self, error: Exception) -> HourlineError:
        around = Surroundings((self._project.workspace,), self._project.settings.kafka.bootstrap)
        reason = explain_fault(error, around)
        if not isinstance(error, HourlineError):
            self.close()  # It may be DuckDB's, which then needs to open its file again.
        if isinstance(reason, FaultError) and not self._failures:
            log_fault(error, self._project.workspace / "logs" / "errors.log", f"sink {self.sink.name}")
        if not self._failures and self._stop is not None:
            self._say(f"sink {self.sink.name}: {reason}; it tries again by itself")
        self._failures += 1
        self._note(failing_since=self._state.failing_since or self._clock(), reason=str(reason))
        return reason

    def _note(self, **changed: object) -> None:
        self._state = replace(self._state, **changed)  # type: ignore[arg-type] # by the names of its fields
        write_sink_state(self._project.workspace, self.sink.name, self._state)


def run_sinks(project: Project, say: Say, stop: threading.Event, on_ready: Callable[[], None]) -> None:
    """Send the results of all sinks until ``stop`` is set. Raises TableError if the tables cannot be read at first."""
    snapshots = Snapshots(project)
    renewing = Renewing(snapshots, lambda _: None)
    sinks = [RunningSink(project, sink, say, stop) for sink in project.sinks.values()]
    threads = [threading.Thread(target=_run_sink, args=(one, snapshots, stop), daemon=True) for one in sinks]
    renewing.start()
    for thread in threads:
        thread.start()
    on_ready()
    stop.wait()
    deadline = time.monotonic() + _STOP_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    for sink, thread in zip(sinks, threads, strict=True):
        if thread.is_alive():
            sink.close()
        sink.note_running(False)
    renewing.stop()
    snapshots.close()


def drain_sinks(project: Project, say: Say) -> dict[str, HourlineError]:
    """Send what differs now, of all sinks. Returns by name the reasons of those that have failed. Raises TableError."""
    reasons = {}
    for sink in project.sinks.values():
        running = RunningSink(project, sink, say, None)
        try:
            if reason := running.send(lambda: Connection(project)):
                reasons[sink.name] = reason
            running.note_running(False)  # A process that ran until it was killed may have noted that it runs.
        finally:
            running.close()
    return reasons


def _run_sink(running: RunningSink, snapshots: Snapshots, stop: threading.Event) -> None:
    running.note_running(True)
    sent: Connection | None = None
    pause = 0.0
    while not stop.wait(pause):
        newest = snapshots.newest
        if newest is sent and not running.has_failed:
            pause = _LOOK_SECONDS
            continue
        if running.send(snapshots.reader) is None:
            sent = newest
        pause = max(running.pause, _LOOK_SECONDS)
    running.close()
