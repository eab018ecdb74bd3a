"""The rounds of one sink: read what may differ, compare it with what was sent, and send what does differ."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from hourline_core.model import Project, Sink
from hourline_core.model.hours import Clock
from serving_layer.connection import Connection
from serving_layer.sinks.rows import read_columns, read_rows
from serving_layer.sinks.scope import Moment, find_scope
from serving_layer.sinks.sent_results import SentResults
from serving_layer.sinks.target import OpenTarget, Target, open_target

_OLDEST = timedelta(hours=1)
"""After this time without a round, everything is compared. The files of an old snapshot are deleted after two hours."""


class StoppedError(Exception):
    """A round has ended before everything was sent, since it was told to stop."""


class Sender:
    """Sends the results of one sink. For one thread."""

    def __init__(
        self,
        project: Project,
        sink: Sink,
        clock: Clock,
        open_target: OpenTarget = open_target,
        stops: Callable[[], bool] = lambda: False,
    ) -> None:
        """``stops`` says whether to send no more. Raises SinkError if what was sent cannot be read."""
        self.sink = sink
        self._stops = stops
        self._project, self._clock, self._open_target = project, clock, open_target
        self._sent = SentResults(sent_file(project, sink))
        self._target: Target | None = None
        self._before: Moment | None = None

    def send_changes(self, connection: Connection) -> tuple[int, int]:
        """Send how the results at the snapshot of ``connection`` differ from what was sent. Returns the number of
        results that were sent, and of those that are gone. It closes the connection, sooner or later.

        Whatever it raises, the next call sends what is left: SinkError and BrokerError if they were not taken,
        TableError if they cannot be read, StoppedError if it was told to stop.
        """
        try:
            now = Moment.of(connection, self.sink.metric)
            if now is None:  # It has no tables, yet or any more.
                connection.close()
                self._forget_before()
                return 0, 0
            counts = self._send(now)
        except BaseException:
            connection.close()
            self._end_target()
            raise
        if self._before is not None:
            self._before.connection.close()
        self._before = now
        return counts

    def close(self) -> None:
        """End the connections."""
        self._end_target()
        if self._before is not None:
            self._before.connection.close()
        self._sent.close()

    def _send(self, now: Moment) -> tuple[int, int]:
        metric, token = now.tables.metric, now.connection.token
        if self._before and self._before.tables.declaration != now.tables.declaration:
            self._end_target()  # The results have other columns.
        if self._target is None:
            columns = read_columns(now.connection, metric)
            self._target = self._open_target(self._project, self.sink, metric, columns, self._sent)
            self._forget_before()  # What the target has is known only now, so everything is compared with it.
        elif self._before and now.connection.taken - self._before.connection.taken > _OLDEST:
            self._forget_before()
        scope = find_scope(self.sink, self._before, now)
        if scope.spans is not None and not scope.spans:
            return 0, 0
        sent = gone = 0
        first_revision = self._next_revision()
        rows = read_rows(now.connection, metric, scope.spans, scope.condition)
        with now.connection.naming_damage():
            for results in self._sent.find_changes(rows, scope.spans, scope.kept):
                for start in range(0, len(results), self._target.results_at_once):
                    if self._stops():
                        raise StoppedError
                    part = results[start : start + self._target.results_at_once]
                    self._target.send(part, token, self._next_revision(), self._sent)
                    gone += sum(one.value is None for one in part)
                    sent += len(part)
        if scope.spans is None:
            self._target.end_round(first_revision)
        return sent, gone

    def _next_revision(self) -> int:
        """A number above each one before: the time in milliseconds, or one more than the last. So it also rises after
        the workspace was restored from an older backup.
        """
        return max(self._sent.revision + 1, int(self._clock().timestamp() * 1000))

    def _end_target(self) -> None:
        if self._target is not None:
            target, self._target = self._target, None
            target.close()

    def _forget_before(self) -> None:
        if self._before is not None:
            self._before.connection.close()
            self._before = None


def sent_file(project: Project, sink: Sink) -> Path:
    """The file with what a sink has sent last."""
    return project.workspace / "sinks" / f"{sink.name}.duckdb"
