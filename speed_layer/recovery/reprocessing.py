"""Reads records again after a reset, and counts each of them once.

An event that was archived is skipped, and so is a record without one: a tombstone, an empty one, or one that the
source's branch does not take. An event that was rejected is validated again, since its source's declaration may have
been mended. It is skipped if decoding anew has made an event of its bytes, which counts already. The micro-batch that
reads it again also takes back that it was rejected. So over all of progress, ``records`` is the number of distinct
records read. The old verdict stays until then, so a second reset loses nothing.
What a source has archived or rejected stays its own, whatever its branch becomes.

A source may have archived records without their bytes, and keep bytes now. When such a record is read again, its bytes
go into a row of the table of rejected records. So it can be decoded anew, too. Nothing else changes.

A topic that comes back while its source is read is no reset. Nothing of it is validated again: progress does not tell
decoding anew to wait for that.

Places are those of the declaration by which a record was read first. If something of it is archived, only the places
that were rejected are validated again: a changed ``explode`` makes no further events of it. A record of which nothing
is archived is read as if it were new, and all that it counted as is taken back.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from hourline_core.ledger.layout import FROM_HOUR
from hourline_core.ledger.progress import Progress
from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.ledger.read_again import Where, is_verdict, rows_of_topic, validated_again
from hourline_core.ledger.read_offsets import Range, Reading
from hourline_core.model.decoding import BYTES_ALONE, TOMBSTONE
from hourline_core.model.scratch_columns import DECODING, OFFSET, PARTITION, PLACE, TOPIC_ID
from hourline_core.storage import commits
from speed_layer.recovery.counted_records import CountedRecords, Partition

_RECORD = [TOPIC_ID, PARTITION, OFFSET]
_IS_VERDICT = f"(decoding IS NULL OR decoding NOT IN ('{BYTES_ALONE}', '{TOMBSTONE}'))"
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
        decoded: Callable[[], Iterable[DeltaTable]],
        lost: Collection[str],
    ) -> None:
        """``decoded`` gives the tables of decoding anew, fenced (see ``ledger/read_again.py``). ``lost`` are the
        decodings whose records' bytes were not kept, if they are to be kept now.
        """
        self._lost = pa.array(list(lost), pa.string())
        self._progress, self._events, self._rejected_records = progress, events, rejected
        self._decoded = decoded
        self._met = set(topic_ids)
        self._counted = CountedRecords()
        for topic_id, reading in progress.readings(topic_ids).items():
            self._expect(topic_id, reading, reading.next_offsets, validates=True)

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
            self._expect(topic_id, reading, dict.fromkeys(reading.read, 0), validates=False)

    def meet_new(self, topic_id: str) -> None:
        """Take up a topic of which nothing was read before."""
        self._met.add(topic_id)

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

    def _expect(self, topic_id: str, reading: Reading, next_offsets: Mapping[int, int], *, validates: bool) -> None:
        """Take up what counts already of a topic that is read from ``next_offsets`` on. ``validates``: what was
        rejected of it is validated again.
        """
        starts = {
            partition: offset for partition, offset in next_offsets.items() if offset < (reading.end(partition) or 0)
        }
        if not starts:
            return
        ahead = {(topic_id, partition): reading.read[partition] for partition in starts}
        archived, without_bytes = self._archived_from(topic_id, starts)
        refused, brought = self._rejected_from(topic_id, starts)
        without_bytes = without_bytes.join(brought, _RECORD, join_type="left anti")
        if not validates:
            archived, refused = pa.concat_tables([archived, refused]), refused.slice(0, 0)
        for table in self._decoded() if refused.num_rows else ():
            accepted = _accepted_anew(table, topic_id, starts)
            archived = pa.concat_tables([archived, accepted])
            refused = refused.join(accepted, _ADDRESSES.names, join_type="left anti")
        self._counted = self._counted.plus(ahead, archived, refused, without_bytes)

    def _archived_from(self, topic_id: str, starts: Mapping[int, int]) -> tuple[pa.Table, pa.Table]:
        """The addresses of archived events from the offsets ``starts`` on, and of those without the bytes of their
        records.
        """
        rows = _rows_from(self._events, topic_id, starts, *([DECODING] if len(self._lost) else []))
        addresses = rows.select(_ADDRESSES.names).cast(_ADDRESSES)
        if not len(self._lost):
            return addresses, addresses.slice(0, 0)
        made = pc.fill_null(rows[DECODING].cast(pa.string()), "")
        return addresses, addresses.filter(pc.is_in(made, self._lost))

    def _rejected_from(self, topic_id: str, starts: Mapping[int, int]) -> tuple[pa.Table, pa.Table]:
        """The addresses of rejected events, and of records of which there are only the bytes."""
        rows = _rows_from(self._rejected_records, topic_id, starts, "decoding")
        has_bytes_alone = pc.fill_null(pc.equal(rows["decoding"].cast(pa.string()), BYTES_ALONE), False)
        addresses = rows.select(_ADDRESSES.names).cast(_ADDRESSES)
        return addresses.filter(is_verdict(rows["decoding"])), addresses.filter(has_bytes_alone)


def drop_reprocessed(events: DeltaTable, rejected: DeltaTable, row: ProgressRow) -> None:
    """Delete from ``rejected`` the events of a topic's records that a finished micro-batch has validated again. ``row``
    is its row of progress for the topic, one of the newest ones.

    Raises ConflictError when another process writes there.
    """
    dropped = []
    for partition, offsets, again in validated_again(events, rejected, row):
        if again.any():
            # Only few offsets, if any, were not read again (compacted away since). Naming these keeps the predicate
            # short.
            kept = f" AND offset NOT IN ({', '.join(map(str, offsets[~again]))})" if not again.all() else ""
            dropped.append(
                f"(partition = {partition} AND offset >= {offsets[again].min()} "
                f"AND offset <= {offsets[again].max()}{kept})"
            )
    if dropped:
        verdicts = f"sequence < {row.sequence} AND topic_id = '{row.topic_id}' AND {_IS_VERDICT}"
        predicate = f"{verdicts} AND ({' OR '.join(dropped)})"
        commits.delete(rejected, predicate, {"validated again": row.sequence})


def _accepted_anew(table: DeltaTable, topic_id: str, starts: Mapping[int, int]) -> pa.Table:
    """The addresses of the events of a topic, from the offset in ``starts`` (by partition) on, that the archive has not
    and the ``table`` of decoding anew has.
    """
    rows = _rows_from(table, topic_id, starts, "hour", FROM_HOUR)
    is_new = pc.and_(pc.is_valid(rows["hour"]), pc.is_null(rows[FROM_HOUR]))
    return rows.filter(is_new).select(_ADDRESSES.names).cast(_ADDRESSES)


def _rows_from(table: DeltaTable, topic_id: str, starts: Mapping[int, int], *columns: str) -> pa.Table:
    where: Where = [[("partition", "=", partition), ("offset", ">=", offset)] for partition, offset in starts.items()]
    rows = rows_of_topic(table, topic_id, where, PLACE, *columns)
    rows = rows.rename_columns([TOPIC_ID, PARTITION, OFFSET, PLACE, *columns])
    return rows.set_column(3, PLACE, pc.fill_null(rows[PLACE].cast(_ADDRESSES.field(PLACE).type), 0))
