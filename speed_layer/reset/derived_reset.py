"""Resets of a derived source: its events are deleted, to be made anew from the archives of its inputs."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from hourline_core.ledger.decodings import begin_reset, end_reset
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.model import Project, Source
from hourline_core.model.decoding import decoding_of
from hourline_core.storage import commits
from speed_layer.derived.decoding import refuse_unreadable
from speed_layer.derived.inputs import open_input
from speed_layer.reset.results import Results
from speed_layer.reset.tables import ResetTables, count_rows, has_tables


class DerivedReset:
    """A reset of the derived ``source``, and of all sources that are made of it: planned at construction, done by
    ``apply``. The caller holds the leases "speed" and "batch".

    Raises TableError, SourceError if an input has events that cannot be read as it is declared now, and UsageError
    when nothing was read yet.
    """

    def __init__(self, project: Project, source: Source) -> None:
        made_of_it = {one.name: one for one in _made_of(project, source) if has_tables(project, one)}
        chosen = [*made_of_it.values(), source]
        self._resets = [_SourceAnew(project, one) for one in chosen]
        _refuse_unreadable_inputs(project, chosen)
        self.touched = [touched for one in self._resets for touched in one.touched]

    def apply(self, moment: datetime) -> int:
        """Do the reset, and return its sequence. ``moment`` (UTC) dates it. Raises ConflictError when another process
        writes to the tables.

        Sources that are made of it come first. If this ends in between, they are made anew from what is still there.
        """
        return [one.apply(moment) for one in self._resets][-1]


def _made_of(project: Project, source: Source) -> Iterator[Source]:
    """The sources that are made of ``source``, each after those that are made of it. One may come several times."""
    for one in project.sources.values():
        if source.name in one.input_names:
            yield from _made_of(project, one)
            yield one


def _refuse_unreadable_inputs(project: Project, chosen: Sequence[Source]) -> None:
    """Raise SourceError if an input of one of these sources could not be read again, once they are deleted."""
    names = {one.name for one in chosen}
    for source in chosen:
        for one in source.inputs:
            if one.name not in names and has_tables(project, one):
                refuse_unreadable(source, open_input(project, one))


class _SourceAnew:
    def __init__(self, project: Project, source: Source) -> None:
        self._source = source
        self._tables = tables = ResetTables(project, source)
        self._results = Results(Layout.of(project), "source", source.name, tables.provisional)
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
        """The archive is marked first and last. In between, the speed layer and a recompute refuse it. The metrics are
        reset as by ``MetricReset``. Once their results and all events are deleted, progress begins anew.
        """
        tables = self._tables
        begin_reset(tables.events)
        sequence = tables.clear()
        if last := tables.progress.last_row():
            row = ProgressRow.of_metric_reset(last, sequence, {of.metric for of in last.metrics}, moment)
            tables.progress.reset([row], tables.versions(), of_metric=True)
            self._results.delete(sequence)
            for table in (tables.rejected, tables.quarantine, tables.events):
                if table is not None:
                    commits.delete(table, None, {"reset": sequence})
            sequence += 1
            tables.progress.begin_anew(ProgressRow.of_derived_reset(row, sequence, moment), tables.versions())
        end_reset(tables.events, decoding_of(self._source), tables.progress.sequence + 1, moment)
        return sequence
