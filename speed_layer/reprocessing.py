"""Reads records again after a reset, and counts each of them once.

An event that was archived is skipped, and so is a record without one: a tombstone, or an empty one. An event that was
rejected is validated again, since its source's declaration may have been mended. The micro-batch that reads it again
also takes back that it was rejected. So over all of progress, ``records`` is the number of distinct records read. The
old verdict stays until then, so a second reset loses nothing.

Places are those of the declaration by which a record was read first. If something of it is archived, only the places
that were rejected are validated again: a changed ``explode`` makes no further events of it. A record of which nothing
is archived is read as if it were new, and all that it counted as is taken back.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.ledger.read_offsets import Range, Reading
from hourline_core.model.scratch_columns import OFFSET, OUTCOME, PARTITION, PLACE
from hourline_core.storage import commits

Offsets = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]
_Held = TypeVar("_Held")
_NONE: Offsets = np.empty(0, dtype=np.int64)
_ADDRESS = ["partition", "offset", PLACE]


@dataclass(frozen=True)
class CountedBefore:
    """What records that are validated again count as already."""

    records: int = 0
    rejected: int = 0
    empty: int = 0


class Reprocessing:
    """The offsets ahead that were read before: 8 bytes a record, released once reading has passed them. It is mostly
    empty.
    """

    def __init__(self, reading: Reading, events: DeltaTable, rejected: DeltaTable, topic_id: str) -> None:
        self._ahead = {
            partition: reading.read[partition]
            for partition, offset in reading.next_offsets.items()
            if offset < (reading.end(partition) or 0)
        }
        starts = {partition: reading.next_offsets[partition] for partition in self._ahead}
        archived, refused = (_addresses_from(table, topic_id, starts) for table in (events, rejected))
        self._archived = {partition: np.unique(offsets) for partition, offsets in _by_partition(archived).items()}
        self._rejected = _by_partition(refused)
        # Of records of which something else is archived: there are none but exploded ones.
        partly = refused.filter(pa.array(_marked(refused, self._archived, _among)))
        self._partly_rejected = set(zip(*(column.to_pylist() for column in partly.columns), strict=True))

    def mark_counted(self, rows: pa.Table) -> Marks:
        """Return by row whether it (PARTITION, OFFSET, PLACE, OUTCOME) counts already and is to be skipped."""
        if not self._ahead:
            return np.zeros(rows.num_rows, dtype=np.bool_)
        addresses = _addresses(rows)
        archived = _marked(addresses, self._archived, _among)
        for row in np.flatnonzero(archived) if self._partly_rejected else ():
            partition, offset, place = (column[row].as_py() for column in addresses.columns)
            archived[row] = (partition, offset, place) not in self._partly_rejected
        without_event = pc.is_in(rows[OUTCOME], pa.array(["tombstone", "empty"])).to_numpy()
        passed: Marks = archived | (without_event & _marked(addresses, self._ahead, _within))
        return passed

    def counted_before(self, rows: pa.Table) -> CountedBefore:
        """What the records of ``rows``, which are validated again, count as already."""
        records = rejected = empty = 0
        again = _by_partition(_addresses(rows)) if self._ahead else {}
        for partition in again.keys() & self._ahead.keys():
            offsets = np.unique(again[partition])
            offsets = offsets[_within(offsets, self._ahead[partition])]
            refused, archived = (held.get(partition, _NONE) for held in (self._rejected, self._archived))
            records += len(offsets)
            rejected += int(np.isin(refused, offsets).sum())
            empty += int((~np.isin(offsets, refused) & ~np.isin(offsets, archived)).sum())
        return CountedBefore(records, rejected, empty)

    def release_passed(self, rows: pa.Table) -> None:
        """Release the partitions in which ``rows``, which have been processed, end beyond what was read before."""
        for entry in rows.group_by(PARTITION).aggregate([(OFFSET, "max")]).to_pylist():
            ahead = self._ahead.get(entry[PARTITION])
            if ahead and entry[f"{OFFSET}_max"] + 1 >= ahead[-1][1]:
                for held in (self._ahead, self._archived, self._rejected):
                    held.pop(entry[PARTITION], None)


def drop_reprocessed(events: DeltaTable, rejected: DeltaTable, row: ProgressRow) -> None:
    """Delete from ``rejected`` the events of the records that a finished micro-batch has validated again. ``row`` is
    its row of progress, the newest one.

    The rows of that micro-batch, in events and in rejected, say which records these are. Raises ConflictError when
    another process writes there.
    """
    where = [
        [
            ("topic_id", "=", row.topic_id),
            ("partition", "=", read.partition),
            ("offset", ">=", read.first),
            ("offset", "<=", read.last),
        ]
        for read in row.offsets
    ]
    if not where:
        return
    there = rejected.to_pyarrow_table(columns=["sequence", "partition", "offset"], filters=where)
    before = there.filter(pc.less(there["sequence"], row.sequence))
    if not before.num_rows:
        return
    now = [
        events.to_pyarrow_table(
            columns=["partition", "offset"], filters=[[*one, ("sequence", "=", row.sequence)] for one in where]
        )
    ]
    now.append(there.filter(pc.equal(there["sequence"], row.sequence)).select(["partition", "offset"]))
    validated = _by_partition(pa.concat_tables(now))
    dropped = []
    for partition, offsets in _by_partition(before).items():
        anew = np.isin(offsets, validated.get(partition, _NONE))
        if anew.any():
            # Only few offsets, if any, were not read again (compacted away since). Naming these keeps the predicate
            # short.
            kept = f" AND offset NOT IN ({', '.join(map(str, offsets[~anew]))})" if not anew.all() else ""
            dropped.append(
                f"(partition = {partition} AND offset >= {offsets[anew].min()} "
                f"AND offset <= {offsets[anew].max()}{kept})"
            )
    if dropped:
        predicate = f"sequence < {row.sequence} AND topic_id = '{row.topic_id}' AND ({' OR '.join(dropped)})"
        commits.delete(rejected, predicate, {"validated anew": row.sequence})


def _addresses_from(table: DeltaTable, topic_id: str, starts: Mapping[int, int]) -> pa.Table:
    """partition, offset and place of what is in ``table``, from the offset in ``starts`` (by partition) on."""
    where = [
        [("topic_id", "=", topic_id), ("partition", "=", partition), ("offset", ">=", offset)]
        for partition, offset in starts.items()
    ]
    if not where:
        return pa.table({name: pa.array([], pa.int64()) for name in _ADDRESS})
    rows = table.to_pyarrow_table(columns=_ADDRESS, filters=where)
    return rows.set_column(2, PLACE, pc.fill_null(rows[PLACE], 0))


def _addresses(rows: pa.Table) -> pa.Table:
    """The same columns of the rows of a micro-batch."""
    return rows.select([PARTITION, OFFSET, PLACE]).rename_columns(_ADDRESS)


def _by_partition(rows: pa.Table) -> dict[int, Offsets]:
    """By partition, the sorted offsets of ``rows`` (partition, offset)."""
    partitions, offsets = rows["partition"].to_numpy(), rows["offset"].to_numpy()
    return {int(partition): np.sort(offsets[partitions == partition]) for partition in np.unique(partitions)}


def _among(offsets: Offsets, held: Offsets) -> Marks:
    places = np.minimum(np.searchsorted(held, offsets), len(held) - 1)
    marks: Marks = held[places] == offsets
    return marks


def _within(offsets: Offsets, ranges: list[Range]) -> Marks:
    marks: Marks = np.logical_or.reduce([(offsets >= first) & (offsets < end) for first, end in ranges])
    return marks


def _marked(rows: pa.Table, held: Mapping[int, _Held], is_held: Callable[[Offsets, _Held], Marks]) -> Marks:
    """Return by row (partition, offset) whether its offset is held in its partition."""
    partitions, offsets = rows["partition"].to_numpy(), rows["offset"].to_numpy()
    marks = np.zeros(rows.num_rows, dtype=np.bool_)
    for partition, of_partition in held.items():
        here = partitions == partition
        marks[here] = is_held(offsets[here], of_partition)
    return marks
