"""The work of a task: archives the evaluated records of its part, folds them, and counts them, chunk by chunk.

It runs where the records are, in a Python worker of Spark. So its memory is that of a chunk, of the tiles, and 8 bytes
for each event time.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.compute.archive import events_to_archive, rejected_to_archive
from hourline_core.compute.fold_tiles import Fold
from hourline_core.ledger.last_records import LastRecord
from hourline_core.ledger.layout import QUARANTINE_SCHEMA, REJECTED_SCHEMA
from hourline_core.ledger.read_offsets import ARRIVALS, ARRIVED_FILE
from hourline_core.ledger.source_clock import NO_TIMES, Micros
from hourline_core.model.decoding import BYTES_ALONE, TOMBSTONE
from hourline_core.model.scratch_columns import (
    ARRIVED,
    DECODING,
    DUPLICATE,
    EVENT_TIME,
    HEADERS,
    HEADERS_TEXT,
    HOUR,
    ID,
    NOT_TAKEN_OUTCOMES,
    OFFSET,
    OUTCOME,
    PARTITION,
    PLACE,
    REASON,
    TAKEN_BACK,
    TOPIC_ID,
    VALUE,
    VALUE_SIZE,
)
from hourline_core.storage.file_if_rows import FileIfRows
from speed_layer.intake.accounting import count_records
from speed_layer.intake.headers import headers_of
from speed_layer.intake.id_hashes import with_id_hash
from speed_layer.intake.part import IDS, Assignment, IntakePlan, Part, Partition, TopicPart
from speed_layer.intake.record_rows import (
    accepted_of,
    event_times_by_partition,
    keep,
    last_records_of,
    number_of_records,
    of_topic,
    offsets_by_partition,
    partitions_of,
    with_kept_values,
    with_outcome,
    with_topic_ids,
)


class PartBuilder:
    """Builds the ``Part`` of one task. ``folds`` are those of the plan's metrics, by aggregation."""

    def __init__(self, plan: IntakePlan, assignment: Assignment, folds: Mapping[str, Fold]) -> None:
        self._plan = plan
        self._joined = plan.source.is_derived
        self._assignment = assignment
        self._folds = folds
        self._events = FileIfRows(plan.events, plan.storage_options, "events", plan.events_schema)
        self._rejected = FileIfRows(plan.rejected, plan.storage_options, "rejected", REJECTED_SCHEMA)
        self._quarantine = FileIfRows(plan.quarantine, plan.storage_options, "quarantine", QUARANTINE_SCHEMA)
        self._part = Part()
        self._last_records: dict[Partition, LastRecord] = {}
        self._offsets: dict[Partition, tuple[int, int]] = {}
        self._times: dict[Partition, list[Micros]] = {}
        """Of the partitions with a record that the source takes, the event times in the order of the offsets."""
        self._tiles: dict[str, list[pa.Table]] = {name: [] for name in folds}

    def add(self, rows: pa.Table) -> None:
        """Take in ``rows``, as ``RecordPlan.apply`` gives them: all of each of their records, behind those before."""
        if HEADERS_TEXT in rows.column_names:
            headers = headers_of(rows[HEADERS_TEXT].combine_chunks())
            rows = rows.drop_columns([HEADERS_TEXT]).append_column(HEADERS, headers)
        rows = with_topic_ids(rows, self._assignment.topic_ids)
        counted = self._assignment.counted
        skipped = counted.mark(rows)
        brought = self._bring_bytes(rows)
        if self._plan.source.explode:
            rows = with_kept_values(rows, skipped, raw=self._plan.source.raw)
        fresh = self._mark_duplicates(keep(rows, pa.array(~skipped)))
        accepted = accepted_of(fresh)
        known = counted.find(fresh)
        self._part += Part(
            records=number_of_records(rows, joined=self._joined),
            rows=rows.num_rows,
            size=pc.sum(rows.filter(pc.equal(rows[PLACE], 0))[VALUE_SIZE]).as_py() or 0,
            already_counted=rows.num_rows - fresh.num_rows,
            not_taken=with_outcome(fresh, *NOT_TAKEN_OUTCOMES).num_rows,
            quarantined=self._fold(accepted),
            validated_again=known.rejected,
            brought_bytes=brought,
            arrived=pc.max(rows[ARRIVED]).as_py(),
            latest=pc.max(with_outcome(fresh, "accepted")[EVENT_TIME]).as_py(),
            topics={topic_id: self._of_topic(fresh, topic_id) for topic_id in pc.unique(rows[TOPIC_ID]).to_pylist()},
            ids=self._ids(fresh),
        )
        self._note_offsets(rows)
        self._note_times(rows, fresh)
        self._archive(fresh)

    def finish(self) -> Part:
        """All that was taken in. The files are written, and no commit names them yet."""
        assignment, arrived = self._assignment, self._part.arrived
        clocks = {
            of: assignment.clock.of_partition(of, arrived).advance(
                np.concatenate([NO_TIMES, *times]), arrived, self._plan.source.skew
            )
            for of, times in ({} if assignment.history else self._times).items()
            if arrived is not None
        }
        return self._part + Part(
            offsets=self._offsets,
            last_records=self._last_records,
            clocks=clocks,
            events=self._events.close(),
            rejected=self._rejected.close(),
            quarantine=self._quarantine.close(),
            tiles={
                name: [self._folds[name].merge(tiles)] for name, tiles in self._tiles.items() if any(map(len, tiles))
            },
        )

    def _bring_bytes(self, rows: pa.Table) -> int:
        """Archive the bytes alone of records whose events were archived without them. Returns their number."""
        counted = self._assignment.counted
        if not counted.without_bytes:
            return 0
        firsts = pc.and_(pc.equal(rows[PLACE], 0), pc.is_valid(rows[VALUE]))
        records = keep(rows, pc.and_(firsts, pa.chunked_array([pa.array(counted.mark_without_bytes(rows))])))
        if records.num_rows:
            own = {REASON: pa.nulls(records.num_rows, pa.string())}
            own[DECODING] = pa.array([BYTES_ALONE] * records.num_rows, pa.string())
            for name, column in own.items():
                records = records.drop_columns([name] if name in records.column_names else []).append_column(
                    name, column
                )
            self._rejected.write(self._numbered(rejected_to_archive(records)))
        return int(records.num_rows)

    def _mark_duplicates(self, rows: pa.Table) -> pa.Table:
        """The rows with DUPLICATE (boolean). One that takes an event back does not count itself."""
        if TAKEN_BACK in rows.column_names:
            return rows.append_column(DUPLICATE, pc.fill_null(rows[TAKEN_BACK], False))
        marks, duplicates = np.zeros(rows.num_rows, dtype=np.bool_), self._assignment.duplicates
        if duplicates:
            offsets = np.array(sorted({offset for _, _, offset, _ in duplicates}), dtype=np.int64)
            addresses = [rows[name] for name in (TOPIC_ID, PARTITION, OFFSET, PLACE)]
            for row in np.flatnonzero(np.isin(rows[OFFSET].to_numpy(), offsets)):
                marks[row] = tuple(column[row].as_py() for column in addresses) in duplicates
        return rows.append_column(DUPLICATE, pa.array(marks))

    def _fold(self, accepted: pa.Table) -> int:
        """Fold the events. Returns the number of those that metrics do not count."""
        quarantined = 0
        for name, fold in self._folds.items() if accepted.num_rows else ():
            folded = fold.fold(accepted)
            self._tiles[name].append(folded.tiles)
            if folded.quarantined is not None:
                quarantined += folded.quarantined.num_rows
                self._quarantine.write(self._numbered(folded.quarantined))
        return quarantined

    def _of_topic(self, fresh: pa.Table, topic_id: str) -> TopicPart:
        rows = of_topic(fresh, topic_id)
        counts = count_records(rows, self._assignment.counted.find(rows), joined=self._joined)
        taken_back = keep(rows, rows[DUPLICATE]) if TAKEN_BACK in rows.column_names else rows.slice(0, 0)
        return TopicPart(counts, _count_hours(accepted_of(rows)), _count_hours(taken_back))

    def _ids(self, fresh: pa.Table) -> list[pa.Table]:
        if not self._plan.source.remembers_ids:
            return []
        rows = keep(fresh, pc.is_valid(fresh[ID]))
        return [with_id_hash(rows).select(IDS.names).cast(IDS)] if rows.num_rows else []

    def _note_offsets(self, rows: pa.Table) -> None:
        for of, (first, last) in offsets_by_partition(rows).items():
            known = self._offsets.get(of, (first, last))
            self._offsets[of] = (min(known[0], first), max(known[1], last))
        if not self._assignment.history and not self._joined:
            self._last_records |= last_records_of(rows)

    def _note_times(self, rows: pa.Table, fresh: pa.Table) -> None:
        """A duplicate moves the clock, too: it shows how far its partition is. A record that another branch takes shows
        nothing.
        """
        taken = keep(rows, pc.invert(pc.is_in(rows[OUTCOME], pa.array(NOT_TAKEN_OUTCOMES))))
        times = event_times_by_partition(
            with_outcome(fresh, "accepted").select([TOPIC_ID, PARTITION, OFFSET, EVENT_TIME])
        )
        for of in partitions_of(taken):
            self._times.setdefault(_clock_of(of), []).append(times.get(of, NO_TIMES))

    def _archive(self, fresh: pa.Table) -> None:
        is_tombstone = pc.equal(fresh[OUTCOME], "tombstone")
        decoding = pc.if_else(is_tombstone, TOMBSTONE, pa.scalar(self._plan.decoding, pa.string()))
        fresh = fresh.append_column(DECODING, decoding)
        accepted, rejected = with_outcome(fresh, "accepted"), with_outcome(fresh, "rejected", "empty", "tombstone")
        # Of a record without an event, all there is to keep are its bytes, from which other declarations may make some.
        # A tombstone has none. Its key is the one of the row that it deletes, where the source is read as a table.
        rejected = keep(rejected, pc.or_(pc.is_valid(rejected[VALUE]), pc.not_equal(rejected[OUTCOME], "empty")))
        if accepted.num_rows:
            self._events.write(self._numbered(events_to_archive(accepted, self._plan.stored_names)))
        if rejected.num_rows:
            self._rejected.write(self._numbered(rejected_to_archive(rejected)))

    def _numbered(self, rows: pa.Table) -> pa.Table:
        return rows.append_column("sequence", pa.array([self._assignment.sequence] * rows.num_rows, pa.int64()))


def _clock_of(partition: Partition) -> Partition:
    """The partition whose clock the records of ``partition`` move."""
    return (ARRIVALS, 0) if partition[0].startswith(ARRIVED_FILE) else partition


def _count_hours(rows: pa.Table) -> Counter[datetime]:
    hours = pc.value_counts(rows[HOUR])
    return Counter(dict(zip(hours.field(0).to_pylist(), hours.field(1).to_pylist(), strict=True)))
