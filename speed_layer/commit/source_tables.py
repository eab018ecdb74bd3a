"""Opens the speed layer's tables of one source, and says where a start goes on: by what progress holds, not by a Spark
checkpoint.

Every start is treated alike, be it the first, after Ctrl-C or after kill -9. Rows of an unfinished micro-batch (a
sequence beyond progress) are deleted. Reading goes on at progress's offsets. New sequences lie above any ever written.
So no micro-batch is ever replayed, and a lost, old or foreign checkpoint does not matter.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

import pyarrow as pa
from deltalake import DeltaTable

from hourline_core.aggregates.user_defined import user_defined_of
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.errors import TableError
from hourline_core.ledger.decodings import note_decoding, refuse_other_derivation
from hourline_core.ledger.layout import (
    DECLARATION,
    EVENT_SCHEMA,
    QUARANTINE_SCHEMA,
    REJECTED_SCHEMA,
    Layout,
    stored_names,
    typed_name,
)
from hourline_core.ledger.open_progress import refuse_without_progress
from hourline_core.ledger.progress import SPEED_WRITER, Progress, last_sequence
from hourline_core.ledger.progress_columns import PROGRESS_SCHEMA
from hourline_core.ledger.progress_rows import ProgressRow, WrittenMetric
from hourline_core.ledger.source_clock import SourceClock
from hourline_core.model import Source, to_stored
from hourline_core.model.decoding import Decoding, decoding_of
from hourline_core.model.hours import Clock, wall_clock
from hourline_core.storage import commits
from hourline_core.storage.commits import is_from_earlier_boot
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.durable import sync_version
from hourline_core.storage.new_files import NewFile, append_files, delete_files
from hourline_core.storage.opening import exists, open_table
from hourline_core.storage.seen_versions import require_seen, versions_of
from hourline_core.storage.version_retention import STREAMED
from speed_layer.intake.part import Part
from speed_layer.recovery.reprocessing import drop_reprocessed

_SKIPPED_AFTER_POWER_CUT = 1_000_000
"""The number of sequences that are left out after a start of the machine. A micro-batch that was lost with the power
may have been seen before it was on disk: by a client that has the token of its answer, or by a sink.
"""


@dataclass
class SourceTables:
    """The tables that one source's micro-batches are written to, opened by their one writer."""

    source: Source
    aggregations: list[AggregationPlan]
    events: DeltaTable
    rejected: DeltaTable
    quarantine: DeltaTable | None
    """None: no metric has had a class yet."""
    progress: Progress
    provisional: dict[str, DeltaTable]
    """By aggregation."""
    events_schema: pa.Schema
    """The columns of the archive, also those of fields that are not declared any more."""
    provisional_schemas: dict[str, pa.Schema]
    first_sequence: int
    """The sequence of the next micro-batch, above any ever written."""
    clock: SourceClock
    """The source's clock, and those of its partitions."""
    complete_from: dict[str, int]
    """By aggregation, the sequence from which on its provisional rows are complete."""
    decoding: Decoding
    """How the records of its micro-batches become events."""
    stored_names: Mapping[str, str]
    """The names in the archive of the fields that have another one there."""
    inputs: Sequence[DeltaTable] = ()
    """The progress of the inputs of a derived source, at the versions up to which they are read."""

    @property
    def tables(self) -> list[DeltaTable]:
        """All of them."""
        return [self.progress.table, *self._written]

    @property
    def _written(self) -> list[DeltaTable]:
        """All of them but progress."""
        quarantine = [] if self.quarantine is None else [self.quarantine]
        return [self.events, self.rejected, *quarantine, *self.provisional.values()]

    def written_metrics(self) -> tuple[WrittenMetric, ...]:
        """The metrics that a micro-batch writes, each with the sequence from which on it is complete."""
        return tuple(
            WrittenMetric(of.metric.name, of.declaration, self.complete_from[of.name]) for of in self.aggregations
        )

    def note_metrics(self, last: ProgressRow, moment: datetime) -> None:
        """Commit to progress which metrics are written from now on, in a row that reads nothing. ``last`` is the row
        before it, ``moment`` (UTC) dates it.

        If the first micro-batch did that, a row in between, such as that of a reset, would not know them.
        """
        row = last.without_records(self.first_sequence, last.source_clock, moment)
        self.finish(replace(row, metrics=self.written_metrics()))
        self.first_sequence += 1

    def changing(self) -> list[tuple[AggregationPlan, AggregationPlan]]:
        """The metrics that have changed: the declaration that is served, and the newer one that is promoted once it is
        covered.
        """
        return [
            (older, newer) for older, newer in pairwise(self.aggregations) if older.metric.name == newer.metric.name
        ]

    def stop_writing(self, older: AggregationPlan) -> None:
        """Write no more tiles of ``older``, since a newer declaration has been promoted. Spark evaluates its
        expressions until the next start.
        """
        self.aggregations.remove(older)
        del self.provisional[older.name]

    def finish(self, *rows: ProgressRow) -> None:
        """Commit progress (a row for each topic), which finishes the micro-batch and records the versions of its
        tables, and of the progress of its inputs.
        """
        for table in self.inputs:
            sync_version(table)
        self.progress.finish(rows, versions_of([*self._written, *self.inputs]))

    def finish_clock(self, sequence: int, clock: SourceClock, moment: datetime) -> None:
        """Commit a clock that has gone on between two micro-batches, as a row of progress that reads nothing, at
        ``moment`` (UTC). Raises ConflictError when another process writes there.
        """
        last = self.progress.last_row()
        assert last is not None  # a partition has shown an event
        self.clock = clock
        # A metric that was declared since the last row has been written from this start on.
        self.finish(replace(last.without_records(sequence, clock, moment), metrics=self.written_metrics()))

    def reset(self, row: ProgressRow) -> None:
        """Commit a reset to progress, after which reading goes on elsewhere."""
        self.progress.reset([row], versions_of(self._written), of_metric=False)

    def append(self, table: DeltaTable, schema: pa.Schema, rows: pa.Table, sequence: int) -> None:
        """Commit one micro-batch's rows (without their sequence) to one table. Raises ConflictError when another
        process writes there.
        """
        numbered = rows.append_column("sequence", pa.array([sequence] * rows.num_rows, pa.int64()))
        commits.append(
            table, numbered.select(schema.names).cast(schema), {"sequence": sequence}, [SPEED_WRITER], sequence
        )

    def append_files(self, table: DeltaTable, files: Sequence[NewFile], sequence: int, *writers: str) -> None:
        """Commit the files that the tasks of one micro-batch have written for one table, as the newest ones of
        ``writers``, too. Raises ConflictError when another process writes there.
        """
        append_files(table, files, {"sequence": sequence}, [SPEED_WRITER, *writers], sequence)

    def discard(self, part: Part) -> None:
        """Delete the files that tasks have written, and that will not be committed."""
        for table, files in (
            (self.events, part.events),
            (self.rejected, part.rejected),
            (self.quarantine, part.quarantine),
        ):
            if table is not None:
                delete_files(table, files)


