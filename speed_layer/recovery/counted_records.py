"""What the records of a micro-batch count as already, after a reset has made the source read them again.

It is known where the records are: the driver sends what it holds of the offsets of one micro-batch.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.ledger.read_offsets import Range
from hourline_core.model.scratch_columns import NOT_TAKEN_OUTCOMES, OFFSET, OUTCOME, PARTITION, PLACE, TOPIC_ID
from speed_layer.intake.sorted_arrays import Integers, distinct, is_among

Marks = npt.NDArray[np.bool_]
Partition = tuple[str, int]
"""A partition of a topic, by the topic's id."""
_Held = TypeVar("_Held")
_NONE: Integers = np.empty(0, dtype=np.int64)
_ADDRESS = [TOPIC_ID, PARTITION, OFFSET, PLACE]
_WITHOUT_EVENT = ["tombstone", "empty", *NOT_TAKEN_OUTCOMES]
"""The outcomes of records that have neither an event nor a reason. That they were read is known from their offsets."""


@dataclass(frozen=True)
class CountedBefore:
    """What records that are validated again count as already."""

    records: int = 0
    rejected: int = 0
    empty: int = 0
    not_taken: int = 0


@dataclass(frozen=True)
class CountedRecords:
    """Records that were read before, by topic id and partition."""

    ahead: Mapping[Partition, list[Range]] = field(default_factory=dict)
    """Their offsets."""
    archived: Mapping[Partition, Integers] = field(default_factory=dict)
    """The offsets of those of which something is archived: sorted, each once."""
    rejected: Mapping[Partition, Integers] = field(default_factory=dict)
    """The offsets of rejected events, sorted."""
    partly_rejected: frozenset[tuple[str, int, int, int]] = frozenset()
    """The addresses of rejected events of records of which something else is archived."""
    without_bytes: Mapping[Partition, Integers] = field(default_factory=dict)
    """The offsets of archived records whose bytes were not kept: sorted, each once."""
    has_not_taken: bool = False
    """Whether records without an event that are kept nowhere are those of another branch."""

    def plus(
        self, ahead: Mapping[Partition, list[Range]], archived: pa.Table, rejected: pa.Table, without_bytes: pa.Table
    ) -> "CountedRecords":
        """These, and the records ``ahead`` of another topic. The tables have the addresses of its events, the last one
        those of archived ones whose bytes were not kept.
        """
        lacking = {partition: distinct(offsets) for partition, offsets in offsets_by_partition(without_bytes).items()}
        in_archive = {partition: distinct(offsets) for partition, offsets in offsets_by_partition(archived).items()}
        all_archived = {**self.archived, **in_archive}
        # Of records of which something else is archived: there are none but exploded ones.
        partly = rejected.filter(pa.array(_mark(rejected, all_archived, is_among)))
        addresses = zip(*(column.to_pylist() for column in partly.select(_ADDRESS).columns), strict=True)
        return replace(
            self,
            ahead={**self.ahead, **ahead},
            archived=all_archived,
            rejected={**self.rejected, **offsets_by_partition(rejected)},
            partly_rejected=self.partly_rejected | frozenset(addresses),
            without_bytes={**self.without_bytes, **lacking},
        )

    def without(self, partitions: Collection[Partition]) -> "CountedRecords":
        """These without some partitions."""
        ahead, archived, rejected, without_bytes = (
            {of: held for of, held in by_partition.items() if of not in partitions}
            for by_partition in (self.ahead, self.archived, self.rejected, self.without_bytes)
        )
        return replace(self, ahead=ahead, archived=archived, rejected=rejected, without_bytes=without_bytes)  # type: ignore[arg-type]

    def within(self, offsets: Mapping[Partition, Range]) -> "CountedRecords":
        """Those of these offsets."""
        archived, rejected, without_bytes = (
            {of: some for of in offsets.keys() & held.keys() if len(some := _between(held[of], *offsets[of]))}
            for held in (self.archived, self.rejected, self.without_bytes)
        )
        ahead = {
            of: [(max(first, start), min(last, end)) for first, last in self.ahead[of] if first < end and last > start]
            for of, (start, end) in offsets.items()
            if of in self.ahead
        }
        partly = frozenset(
            address
            for address in self.partly_rejected
            if (span := offsets.get(address[:2])) and span[0] <= address[2] < span[1]
        )
        return CountedRecords(
            {of: spans for of, spans in ahead.items() if spans}, archived, rejected, partly, without_bytes=without_bytes
        )

    def mark(self, rows: pa.Table) -> Marks:
        """Return by row whether it (TOPIC_ID, PARTITION, OFFSET, PLACE, OUTCOME) counts already and is to be
        skipped.
        """
        if not self.ahead:
            return np.zeros(rows.num_rows, dtype=np.bool_)
        addresses = rows.select(_ADDRESS)
        archived = _mark(addresses, self.archived, is_among)
        for row in np.flatnonzero(archived) if self.partly_rejected else ():
            archived[row] = tuple(column[row].as_py() for column in addresses.columns) not in self.partly_rejected
        without_event = pc.is_in(rows[OUTCOME], pa.array(_WITHOUT_EVENT)).to_numpy()
        passed: Marks = archived | (without_event & _mark(addresses, self.ahead, _within))
        return passed

    def mark_without_bytes(self, rows: pa.Table) -> Marks:
        """Return by row (TOPIC_ID, PARTITION, OFFSET) whether its record is archived without its bytes."""
        return _mark(rows, self.without_bytes, is_among)

    def find(self, rows: pa.Table) -> CountedBefore:
        """What the records of ``rows``, which are validated again, count as already."""
        records = rejected = in_no_table = 0
        again = offsets_by_partition(rows) if self.ahead else {}
        for partition in again.keys() & self.ahead.keys():
            offsets = distinct(again[partition])
            offsets = offsets[_within(offsets, self.ahead[partition])]
            refused, archived = (held.get(partition, _NONE) for held in (self.rejected, self.archived))
            records += len(offsets)
            rejected += int(np.isin(refused, offsets).sum())
            in_no_table += int((~np.isin(offsets, refused) & ~np.isin(offsets, archived)).sum())
        of_branch = in_no_table > 0 and self.has_not_taken
        return CountedBefore(
            records, rejected, empty=0 if of_branch else in_no_table, not_taken=in_no_table if of_branch else 0
        )


