"""Progress: what the micro-batches of one source have read, counted and written. Its commit finishes a micro-batch.

A micro-batch has one row for each topic of which it has read records. They share their sequence, and what is not about
one topic: metrics, clock and times.

Only this file, progress_columns.py, progress_rows.py, read_offsets.py and last_read.py know its columns; the SQL over
it is in ``hourline_core.sql``. Progress gets a row a second, so it is filtered as Arrow, and only the requested rows
become Python objects.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from hourline_core.ledger.files_read import FileRead, files_read_of
from hourline_core.ledger.last_read import LAST_READ_COLUMNS, LastRead, last_read_of
from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.ledger.progress_columns import PROGRESS_SCHEMA
from hourline_core.ledger.progress_rows import ProgressRow, from_arrow, to_arrow
from hourline_core.ledger.read_offsets import Reading, reading_of
from hourline_core.storage import commits
from hourline_core.storage.creation import add_columns
from hourline_core.storage.data_files import read_rows
from hourline_core.storage.file_ranges import files_with, rows_of
from hourline_core.storage.opening import once

SPEED_WRITER = "hourline-speed"
"""The application id under which the speed layer records the newest sequence in each table that it writes."""

BYTES_WRITER = "hourline-bytes"
"""The application id under which the table of rejected records has the newest sequence with bytes that a reset has
brought.
"""

_METRIC_RESET = "hourline-metric-reset"
"""The application id under which progress records the newest sequence at which a metric was reset."""

_ANEW = "hourline-anew"
"""The application id under which progress records the sequence with which it began anew."""

_GAP = "hourline-gap"
"""The application id under which progress records the newest sequence that has gaps."""

_COMPACTED = "hourline-progress-compacted"
"""The application id under which progress records the sequence up to which its rows are compacted."""


def last_sequence(table: DeltaTable) -> int:
    """The newest sequence that the speed layer has written to one of its tables. 0: none."""
    return table.transaction_version(SPEED_WRITER) or 0


class UsedVersion(NamedTuple):
    """A version of a lookup that successive micro-batches have used."""

    last: int
    """The last sequence before another one was used."""
    version: int
    has_events: bool
    """Whether they have events in the hours that were asked for."""


class Progress:
    """The progress table of one source, at the version that it is open at. Reading raises TableError."""

    def __init__(self, table: DeltaTable) -> None:
        self.table = table

    @property
    def sequence(self) -> int:
        """The last finished sequence, of a micro-batch or a reset. 0: none."""
        return last_sequence(self.table)

    @property
    def metric_reset(self) -> int | None:
        """The sequence of the last reset of a metric. None: there was none."""
        reset: int | None = self.table.transaction_version(_METRIC_RESET)
        return reset

    @property
    def began_anew_at(self) -> int:
        """The sequence with which it began anew: what was read before does not count. 0: it never did."""
        return self.table.transaction_version(_ANEW) or 0

    @property
    def has_gaps(self) -> bool:
        """Whether Kafka ever deleted records of the source before they were read."""
        return self.table.transaction_version(_GAP) is not None

    @property
    def compacted_to(self) -> int:
        """The sequence up to which its rows are compacted."""
        return self.table.transaction_version(_COMPACTED) or 0

    def last_rows(self) -> list[ProgressRow]:
        """The rows of the last finished sequence, read once for each version. Empty: there is none."""
        return once(self.table, "last rows", lambda: self.rows_of(self.sequence) if self.sequence else [])

    def last_row(self) -> ProgressRow | None:
        """One of ``last_rows``, for what they share. None: there is none."""
        return next(iter(self.last_rows()), None)

    def rows_of(self, sequence: int) -> list[ProgressRow]:
        """The rows of a finished sequence. Empty: there is none, or it was compacted into a later one."""
        return from_arrow(_in_order(rows_of(self.table, "sequence", sequence)))

    def rows(self, after: int, up_to: int) -> list[ProgressRow]:
        """The rows of sequences above ``after``, up to ``up_to``, in order, those of a sequence by topic id. They are
        without the clocks of partitions: each row has those of all, so they are most of a long table.
        """
        names = [name for name in pa.schema(self.table.schema().to_arrow()).names if name != "partitions"]
        return from_arrow(_in_order(self._between(after, up_to, names)))

    def offsets_after(self, sequence: int) -> pa.Table:
        """The rows above ``sequence``, in order, with PROGRESS_SCHEMA. Only what says how far topics were read is not
        null. They are read only from the files that may have some.
        """
        files = files_with(self.table, "sequence", sequence + 1)
        rows = read_rows(self.table, files, ("sequence", "topic_id", "topic", "offsets", "position", "cluster"))
        return _in_order(rows.filter(pc.greater(rows["sequence"], sequence)))

    def sequences_finished(self, before: datetime, after: int) -> list[int]:
        """The sequences above ``after`` whose micro-batches finished before a moment (UTC), in order."""
        old = [("sequence", ">", after), ("finished", "<", before)]
        return sorted(pc.unique(self.table.to_pyarrow_table(columns=["sequence"], filters=old)["sequence"]).to_pylist())

    def first_read_at(self) -> datetime | None:
        """When the first micro-batch that has read something began (UTC). None: nothing was read yet."""
        rows = self.table.to_pyarrow_table(columns=["topic_id", "position", "started"])
        has_read = pc.and_(pc.is_valid(rows["topic_id"]), pc.is_null(rows["position"]))
        first: datetime | None = pc.min(rows.filter(has_read)["started"]).as_py()
        return first

    def last_started_before(self, moment: datetime) -> int | None:
        """The last sequence whose micro-batch, or the first one that was compacted into it, had begun before ``moment``
        (UTC). None: none had.
        """
        begun = self.table.to_pyarrow_table(columns=["sequence"], filters=[("started", "<", moment)])
        sequence: int | None = pc.max(begun["sequence"]).as_py()
        return sequence

    def sequence_at(self, moment: datetime) -> int | None:
        """The last sequence that had finished at ``moment`` (UTC). None: none had."""
        done = self.table.to_pyarrow_table(columns=["sequence"], filters=[("finished", "<=", moment)])
        sequence: int | None = pc.max(done["sequence"]).as_py()
        return sequence

    def reading(self, topic_id: str) -> Reading:
        """How far a topic was read. A topic that was deleted and recreated has another id, and begins again."""
        return self.readings([topic_id])[topic_id]

    def readings(self, topic_ids: Collection[str], up_to: int | None = None) -> dict[str, Reading]:
        """How far topics were read, by their ids. ``up_to``: when that was the last sequence; None: now."""
        if not topic_ids:
            return {}
        then = None if up_to is None else [("sequence", "<=", up_to)]
        rows = self.table.to_pyarrow_table(columns=["sequence", "topic_id", "offsets", "position"], filters=then)
        return {topic_id: reading_of(rows, topic_id) for topic_id in topic_ids}

    def last_read(self) -> LastRead:
        """What it says of the Kafka that was read. A table that an older version of Hourline made says less."""
        there = set(pa.schema(self.table.schema().to_arrow()).names)
        asked = [name for name in LAST_READ_COLUMNS if name in there]
        return last_read_of(_in_order(self.table.to_pyarrow_table(columns=asked)))

    def files_read(self) -> dict[str, FileRead]:
        """The files that were read as they arrived, by what identifies them, in the order of their first rows."""
        names = ["sequence", "topic_id", "topic", "offsets"]
        return files_read_of(_in_order(self.table.to_pyarrow_table(columns=names)))

    def total(self, count: str) -> int:
        """The sum of one of the counts of ``RecordCounts`` over all rows."""
        rows = _in_order(self.table.to_pyarrow_table(columns=["sequence", "topic_id", count]))
        return pc.sum(rows[count]).as_py() or 0

    def hours_of(self, topic_ids: Collection[str]) -> set[datetime]:
        """The hours (UTC) of the accepted events of some topics or files."""
        rows = self.table.to_pyarrow_table(columns=["topic_id", "hours"])
        hours = rows.filter(pc.is_in(rows["topic_id"], pa.array(list(topic_ids), pa.string())))["hours"]
        return set(pc.unique(pc.struct_field(pc.list_flatten(hours), "hour")).to_pylist())

    def counted(self, after: int, up_to: int) -> Iterator[tuple[datetime, int]]:
        """Each hour (UTC) with accepted events of a sequence above ``after``, up to ``up_to``, and that sequence."""
        rows = self._between(after, up_to, ["sequence", "hours"]).combine_chunks()
        hours = pc.struct_field(pc.list_flatten(rows["hours"]), "hour").to_pylist()
        yield from zip(hours, rows["sequence"].take(pc.list_parent_indices(rows["hours"])).to_pylist(), strict=True)

    def versions_used(self, lookup: str, hours: Collection[datetime] | None) -> list[UsedVersion]:
        """The versions of a lookup that micro-batches have used, in order. Those that recorded none count to the next
        ones that did. ``hours`` are in UTC; None: all.
        """
        names = ["sequence", "lookups", "hours"]
        if "lookups" not in {column.name for column in self.table.schema().fields}:  # An older version has made it.
            return []
        rows = self.table.to_pyarrow_table(columns=names).sort_by("sequence").combine_chunks()
        sequences, used = rows["sequence"].combine_chunks(), pc.list_flatten(rows["lookups"])
        of_lookup = pc.equal(pc.struct_field(used, "lookup"), lookup)
        recorded = sequences.take(pc.list_parent_indices(rows["lookups"])).filter(of_lookup).to_numpy()
        versions = pc.struct_field(used, "version").filter(of_lookup).to_numpy()
        if not len(versions):
            return []
        is_last = np.append(versions[1:] != versions[:-1], True)
        lasts = recorded[is_last]
        touching = sequences.take(pc.list_parent_indices(rows["hours"]))
        if hours is not None:
            touched_hours = pc.struct_field(pc.list_flatten(rows["hours"]), "hour")
            touching = touching.filter(pc.is_in(touched_hours, pa.array(list(hours), TIMESTAMP)))
        touched = {*np.searchsorted(lasts, touching.to_numpy()).tolist()}
        spans = zip(lasts.tolist(), versions[is_last].tolist(), strict=True)
        return [UsedVersion(last, version, place in touched) for place, (last, version) in enumerate(spans)]

    def _between(self, after: int, up_to: int, columns: list[str]) -> pa.Table:
        within = [("sequence", ">", after), ("sequence", "<=", up_to)]
        return self.table.to_pyarrow_table(columns=columns, filters=within)

    def finish(self, rows: Sequence[ProgressRow], written: Mapping[str, int]) -> None:
        """Commit the rows of a micro-batch, which finishes it. ``written`` are the versions of its tables. Raises
        ConflictError when another process has written to progress.
        """
        sequence = rows[0].sequence
        commits.append(self.table, to_arrow(rows), {"sequence": sequence}, [SPEED_WRITER], sequence, written)

    def reset(self, rows: Sequence[ProgressRow], written: Mapping[str, int], of_metric: bool) -> None:
        """Commit the rows of a reset, of the source or of a metric. Otherwise like ``finish``."""
        add_columns(self.table, PROGRESS_SCHEMA)
        writers, sequence = [SPEED_WRITER], rows[0].sequence
        writers += [_METRIC_RESET] if of_metric else []
        writers += [_GAP] if any(row.gaps for row in rows) else []
        commits.append(self.table, to_arrow(rows), {"reset": sequence}, writers, sequence, written)

    def begin_anew(self, row: ProgressRow, written: Mapping[str, int]) -> None:
        """Replace all rows by that of a reset of a derived source. Otherwise like ``finish``."""
        add_columns(self.table, PROGRESS_SCHEMA)
        writers, sequence = [SPEED_WRITER, _METRIC_RESET, _ANEW], row.sequence
        commits.overwrite(self.table, to_arrow([row]), None, {"reset": sequence}, written, writers, sequence)

    def compact(self, after: int, up_to: int, rows: Iterable[ProgressRow]) -> None:
        """Replace the rows above ``after``, up to ``up_to``, by ``rows``, each with the clocks of partitions that its
        sequence had. Raises ConflictError as ``finish`` does.
        """
        add_columns(self.table, PROGRESS_SCHEMA)
        compacted = to_arrow(rows)
        kept = [("sequence", "in", compacted["sequence"].unique().to_pylist())]
        before = self.table.to_pyarrow_table(columns=["sequence", "partitions"], filters=kept)
        of_sequence = pc.index_in(compacted["sequence"], value_set=before["sequence"].combine_chunks())
        place = compacted.column_names.index("partitions")
        compacted = compacted.set_column(place, "partitions", before["partitions"].take(of_sequence))
        commits.overwrite(
            self.table,
            compacted,
            f"sequence > {after} AND sequence <= {up_to}",
            {"compacted": f"sequences {after + 1} to {up_to} into {compacted.num_rows} rows"},
            writers=[_COMPACTED],
            sequence=up_to,
        )


def _in_order(rows: pa.Table) -> pa.Table:
    """The rows with PROGRESS_SCHEMA, in order. A table that an older version of Hourline made has fewer columns."""
    whole = pa.concat_tables([PROGRESS_SCHEMA.empty_table(), rows], promote_options="default")
    return whole.select(PROGRESS_SCHEMA.names).sort_by([("sequence", "ascending"), ("topic_id", "ascending")])