def open_source_tables(
    layout: Layout, source: Source, fields: pa.Schema, aggregations: list[AggregationPlan], clock: Clock = wall_clock
) -> SourceTables:
    """Open or create the tables of ``source``, fence out the writer that had them before, and delete what an unfinished
    micro-batch left.

    A metric that has changed has two aggregations until the new one is promoted, the older one first. ``fields`` are
    the declared fields as Arrow columns. ``clock`` (UTC) dates a decoding that is new, and the row of progress that
    tells metrics which are new. Raises TableError when a table does not fit the declaration, and ConflictError when
    another process writes to it. Raises SourceError for another join than that of the archived events.
    """
    schemas = {
        aggregation.name: pa.schema([pa.field("sequence", pa.int64()), *aggregation.schema])
        for aggregation in aggregations
    }
    options = layout.storage_options
    # Progress is opened and fenced first. So of two processes that start, the one that fences progress later has opened
    # every table after the other one did.
    if not exists(layout.progress(source), options):
        refuse_without_progress(layout, source)
    progress = Progress(
        open_or_create(
            layout.progress(source),
            options,
            "progress",
            PROGRESS_SCHEMA,
            STREAMED,
            f"finished micro-batches of {source.name}",
        )
    )
    restarted = is_from_earlier_boot(progress.table)
    fields = _with_own_columns(layout, source, fields, progress)
    events_schema = pa.schema([*EVENT_SCHEMA, *fields])
    events = _open_events(layout, source, events_schema, progress)
    refuse_other_derivation(events, source)
    archived = pa.schema(events.schema().to_arrow())
    former_fields = [column for column in archived if column.name not in events_schema.names]
    rejected = open_or_create(
        layout.rejected(source),
        options,
        "rejected",
        REJECTED_SCHEMA,
        STREAMED,
        f"rejected records of {source.name}",
    )
    provisional = {
        aggregation.name: open_or_create(
            layout.provisional(aggregation.source, aggregation.metric),
            options,
            "provisional",
            schemas[aggregation.name],
            {**STREAMED, DECLARATION: to_stored(aggregation.source, aggregation.metric)},
            f"provisional tiles of {aggregation.metric.name}",
        )
        for aggregation in aggregations
    }
    quarantine = open_quarantine(layout, source, create=any(user_defined_of(of.metric) for of in aggregations))
    others = [*([] if quarantine is None else [quarantine]), *provisional.values()]
    for table in (events, rejected, *others):
        require_seen(table, progress.table)
    first = clear_unfinished(progress, events, rejected, others) + (_SKIPPED_AFTER_POWER_CUT if restarted else 0)
    decoding = decoding_of(source)
    note_decoding(events, decoding, first, clock())
    last = progress.last_row()
    known = {written.name: written.complete_from for written in last.metrics} if last else {}
    following = progress.sequence + 1
    complete_from = {aggregation.name: known.get(aggregation.name, following) for aggregation in aggregations}
    tables = SourceTables(
        source,
        aggregations,
        events,
        rejected,
        quarantine,
        progress,
        provisional,
        pa.schema([*events_schema, *former_fields]),
        schemas,
        first,
        last.source_clock if last else SourceClock(),
        complete_from,
        decoding,
        stored_names(source, archived.names),
    )
    if last and (restarted or complete_from.keys() != known.keys()):
        tables.note_metrics(last, clock())
    return tables


