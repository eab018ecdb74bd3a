"""The rejected records that a reset lets be read again. The speed layer validates them again, or decoding anew makes
events of their bytes: never both.

The speed layer decides by what it finds in the tables of decoding anew when it starts. It *fences* them first, with a
commit of no rows. Decoding anew opens its table, and then progress: if a reset has left such records to be read, it
waits. So if it does not see the reset, it has opened its table before the fence, and either its commit was found by the
start or it fails. No clock and no lease decides.
"""

from collections.abc import Collection, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from hourline_core.ledger.progress import Progress
from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.ledger.read_offsets import Range
from hourline_core.model import Source
from hourline_core.model.decoding import BYTES_ALONE, TOMBSTONE
from hourline_core.model.topics import matches

Partition = tuple[str, int]
"""A partition of a topic, by the topic's id."""
Where = list[list[tuple[str, str, int]]]


def count_rejected_ahead(
    source: Source,
    progress: Progress,
    events: DeltaTable,
    rejected: DeltaTable,
    decodings: Collection[str],
    sequences: tuple[int, int],
) -> int:
    """The number of rows of ``rejected`` of the micro-batches from the first to the last of ``sequences``, made by one
    of ``decodings``, that the speed layer is to validate again, or has and will delete. ``progress`` was opened before
    ``rejected``. Raises TableError.
    """
    within = [("sequence", ">=", sequences[0]), ("sequence", "<=", sequences[1])]
    count = 0
    for (topic_id, partition), (start, end) in _ranges_ahead(source, progress).items():
        where = [[("partition", "=", partition), ("offset", ">=", start), ("offset", "<", end), *within]]
        made = pc.fill_null(rows_of_topic(rejected, topic_id, where, "decoding")["decoding"].cast(pa.string()), "")
        count += pc.sum(pc.is_in(made, pa.array(list(decodings), pa.string()))).as_py() or 0
    # A micro-batch deletes them after its commit of progress. That of an earlier one has done so.
    for row in progress.last_rows():
        count += sum(int(again.sum()) for _, _, again in validated_again(events, rejected, row))
    return count


def _ranges_ahead(source: Source, progress: Progress) -> Mapping[Partition, Range]:
    """The offsets that were read before and are to be read again, of the topics that ``source`` reads."""
    topic_ids = [topic_id for name, topic_id in progress.last_read().topic_ids.items() if matches(source.topic, name)]
    return {
        (topic_id, partition): (offset, end)
        for topic_id, reading in progress.readings(topic_ids).items()
        for partition, offset in reading.next_offsets.items()
        if offset < (end := reading.end(partition) or 0)
    }


def validated_again(
    events: DeltaTable, rejected: DeltaTable, row: ProgressRow
) -> Iterator[tuple[int, npt.NDArray[np.int64], npt.NDArray[np.bool_]]]:
    """By partition, the offsets of earlier rows of ``rejected`` that a finished micro-batch has passed, and whether it
    has validated them again. ``row`` is its row of progress for the topic.

    The rows of that micro-batch, in events and in rejected, say which records these are.
    """
    where: Where = [
        [("partition", "=", read.partition), ("offset", ">=", read.first), ("offset", "<=", read.last)]
        for read in row.offsets
    ]
    if not where:
        return
    there = rows_of_topic(rejected, row.topic_id, where, "sequence", "decoding")
    there = there.filter(is_verdict(there["decoding"]))
    before = there.filter(pc.less(there["sequence"], row.sequence))
    if not before.num_rows:
        return
    now = [rows_of_topic(events, row.topic_id, [[*one, ("sequence", "=", row.sequence)] for one in where])]
    now.append(there.filter(pc.equal(there["sequence"], row.sequence)).drop_columns(["sequence", "decoding"]))
    validated = pa.concat_tables(now)
    for partition in pc.unique(before["partition"]).to_pylist():
        offsets, again = (
            np.sort(rows.filter(pc.equal(rows["partition"], partition))["offset"].to_numpy())
            for rows in (before, validated)
        )
        yield partition, offsets, np.isin(offsets, again)


def is_verdict(decodings: pa.ChunkedArray) -> pa.ChunkedArray:
    """By row of the table of rejected records, with its decoding, whether it is about a record that was rejected."""
    return pc.invert(pc.is_in(pc.fill_null(decodings.cast(pa.string()), ""), pa.array([BYTES_ALONE, TOMBSTONE])))


def rows_of_topic(table: DeltaTable, topic_id: str | None, where: Where, *columns: str) -> pa.Table:
    """``topic_id``, ``partition``, ``offset``, and other ``columns`` of the rows of a topic. Columns that an older
    version has not written are null.

    pyarrow cannot filter by text in files of several topics that this process has just written: their statistics have
    another type of text.
    """
    written = {field.name for field in table.schema().fields}
    there = [name for name in columns if name in written]
    rows = table.to_pyarrow_table(columns=["topic_id", "partition", "offset", *there], filters=where)
    for place, name in enumerate(columns, start=3):
        if name not in written:
            rows = rows.add_column(place, name, pa.nulls(len(rows)))
    rows = rows.set_column(0, "topic_id", rows["topic_id"].cast(pa.string()))
    return rows.filter(pc.equal(rows["topic_id"], pa.scalar(topic_id, pa.string())))
