"""Reads records again after a reset, and counts each of them once.

An event that was archived is skipped, and so is a record without one: a tombstone, an empty one, or one that the
source's branch does not take. An event that was rejected is validated again, since its source's declaration may have
been mended. The micro-batch that reads it again also takes back that it was rejected. So over all of progress,
``records`` is the number of distinct records read. The old verdict stays until then, so a second reset loses nothing.
What a source has archived or rejected stays its own, whatever its branch becomes.

Places are those of the declaration by which a record was read first. If something of it is archived, only the places
that were rejected are validated again: a changed ``explode`` makes no further events of it. A record of which nothing
is archived is read as if it were new, and all that it counted as is taken back.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from hourline_core.ledger.progress import Progress
from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.ledger.read_offsets import Range, Reading
from hourline_core.model.scratch_columns import NOT_TAKEN_OUTCOMES, OFFSET, OUTCOME, PARTITION, PLACE, TOPIC_ID
from hourline_core.storage import commits
from speed_layer.intake.sorted_arrays import Integers, is_among

Marks = npt.NDArray[np.bool_]
Where = list[list[tuple[str, str, int]]]
Partition = tuple[str, int]
"""A partition of a topic, by the topic's id."""
_Held = TypeVar("_Held")
_NONE: Integers = np.empty(0, dtype=np.int64)
_ADDRESSES = pa.schema({TOPIC_ID: pa.string(), PARTITION: pa.int32(), OFFSET: pa.int64(), PLACE: pa.int32()})
_ADDRESS = _ADDRESSES.names


@dataclass(frozen=True)
class CountedBefore:
    """What records that are validated again count as already."""

    records: int = 0
    rejected: int = 0
    empty: int = 0
    not_taken: int = 0


_KEPT_NOWHERE = ["tombstone", "empty", *NOT_TAKEN_OUTCOMES]
"""The outcomes of records that no table has."""


class Reprocessing:
    """The offsets ahead that were read before: 8 bytes a record, released once reading has passed them. It is mostly
    empty.
    """

    def __init__(
        self, progress: Progress, events: DeltaTable, rejected: DeltaTable, topic_ids: Collection[str]
    ) -> None:
        self._progress, self._events, self._rejected_records = progress, events, rejected
        self._met = set(topic_ids)
        self._ahead: dict[Partition, list[Range]] = {}
        self._archived: dict[Partition, Integers] = {}
        self._rejected: dict[Partition, Integers] = {}
        self._partly_rejected: set[tuple[str, int, int, int]] = set()
        for topic_id, reading in progress.readings(topic_ids).items():
            self._expect(topic_id, reading, reading.next_offsets)

    def meet(self, topic_ids: Collection[str]) -> None:
        """Take up topics that were not there at the start. Spark reads them from their beginning, also one that the
        source has read in an earlier run.
        """
        new = set(topic_ids) - self._met
        self._met |= new
        for topic_id, reading in self._progress.readings(new).items():
            self._expect(topic_id, reading, dict.fromkeys(reading.read, 0))

    def _expect(self, topic_id: str, reading: Reading, next_offsets: Mapping[int, int]) -> None:
        starts = {
            partition: offset for partition, offset in next_offsets.items() if offset < (reading.end(partition) or 0)
        }
        self._ahead |= {(topic_id, partition): reading.read[partition] for partition in starts}
        archived, refused = (
            _addresses_from(table, topic_id, starts) for table in (self._events, self._rejected_records)
        )
        self._archived |= {partition: np.unique(offsets) for partition, offsets in _by_partition(archived).items()}
        self._rejected |= _by_partition(refused)
        # Of records of which something else is archived: there are none but exploded ones.
        partly = refused.filter(pa.array(_mark(refused, self._archived, is_among)))
        self._partly_rejected |= set(zip(*(column.to_pylist() for column in partly.columns), strict=True))

    def mark_counted(self, rows: pa.Table) -> Marks:
        """Return by row whether it (TOPIC_ID, PARTITION, OFFSET, PLACE, OUTCOME) counts already and is to be
        skipped.
        """
        if not self._ahead:
            return np.zeros(rows.num_rows, dtype=np.bool_)
        addresses = rows.select(_ADDRESS)
        archived = _mark(addresses, self._archived, is_among)
        for row in np.flatnonzero(archived) if self._partly_rejected else ():
            archived[row] = tuple(column[row].as_py() for column in addresses.columns) not in self._partly_rejected
        without_event = pc.is_in(rows[OUTCOME], pa.array(_KEPT_NOWHERE)).to_numpy()
        passed: Marks = archived | (without_event & _mark(addresses, self._ahead, _within))
        return passed

    def find_counted(self, rows: pa.Table) -> CountedBefore:
        """What the records of ``rows``, which are validated again, count as already."""
        records = rejected = in_no_table = 0
        again = _by_partition(rows) if self._ahead else {}
        for partition in again.keys() & self._ahead.keys():
            offsets = np.unique(again[partition])
            offsets = offsets[_within(offsets, self._ahead[partition])]
            refused, archived = (held.get(partition, _NONE) for held in (self._rejected, self._archived))
            records += len(offsets)
            rejected += int(np.isin(refused, offsets).sum())
            in_no_table += int((~np.isin(offsets, refused) & ~np.isin(offsets, archived)).sum())
        # No table tells these two apart. A source that has had both is a rare one.
        of_branch = in_no_table > 0 and self._progress.total("not_taken") > 0
        return CountedBefore(
            records, rejected, empty=0 if of_branch else in_no_table, not_taken=in_no_table if of_branch else 0
        )

    def release_passed(self, rows: pa.Table) -> None:
        """Release the partitions in which ``rows``, which have been processed, end beyond what was read before."""
        if not self._ahead:
            return
        for entry in rows.group_by([TOPIC_ID, PARTITION]).aggregate([(OFFSET, "max")]).to_pylist():
            partition = (entry[TOPIC_ID], entry[PARTITION])
            ahead = self._ahead.get(partition)
            if ahead and entry[f"{OFFSET}_max"] + 1 >= ahead[-1][1]:
                for held in (self._ahead, self._archived, self._rejected):
                    held.pop(partition, None)