def _with_own_columns(layout: Layout, source: Source, fields: pa.Schema, progress: Progress) -> pa.Schema:
    """``fields`` (under their plain names) with the names that they have in the archive. A field whose plain column has
    rows of another type gets a column of its own: what was archived stays, and is decoded anew from the raw records.
    """
    uri, options = layout.events(source), layout.storage_options
    if not exists(uri, options):
        return fields
    events = open_table(uri, options)
    archived, plain = pa.schema(events.schema().to_arrow()), stored_names(source)
    names = {plain.get(name, name): typed_name(source, name) for name in source.event_fields}
    has_rows = progress.sequence > 0 and bool(events.file_uris())

    def own_column(field: pa.Field) -> pa.Field:
        typed = names.get(field.name, field.name)
        differs = field.name in archived.names and archived.field(field.name).type != field.type
        return field.with_name(typed) if typed in archived.names or (differs and has_rows) else field

    return pa.schema(map(own_column, fields))


def _open_events(layout: Layout, source: Source, schema: pa.Schema, progress: Progress) -> DeltaTable:
    """The events with the columns of ``schema``. Raises TableError when one of them differs from what is archived."""
    uri, options = layout.events(source), layout.storage_options

    def opened() -> DeltaTable:
        return open_or_create(uri, options, "events", schema, STREAMED, f"accepted events of {source.name}")

    try:
        return opened()
    except TableError:
        events = open_table(uri, options)
        if last_sequence(events) <= progress.sequence:
            raise
    # What is not finished is not archived. An earlier writer must not finish it any more: see below.
    commits.fence(progress.table)
    commits.delete(events, f"sequence > {progress.sequence}", {"cleared": f"beyond {progress.sequence}"})
    return opened()


def open_quarantine(layout: Layout, source: Source, *, create: bool) -> DeltaTable | None:
    """The quarantine table of ``source``. None: there is none yet, and it is not to be created."""
    uri, options = layout.quarantine(source), layout.storage_options
    if not create and not exists(uri, options):
        return None
    description = f"events of {source.name} that classes failed for"
    return open_or_create(uri, options, "quarantine", QUARANTINE_SCHEMA, STREAMED, description)


def clear_unfinished(progress: Progress, events: DeltaTable, rejected: DeltaTable, others: Iterable[DeltaTable]) -> int:
    """Delete what an unfinished micro-batch left in the tables of a source; ``others`` are all but progress. Returns
    the next sequence, above any ever written.

    An earlier writer may still live, frozen or on another machine. It is fenced out of progress first, so that it
    cannot finish a micro-batch any more. Then it is fenced out of each other table: else its unfinished rows could get
    a sequence that this process will have finished.
    """
    commits.fence(progress.table)
    finished = progress.sequence
    written = [(table, last_sequence(table)) for table in (events, rejected, *others)]
    for table, sequence in written:
        if sequence > finished:
            commits.delete(table, f"sequence > {finished}", {"cleared": f"beyond {finished}"})
        commits.fence(table)
    for row in progress.last_rows():
        drop_reprocessed(events, rejected, row)
    return max(finished, *(sequence for _, sequence in written)) + 1
