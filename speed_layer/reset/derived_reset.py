"""Resets of a derived source: its events are deleted, to be made anew from the archives of its inputs."""

from collections.abc import Iterator
from datetime import datetime

from hourline_core.ledger.decodings import begin_reset, end_reset
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.model import Project, Source
from hourline_core.model.decoding import decoding_of
from hourline_core.storage import commits
from hourline_core.storage.opening import exists
from speed_layer.reset.results import Results
from speed_layer.reset.tables import ResetTables, count_rows


class DerivedReset:
    """A reset of the derived ``source``, and of all sources that are made of it: planned at construction, done by
    ``apply``. The caller holds the leases "speed" and "batch".

    Raises TableError, and UsageError when nothing was read yet.
    """

    def __init__(self, project: Project, source: Source) -> None:
        layout, options = Layout.of(project), project.settings.storage_options
        above = {one.name: one for one in _made_of(project, source) if exists(layout.progress(one), options)}
        self._resets = [_ResetOfOne(project, one) for one in [*above.values(), source]]
        self.touched = [touched for one in self._resets for touched in one.touched]

    def apply(self, moment: datetime) -> int:
        """Do the reset, and return its sequence. ``moment`` (UTC) dates it. Raises ConflictError when another process
        writes to the tables.

        What is made of others comes first. If this ends in between, it is made anew of what is still there.
        """
        return [one.apply(moment) for one in self._resets][-1]


def _made_of(project: Project, source: Source) -> Iterator[Source]:
    """The sources that are made of ``source``, each after those that are made of it. One may come several times."""
    for one in project.sources.values():
        if source.name in one.input_names:
            yield from _made_of(project, one)
            yield one


class _ResetOfOne:
    def __init__(self, project: Project, source: Source) -> None:
        self._source = source
        self._tables = tables = ResetTables(project, source)
        last = tables.progress.last_row()
        written = {of.metric for of in last.metrics} if last else set[str]()
        names = sorted(written | {metric.name for metric in project.metrics_of(source.name)})
        self._results = Results.of(project, tables, names)
        self.touched = [
            (f"progress/{source.name}", "begins anew"),
            *(
                (f"{kind}/{source.name}", f"all of its {rows:,} row(s) are deleted")
                for kind, table in (("events", tables.events), ("rejected", tables.rejected))
                if (rows := count_rows(table))
            ),
            *self._results.touched(),
        ]

    def apply(self, moment: datetime) -> int:
        """The archive is marked first and last, and nothing reads its events in between. The metrics are reset as by
        ``MetricReset``. Once their results and all events are deleted, progress begins anew.
        """
        tables = self._tables
        begin_reset(tables.events)
        sequence = tables.clear()
        if last := tables.progress.last_row():
            row = ProgressRow.of_metric_reset(last, sequence, self._results.metrics, moment)
            tables.progress.reset([row], tables.versions(), of_metric=True)
            self._results.delete(sequence)
            for table in (tables.rejected, tables.quarantine, tables.events):
                if table is not None:
                    commits.delete(table, None, {"reset": sequence})
            sequence += 1
            tables.progress.begin_anew(ProgressRow.of_derived_reset(row, sequence, moment), tables.versions())
        end_reset(tables.events, decoding_of(self._source), sequence + 1, moment)
        return sequence
