"""Reads records again after a reset, and counts each of them once.

An event that was archived is skipped, and so is a record without one: a tombstone, an empty one, or one that the
source's branch does not take. An event that was rejected is validated again, since its source's declaration may have
been mended. It is skipped if decoding anew has made an event of its bytes, which counts already. The micro-batch that
reads it again also takes back that it was rejected. So over all of progress, ``records`` is the number of distinct
records read. The old verdict stays until then, so a second reset loses nothing.
What a source has archived or rejected stays its own, whatever its branch becomes.

Places are those of the declaration by which a record was read first. If something of it is archived, only the places
that were rejected are validated again: a changed ``explode`` makes no further events of it. A record of which nothing
is archived is read as if it were new, and all that it counted as is taken back.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from hourline_core.ledger.layout import FROM_HOUR
from hourline_core.ledger.progress import Progress
from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.ledger.read_offsets import Range, Reading
from hourline_core.model.scratch_columns import OFFSET, PARTITION, PLACE, TOPIC_ID
from hourline_core.storage import commits
from speed_layer.intake.sorted_arrays import Integers
from speed_layer.recovery.counted_records import CountedRecords, Partition, offsets_by_partition

Where = list[list[tuple[str, str, int]]]
_NONE: Integers = np.empty(0, dtype=np.int64)
_ADDRESSES = pa.schema({TOPIC_ID: pa.string(), PARTITION: pa.int32(), OFFSET: pa.int64(), PLACE: pa.int32()})


class Reprocessing:
    """The offsets ahead that were read before: 8 bytes a record, released once reading has passed them. It is mostly
    empty.
    """

    def __init__(
        self,
        progress: Progress,
        events: DeltaTable,
        rejected: DeltaTable,
        topic_ids: Collection[str],
        decoded: Callable[[], Iterable[DeltaTable]] = list,
    ) -> None:
        self._progress, self._events, self._rejected_records = progress, events, rejected
        self._decoded = decoded
        self._met = set(topic_ids)
        self._counted = CountedRecords()
        for topic_id, reading in progress.readings(topic_ids).items():
            self._expect(topic_id, reading, reading.next_offsets)

    def is_met(self, topic_ids: Collection[str]) -> bool:
        """Whether all of these topics are known here."""
        return self._met.issuperset(topic_ids)

    def meet(self, topic_ids: Collection[str]) -> None:
        """Take up topics that were not there at the start. Spark reads them from their beginning, also one that the
        source has read in an earlier run. All that was read of them must be committed.
        """
        new = set(topic_ids) - self._met
        self._met |= new
        for topic_id, reading in self._progress.readings(new).items():
            self._expect(topic_id, reading, dict.fromkeys(reading.read, 0))

    def counted_within(self, offsets: Mapping[Partition, Range]) -> CountedRecords:
        """What counts already of these offsets, by topic id and partition."""
        if not self._counted.ahead:
            return self._counted
        # No table tells records of another branch and empty ones apart. A source that has had both is a rare one.
        return replace(self._counted.within(offsets), has_not_taken=self._progress.total("not_taken") > 0)

    def release_passed(self, last_offsets: Mapping[Partition, int]) -> None:
        """Release the partitions whose last offsets, which have been read, are at the end of what was read before."""
        passed = {
            of
            for of, last in last_offsets.items()
            if (ahead := self._counted.ahead.get(of)) and last + 1 >= ahead[-1][1]
        }
        if passed:
            self._counted = self._counted.without(passed)

    def _expect(self, topic_id: str, reading: Reading, next_offsets: Mapping[int, int]) -> None:
        starts = {
            partition: offset for partition, offset in next_offsets.items() if offset < (reading.end(partition) or 0)
        }
        ahead = {(topic_id, partition): reading.read[partition] for partition in starts}
        archived, refused = (
            _addresses_from(table, topic_id, starts) for table in (self._events, self._rejected_records)
        )
        for table in self._decoded() if refused.num_rows else ():
            accepted = _accepted_anew(table, topic_id, starts)
            archived = pa.concat_tables([archived, accepted])
            refused = refused.join(accepted, _ADDRESSES.names, join_type="left anti")
        self._counted = self._counted.plus(ahead, archived, refused)


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
    validated = offsets_by_partition(pa.concat_tables(now))
    dropped = []
    for (topic_id, partition), offsets in offsets_by_partition(before).items():
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
    return _rows_from(table, topic_id, starts).cast(_ADDRESSES) if starts else _ADDRESSES.empty_table()


def _accepted_anew(table: DeltaTable, topic_id: str, starts: Mapping[int, int]) -> pa.Table:
    """The addresses of the events of a topic, from the offset in ``starts`` (by partition) on, that the archive has not
    and the ``table`` of decoding anew has.
    """
    rows = _rows_from(table, topic_id, starts, "hour", FROM_HOUR)
    is_new = pc.and_(pc.is_valid(rows["hour"]), pc.is_null(rows[FROM_HOUR]))
    return rows.filter(is_new).select(_ADDRESSES.names).cast(_ADDRESSES)


def _rows_from(table: DeltaTable, topic_id: str, starts: Mapping[int, int], *columns: str) -> pa.Table:
    where: Where = [[("partition", "=", partition), ("offset", ">=", offset)] for partition, offset in starts.items()]
    rows = _of_topic(table, topic_id, where, PLACE, *columns)
    return rows.set_column(3, PLACE, pc.fill_null(rows[PLACE], 0))


def _of_topic(table: DeltaTable, topic_id: str | None, where: Where, *columns: str) -> pa.Table:
    """TOPIC_ID, PARTITION, OFFSET, and other ``columns`` of the rows of a topic. pyarrow cannot filter by text in files
    of several topics that this process has just written: their statistics have another type of text.
    """
    rows = table.to_pyarrow_table(columns=["topic_id", "partition", "offset", *columns], filters=where)
    rows = rows.set_column(0, "topic_id", rows["topic_id"].cast(pa.string()))
    own = rows.filter(pc.equal(rows["topic_id"], pa.scalar(topic_id, pa.string())))
    return own.rename_columns([TOPIC_ID, PARTITION, OFFSET, *columns])
