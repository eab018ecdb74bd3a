"""The tables that a reset changes."""

import pyarrow as pa
from deltalake import DeltaTable

from hourline_core.errors import UsageError
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.open_progress import find_progress, is_begun
from hourline_core.ledger.progress import Progress
from hourline_core.model import Project, Source, declaration_hash
from hourline_core.storage.opening import exists, open_table
from hourline_core.storage.seen_versions import require_seen, versions_of
from speed_layer.commit.source_tables import clear_unfinished, open_quarantine

Touched = tuple[str, str]
"""What a reset changes, in words."""


def has_tables(project: Project, source: Source) -> bool:
    """Whether the speed layer has started with ``source``. Raises TableError."""
    progress = find_progress(project, source)
    return progress is not None and is_begun(Layout.of(project), source, progress)


class ResetTables:
    """The tables of one source that its speed layer writes, opened for writing without changing them."""

    def __init__(self, project: Project, source: Source) -> None:
        self.source = source
        layout = Layout.of(project)
        options = layout.storage_options
        if not has_tables(project, source):
            first = "with the first events of its inputs" if source.is_derived else "at the earliest record"
            raise UsageError(
                f"nothing was read of source '{source.name}' yet, so there is nothing to reset; "
                f"`hourline up` begins {first}"
            )
        self.progress = Progress(open_table(layout.progress(source), options))
        self.events = open_table(layout.events(source), options)
        self.rejected = open_table(layout.rejected(source), options)
        self.quarantine = open_quarantine(layout, source, create=False)
        last = self.progress.last_row()
        written = {(known.metric, known.declaration) for known in last.metrics} if last else set()
        declared = {(metric.name, declaration_hash(source, metric)) for metric in project.metrics_of(source.name)}
        addresses = {of: layout.provisional_of(*of) for of in sorted(written | declared)}
        self.provisional = {of: open_table(uri, options) for of, uri in addresses.items() if exists(uri, options)}
        """By metric and declaration."""
        for table in self._written():
            require_seen(table, self.progress.table)

    def unfinished(self) -> list[Touched]:
        """The number of rows that an unfinished micro-batch has left, by table."""
        name, finished = self.source.name, self.progress.sequence
        named: list[tuple[str, DeltaTable]] = [(f"events/{name}", self.events), (f"rejected/{name}", self.rejected)]
        named += [] if self.quarantine is None else [(f"quarantine/{name}", self.quarantine)]
        named += [
            (f"provisional/{metric}/{declaration}", table) for (metric, declaration), table in self.provisional.items()
        ]
        counts = [(name, count_rows(table, [[("sequence", ">", finished)]])) for name, table in named]
        return [(name, f"{count:,} row(s) of an unfinished micro-batch are deleted") for name, count in counts if count]

    def clear(self) -> int:
        """Delete those, and return the next sequence."""
        return clear_unfinished(self.progress, self.events, self.rejected, self._others())

    def versions(self) -> dict[str, int]:
        """By name, the versions at which a reset leaves the tables."""
        return versions_of(self._written())

    def _written(self) -> list[DeltaTable]:
        return [self.events, self.rejected, *self._others()]

    def _others(self) -> list[DeltaTable]:
        return [*([] if self.quarantine is None else [self.quarantine]), *self.provisional.values()]


def count_rows(table: DeltaTable, where: list[list[tuple[str, str, int]]] | None = None) -> int:
    """The number of rows for which one of the conjunctions in ``where`` holds, about numbers. None: of all rows."""
    if where is None:
        return sum(pa.table(table.get_add_actions())["num_records"].to_pylist())
    columns = list(dict.fromkeys(column for one in where for column, _, _ in one))
    return int(table.to_pyarrow_table(columns=columns, filters=where).num_rows)
