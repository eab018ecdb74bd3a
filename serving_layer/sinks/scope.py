"""Which windows a sink compares: those that may differ since its last round, and what its ``emit`` leaves as it is."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

import duckdb

from hourline_core.feed.closed_hours import closed_until
from hourline_core.feed.confirmed_gaps import ConfirmedGaps, confirmed_after
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.ledger.token import AnswerToken
from hourline_core.model import Metric, Sink
from hourline_core.model.hours import HOUR
from hourline_core.sql.literals import literal
from serving_layer.changed_hours import keep_changed_hours
from serving_layer.confirmed_hours import confirmed_hours
from serving_layer.connection import Connection
from serving_layer.reports.hour_summary import read_clocks
from serving_layer.silent_windows import silent_windows
from serving_layer.sinks.rows import Span

_MOST_SPANS = 100
"""If there are more, the time between the first and the last one is compared."""


@dataclass(frozen=True)
class Scope:
    """What a round compares."""

    spans: Sequence[Span] | None
    """Windows that share time with one of these. None: all windows."""
    condition: str
    """SQL: which rows of the metric are sent."""
    kept: Sequence[Span]
    """What was sent of windows that share time with one of these stays as it is, if they have no row to send."""


@dataclass(frozen=True)
class Moment:
    """A snapshot that a round has dealt with."""

    connection: Connection
    tables: MetricTables
    """The metric as it was served."""
    clock: datetime | None
    """The clock of its source (UTC). None: its source had no event."""

    @classmethod
    def of(cls, connection: Connection, metric: str) -> "Moment | None":
        """The snapshot of ``connection``. None: the metric has no tables yet."""
        tables = next((one for one in connection.served if one.metric.name == metric), None)
        return None if tables is None else cls(connection, tables, read_clocks(connection).get(tables.source.name))

    @property
    def closed(self) -> datetime | None:
        """The end of the last hour of its source that had closed (UTC). None: its source had no event."""
        return None if self.clock is None else closed_until(self.tables.source, self.clock)

    def follows(self, before: "Moment") -> bool:
        """Whether the tables are those of ``before``, some commits later, and the metric is served as it was then."""
        then, now = AnswerToken.of(before.connection.snapshot), AnswerToken.of(self.connection.snapshot)
        return (
            before.tables.declaration == self.tables.declaration
            and (now.publication or 0) >= (then.publication or 0)
            and all(now.sequences.get(source, 0) >= sequence for source, sequence in then.sequences.items())
        )


def find_scope(sink: Sink, before: Moment | None, now: Moment) -> Scope:
    """What a round at ``now`` compares. ``before`` is the moment of the last one. None: everything is compared. Raises
    TableError, and UsageError if the snapshot of ``before`` is too old.
    """
    metric, database = now.tables.metric, now.connection.attached("hourline.metric_hours")
    base = now.connection.project.base_of(metric.name)
    spans: list[Span] | None = None
    if before is not None and before.clock and before.closed and now.clock and now.closed and now.follows(before):
        keep_changed_hours(database, before.connection, now.connection, [base])
        changed = database.execute("SELECT DISTINCT hour FROM _changed ORDER BY hour").fetchall()
        gaps = _gaps_between(before.connection, now.connection)
        hours = sorted({*(hour for (hour,) in changed), *confirmed_hours(now.connection, gaps).get(base, {})})
        spans = [*join_hours(hours, _reach(metric))]
        if metric.session and now.clock != before.clock:
            # Sessions that the clock has passed meanwhile are no longer provisional.
            spans.append(Span(min(before.clock, now.clock), max(before.clock, now.clock)))
        elif not metric.window.is_hour:
            silent = silent_windows(now.connection, {now.tables.source.name: before.closed}, gaps)
            spans += [Span(*window) for window in silent.get(metric.name, [])]
        if sink.emit == "closed" and now.closed > before.closed:
            spans.append(Span(before.closed - HOUR, now.closed))
    if spans and len(spans) > _MOST_SPANS:
        spans = [Span(min(span.start for span in spans), max(span.end for span in spans))]
    return Scope(spans, _condition(sink, now), _not_final(base, metric, database) if sink.emit == "final" else ())


def _gaps_between(before: Connection, now: Connection) -> ConfirmedGaps:
    """What was confirmed between two snapshots. Their tokens do not show it."""
    versions = [one.snapshot.other_tables.get("confirmations", 0) for one in (before, now)]
    return ConfirmedGaps() if versions[0] == versions[1] else confirmed_after(now.project, versions[0])


def join_hours(hours: Iterable[datetime], reach: timedelta) -> list[Span]:
    """The spans that the sorted ``hours``, with ``reach`` before and after them, cover."""
    spans = [Span(hour - reach, hour + HOUR + reach) for hour in hours]
    if not spans:
        return []
    begins = [0, *(place for place in range(1, len(spans)) if spans[place].start > spans[place - 1].end), len(spans)]
    return [Span(spans[first].start, spans[end - 1].end) for first, end in pairwise(begins)]


def _reach(metric: Metric) -> timedelta:
    """How far from an hour the windows are that its events change: an event may join, split, move or cut sessions."""
    return metric.session.reach if metric.session else timedelta(0)


def _condition(sink: Sink, now: Moment) -> str:
    if sink.emit == "final":
        return "state = 'final'"
    if sink.emit == "closed":
        end = "hour + INTERVAL 1 HOUR" if now.tables.metric.window.is_hour else "window_end"
        return "false" if now.closed is None else f"{end} <= {literal(now.closed)}"
    return "true"


def _not_final(base: str, metric: Metric, database: duckdb.DuckDBPyConnection) -> Sequence[Span]:
    """The windows that are not final, or not yet: those that share time with an hour that is not."""
    hours = database.execute(
        "SELECT hour FROM hourline.metric_hours WHERE served AND metric = ? AND state <> 'final' ORDER BY hour", [base]
    ).fetchall()
    return join_hours([hour for (hour,) in hours], _reach(metric))
