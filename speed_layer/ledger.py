"""The speed layer's tables of one source, and where a start goes on: by what progress holds, not by what a Spark checkpoint remembers.

Every start is treated alike, be it the first, after Ctrl-C or after kill -9: rows of a micro-batch that was not finished (a sequence beyond
progress) are deleted, reading goes on at progress's offsets, and the new sequences lie above any ever written. So no micro-batch is ever
replayed, and a lost, old or foreign checkpoint cannot matter.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from hourline import tables
from hourline.declarations import Source, declaration_hash
from hourline.layout import EVENT_COLUMNS, PROGRESS_SCHEMA, REJECTED_SCHEMA, Layout
from hourline.snapshot import SPEED_WRITER
from hourline.tiling import Tiling


@dataclass
class Ledger:
    """The tables that one source's micro-batches are written to, opened for writing by their one writer."""

    source: Source
    tilings: list[Tiling]
    events: DeltaTable
    rejected: DeltaTable
    progress: DeltaTable
    provisional: dict[str, DeltaTable]
    """By metric."""
    events_schema: pa.Schema
    provisional_schemas: dict[str, pa.Schema]
    first_sequence: int
    """The sequence of the next micro-batch: above any ever written."""
    clock: datetime | None
    """The highest accepted event time so far, in UTC."""
    next_offsets: dict[int, int]
    """By partition of ``topic_id``, the offset to go on at; a partition that is not here was never read."""
    born: dict[str, int]
    """By metric, the sequence from which on its provisional rows are whole."""

    def metrics_row(self) -> list[dict[str, object]]:
        """What progress says of the metrics: which ones a micro-batch wrote, and from which sequence on they are whole."""
        metrics = [tiling.metric for tiling in self.tilings]
        return [{"metric": m.name, "declaration": declaration_hash(self.source, m), "born": self.born[m.name]} for m in metrics]

    def append(self, table: DeltaTable, schema: pa.Schema, rows: pa.Table, sequence: int) -> None:
        """Commit one micro-batch's rows (without their sequence) to one table. Raises ConflictError when another process writes there."""
        numbered = rows.append_column("sequence", pa.array([sequence] * rows.num_rows, pa.int64()))
        tables.append(table, numbered.select(schema.names).cast(schema), {"sequence": sequence}, SPEED_WRITER, sequence)


def open_ledger(layout: Layout, source: Source, fields: pa.Schema, tilings: list[Tiling], topic_id: str) -> Ledger:
    """Open (or create) the tables of ``source``, fence out whoever wrote to them before, and clear away what an unfinished micro-batch left.

    ``fields`` are the declared fields as Arrow columns. Raises TableError when a table does not fit the declaration, ConflictError when another
    process writes to it.
    """
    events_schema = pa.schema([*pa.schema(EVENT_COLUMNS), *fields])
    schemas = {tiling.metric.name: pa.schema([pa.field("sequence", pa.int64()), *tiling.schema]) for tiling in tilings}
    options = layout.storage_options
    # Opened first and fenced first: of two processes that start, the one that fences progress later has opened every table after the other did.
    progress = tables.open_or_create(
        layout.progress(source), options, "progress", PROGRESS_SCHEMA, tables.STREAMED, f"finished micro-batches of {source.name}"
    )
    events = tables.open_or_create(layout.events(source), options, "events", events_schema, tables.STREAMED, f"accepted events of {source.name}")
    rejected = tables.open_or_create(
        layout.rejected(source), options, "rejected", REJECTED_SCHEMA, tables.STREAMED, f"rejected records of {source.name}"
    )
    provisional = {
        tiling.metric.name: tables.open_or_create(
            layout.provisional(source, tiling.metric),
            options,
            "provisional",
            schemas[tiling.metric.name],
            tables.STREAMED,
            f"provisional tiles of {tiling.metric.name}",
        )
        for tiling in tilings
    }
    finished = progress.transaction_version(SPEED_WRITER) or 0
    written = [table.transaction_version(SPEED_WRITER) or 0 for table in (events, rejected, *provisional.values())]
    first = max(finished, *written) + 1
    tables.fence(progress)
    for table in (events, rejected, *provisional.values()):
        if (table.transaction_version(SPEED_WRITER) or 0) > finished:
            tables.delete(table, f"sequence > {finished}", {"cleared": f"beyond {finished}"})
        tables.fence(table)  # always: a delete that finds no rows makes no commit
    last = _row(progress, finished)
    known = {(metric["metric"], metric["declaration"]): metric["born"] for metric in last.get("metrics", [])}
    born = {t.metric.name: known.get((t.metric.name, declaration_hash(source, t.metric)), first) for t in tilings}
    offsets = _next_offsets(progress, topic_id)
    return Ledger(source, tilings, events, rejected, progress, provisional, events_schema, schemas, first, last.get("clock"), offsets, born)


def _row(progress: DeltaTable, sequence: int) -> Mapping[str, Any]:
    """The row of one finished micro-batch; empty for sequence 0."""
    rows = progress.to_pyarrow_table(filters=[("sequence", "=", sequence)]).to_pylist() if sequence else []
    return rows[0] if rows else {}


def _next_offsets(progress: DeltaTable, topic_id: str) -> dict[int, int]:
    """One past the highest offset read of each partition. A topic that was deleted and made again has another id, and begins anew."""
    rows = progress.to_pyarrow_table(columns=["topic_id", "offsets"], filters=[("topic_id", "=", topic_id)])
    highest: dict[int, int] = {}
    for read in rows["offsets"].to_pylist():
        for entry in read:
            highest[entry["partition"]] = max(highest.get(entry["partition"], 0), entry["last"] + 1)
    return highest