def drop_reprocessed(events: DeltaTable, rejected: DeltaTable, row: ProgressRow) -> None:
    """Delete from ``rejected`` the events of a topic's records that a finished micro-batch has validated again. ``row``
    is its row of progress for the topic, one of the newest ones.

    The rows of that micro-batch, in events and in rejected, say which records these are. Raises ConflictError when
    another process writes there.
    """
    where: Where = [
        [
            ("partition", "=", read.partition),
            ("offset", ">=", read.first),
            ("offset", "<=", read.last),
        ]
        for read in row.offsets
    ]
    if not where:
        return
    there = _of_topic(rejected, row.topic_id, where, "sequence")
    before = there.filter(pc.less(there["sequence"], row.sequence))
    if not before.num_rows:
        return
    now = [_of_topic(events, row.topic_id, [[*one, ("sequence", "=", row.sequence)] for one in where])]
    now.append(there.filter(pc.equal(there["sequence"], row.sequence)).drop_columns("sequence"))
    validated = _by_partition(pa.concat_tables(now))
    dropped = []
    for (topic_id, partition), offsets in _by_partition(before).items():
        again = np.isin(offsets, validated.get((topic_id, partition), _NONE))
        if again.any():
            # Only few offsets, if any, were not read again (compacted away since). Naming these keeps the predicate
            # short.
            kept = f" AND offset NOT IN ({', '.join(map(str, offsets[~again]))})" if not again.all() else ""
            dropped.append(
                f"(partition = {partition} AND offset >= {offsets[again].min()} "
                f"AND offset <= {offsets[again].max()}{kept})"
            )
    if dropped:
        predicate = f"sequence < {row.sequence} AND topic_id = '{row.topic_id}' AND ({' OR '.join(dropped)})"
        commits.delete(rejected, predicate, {"validated again": row.sequence})


def _addresses_from(table: DeltaTable, topic_id: str, starts: Mapping[int, int]) -> pa.Table:
    """The addresses of what is in ``table`` of a topic, from the offset in ``starts`` (by partition) on."""
    if not starts:
        return _ADDRESSES.empty_table()
    where: Where = [[("partition", "=", partition), ("offset", ">=", offset)] for partition, offset in starts.items()]
    rows = _of_topic(table, topic_id, where, PLACE)
    return rows.set_column(3, PLACE, pc.fill_null(rows[PLACE], 0)).cast(_ADDRESSES)


def _of_topic(table: DeltaTable, topic_id: str | None, where: Where, *columns: str) -> pa.Table:
    """TOPIC_ID, PARTITION, OFFSET, and other ``columns`` of the rows of a topic. pyarrow cannot filter by text in files
    of several topics that this process has just written: their statistics have another type of text.
    """
    rows = table.to_pyarrow_table(columns=["topic_id", "partition", "offset", *columns], filters=where)
    rows = rows.set_column(0, "topic_id", rows["topic_id"].cast(pa.string()))
    own = rows.filter(pc.equal(rows["topic_id"], pa.scalar(topic_id, pa.string())))
    return own.rename_columns([TOPIC_ID, PARTITION, OFFSET, *columns])


def _by_partition(rows: pa.Table) -> dict[Partition, Integers]:
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
