"""The connection that people query: DuckDB with one view per metric, merged from both layers. It waits for records, and
compares two snapshots.
"""

from collections.abc import Collection
from html import escape
from typing import TYPE_CHECKING, Self

from hourline_core.aggregates import aggregate_of
from hourline_core.errors import UsageError
from hourline_core.ledger.pending_declarations import PendingDeclaration
from hourline_core.model import Project
from hourline_core.model.hours import Clock, wall_clock
from hourline_core.sql.attach_on_demand import all_statements
from hourline_core.sql.query_tree import find_names, fold_case
from hourline_core.sql.tables import table_parts
from serving_layer.at_least.form import WAIT_SECONDS, AtLeast
from serving_layer.findings_view import findings_part
from serving_layer.open_snapshot import has_findings
from serving_layer.snapshot_connection import SnapshotConnection
from serving_layer.sql_errors import find_concerned
from serving_layer.views import view_parts

if TYPE_CHECKING:
    from serving_layer.reports.waiting import WaitingRecords


class Connection(SnapshotConnection):
    """A DuckDB connection on the merged results of one project, at one consistent snapshot of all its tables.

    Its views are:

    - one per metric: ``hour`` (TIMESTAMPTZ in UTC), the dimensions, the finished measures, ``state``. If windows are
      declared, ``window_start`` and ``window_end`` (exclusive) stand for ``hour``, and ``<metric>_hours`` has the hours
    - ``<metric>_states``: each hour, or each ``pane`` of it, with mergeable states, for roll-ups
    - ``<metric>_final`` and ``<metric>_provisional``: what each layer contributes
    - ``<metric>_staged``: the results of the hours that did not pass their audit
    - ``hours``: the state of each hour; ``long_silences``: the empty hours that are too many for it
    - ``windows``: the state of each window of the metrics that declare some
    - ``events_<source>`` and ``rejected_<source>``: the records; ``late_events``: the late ones
    - ``quarantine_<source>``: the events that a class of a metric failed for, if the source has such a metric
    - ``drift``: how much each recomputed hour changed, one row per measure and cause
    - ``quality``: the findings of each audit, one row per hour and expectation
    - ``publications``: one row for each time that an hour of a metric was published
    - ``changes``: how the results differ from those at ``since``, if that is given; see ``changes.py``
    - ``findings``: what is found of the sources and the speed layer now, and what was; not with ``as_of``, and not if a
      table is damaged

    The snapshot is taken when the connection is opened, and again by ``refresh``. With ``as_of``, a token or a time
    (ISO text), it stays that of the earlier time. Its tables are attached when they are first needed. ``since`` is a
    token or a time, too.

    A ``strict`` connection refuses answers that use hours that are missing, blocked or incomplete.

    If the log of a table is damaged, opening is refused. A damaged data file is found when it is first needed.
    A ``degraded`` connection answers what it still can, and ``damage`` says what it cannot.
    """

    def __init__(
        self,
        project: Project,
        clock: Clock = wall_clock,
        strict: bool = False,
        as_of: str | None = None,
        degraded: bool = False,
        since: str | None = None,
    ) -> None:
        self._since = since
        super().__init__(project, clock, strict, as_of, degraded)

    def sources(self, query: str) -> list[str]:
        """The sources that ``query``, one SELECT, names by the views of their metrics and records. If it names none of
        these, all of them. Raises UsageError as ``sql`` does.
        """
        with self.explaining(query):
            self._check(query)
            tables = find_names(self._duckdb, query).tables
        views = {
            source: {f"events_{source}", f"rejected_{source}", f"quarantine_{source}"}
            | {view for metric in self.project.all_metrics.values() if metric.source == source for view in metric.views}
            for source in self.project.sources
        }
        named = [source for source, names in views.items() if not tables.isdisjoint(map(fold_case, names))]
        return named or list(views)

    def waiting(self, query: str) -> "list[WaitingRecords]":
        """How many sent records the answer to ``query``, one SELECT, does not count yet, for each source that it names.
        Kafka is asked, for two seconds at most. Raises UsageError as ``sql`` does, and for an earlier time.
        """
        from serving_layer.reports.kafka_offsets import KafkaOffsets
        from serving_layer.reports.waiting import find_waiting

        return find_waiting(self, query, KafkaOffsets(self.project).within_limit())

    def wait_until_counted(self, at_least: AtLeast, wait: float = WAIT_SECONDS, query: str | None = None) -> None:
        """Wait until the records of ``at_least`` are counted, ``wait`` seconds at most, and take a snapshot that counts
        them.

        ``at_least`` is a mapping such as ``{("flights", 0): 9977}``: by topic and partition, the offset that Kafka has
        told the producer for its record. Or it is ``"now"``: all that Kafka holds at the moment of the sources that
        ``query``, one SELECT, names, or of all sources. A record counts as read if it was rejected, or is a duplicate.

        Raises NotCountedYetError with how far each partition is when the time is over. Raises UsageError for what
        cannot come: a topic that no source of the query reads, a partition or an offset that Kafka does not hold; and
        for an earlier time. Raises SourceError if it is another Kafka than the one that was read, and for ``"now"``
        BrokerError if Kafka does not answer; TableError.
        """
        from serving_layer.at_least.awaited import await_counted

        if self.is_past or self._degraded:
            raise UsageError(
                "--at-least is about the newest result of tables without damage: leave out --as-of and --degraded"
            )
        sources = list(self.project.sources) if query is None else self.sources(query)
        sequences = await_counted(self.project, sources, at_least, wait)
        known = self.snapshot.progress
        if any(name not in known or known[name].sequence < sequence for name, sequence in sequences.items()):
            self.refresh()

    def pending_in(self, query: str) -> list[PendingDeclaration]:
        """Those of ``pending`` that are about a metric that ``query``, one SELECT, names."""
        named = find_names(self._duckdb, query).tables
        return [one for one, _ in find_concerned(self.pending, named, self.project)]

    def errors_of(self, query: str, columns: Collection[str]) -> dict[str, str]:
        """How near the values of ``columns`` are to the truth, in words, for those that are estimates of a metric that
        ``query``, one SELECT, names. Values are not rounded to it.
        """
        named = find_names(self._duckdb, query).tables
        measures = {
            name: measure
            for tables in self.served
            if not named.isdisjoint(map(fold_case, tables.metric.views))
            for name, measure in tables.metric.measures.items()
        }
        errors = {name: aggregate_of(measure).error for name, measure in measures.items() if name in columns}
        return {name: error for name, error in errors.items() if error}

    @property
    def views(self) -> list[str]:
        """The names of all views, sorted."""
        made = [name for part in view_parts(self.project, self.snapshot) for name in part.names]
        made += ["findings"] if has_findings(self.snapshot, self._as_of) else []
        return sorted([*made, "changes"] if self._since else made)

    def compare_with(self, before: "Connection", metrics: Collection[str]) -> None:
        """Make the view ``changes``: how the results of ``metrics`` differ from those at ``before``. Raises UsageError,
        TableError.
        """
        from serving_layer.changes import make_changes

        with before.naming_damage(), self.naming_damage():
            make_changes(self._duckdb, before, self, metrics)
        self._has_changes = True

    @property
    def statements(self) -> list[str]:
        """The script that gives any DuckDB with the delta extension the same tables and views, at this snapshot.
        Comments say what it lacks.
        """
        tables = [*table_parts(self.project, self.snapshot, self.taken)]
        views = [*view_parts(self.project, self.snapshot, functions=False)]
        if has_findings(self.snapshot, self._as_of):
            views.append(findings_part(tables, functions=False))
        return all_statements(self.database, [*tables, *views])

    @property
    def moment(self) -> str:
        """The time of the answers, in words: the last publication, and how far each source has come."""
        publication = self.snapshot.publication
        read = [f"{name} up to sequence {known.sequence}" for name, known in self.snapshot.progress.items()]
        return "; ".join(
            [f"publication {publication}" if publication is not None else "before the first publication", *read]
        )

    def __repr__(self) -> str:
        return f"<{self.project.name} as of {self.token}>"

    def _repr_html_(self) -> str:
        """The text that a notebook shows."""
        views = " ".join(f"<code>{name}</code>" for name in self.views)
        return f"<p><b>{escape(self.project.name)}</b> as of <code>{self.token}</code></p><p>{views}</p>"

    def twin(self) -> Self:
        """See ``SnapshotConnection``. It has the view ``changes`` only once that is asked for again."""
        twin = super().twin()
        twin._has_changes = False
        return twin

    def _check(self, query: str) -> None:
        super()._check(query)
        if self._since and not self._has_changes and "changes" in find_names(self._duckdb, query).tables:
            with Connection(self.project, self._clock, as_of=self._since) as before:
                self.compare_with(before, self.project.all_metrics)

    def _open(self) -> None:
        super()._open()
        self._has_changes = False