def _between(offsets: Integers, start: int, end: int) -> Integers:
    first, last = np.searchsorted(offsets, (start, end))
    return offsets[first:last]


def offsets_by_partition(rows: pa.Table) -> dict[Partition, Integers]:
    """By partition, the sorted offsets of ``rows`` (TOPIC_ID, PARTITION, OFFSET)."""
    partitions, offsets = rows[PARTITION].to_numpy(), rows[OFFSET].to_numpy()
    found: dict[Partition, Integers] = {}
    for of in rows.group_by([TOPIC_ID, PARTITION]).aggregate([]).to_pylist():
        here = (partitions == of[PARTITION]) & pc.equal(rows[TOPIC_ID], of[TOPIC_ID]).to_numpy()
        found[of[TOPIC_ID], of[PARTITION]] = np.sort(offsets[here])
    return found


def _within(offsets: Integers, ranges: list[Range]) -> Marks:
    marks: Marks = np.logical_or.reduce([(offsets >= first) & (offsets < end) for first, end in ranges])
    return marks


def _mark(rows: pa.Table, held: Mapping[Partition, _Held], is_held: Callable[[Integers, _Held], Marks]) -> Marks:
    """Return by row (TOPIC_ID, PARTITION, OFFSET) whether its offset is held in its partition."""
    partitions, offsets = rows[PARTITION].to_numpy(), rows[OFFSET].to_numpy()
    marks = np.zeros(rows.num_rows, dtype=np.bool_)
    for (topic_id, partition), of_partition in held.items():
        here = (partitions == partition) & pc.equal(rows[TOPIC_ID], topic_id).to_numpy()
        marks[here] = is_held(offsets[here], of_partition)
    return marks
