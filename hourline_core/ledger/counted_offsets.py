"""Follows up to which offsets the topics of a source are counted. Progress is read once, and then only its new rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hourline_core.ledger.progress import Progress
from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.ledger.read_offsets import FILE, Reading


@dataclass(frozen=True)
class CountedOffsets:
    """What every answer at ``sequence`` or later has read of a source's topics."""

    table: str
    """The id of the table of progress. Another one in its place has another id."""
    sequence: int
    cluster: str | None
    """The id of the Kafka cluster that was read last. None: it is not known."""
    topic_ids: Mapping[str, str]
    """By the name of a topic, the id of the one that was read last."""
    readings: Mapping[str, Reading]
    """By the id of a topic, how far it was read."""

    def counts(self, topic_id: str | None, partition: int, offset: int) -> bool:
        """Whether an offset was read, or needs no reading any more: a gap was accepted, or a reset has skipped it."""
        reading = self.readings.get(topic_id or "")
        if reading is None:
            return False
        ranges = reading.read.get(partition, [])
        return offset < reading.next_offsets.get(partition, 0) or any(first <= offset < end for first, end in ranges)


def follow(progress: Progress, before: CountedOffsets | None) -> CountedOffsets:
    """Up to which offsets the version of ``progress`` counts. ``before`` is what an earlier version has given. Raises
    TableError.
    """
    table, sequence = str(progress.table.metadata().id), progress.sequence
    if before is None or before.table != table or sequence < before.sequence:
        return _read_all(progress, table)
    if sequence == before.sequence:
        return before
    rows = progress.rows_after(before.sequence)
    if any(row.position is not None for row in rows):  # A reset: reading may go on at an earlier offset.
        return _read_all(progress, table)
    return _read_on(before, rows, sequence)


def _read_all(progress: Progress, table: str) -> CountedOffsets:
    last = progress.last_read()
    ids = last.topic_ids
    return CountedOffsets(table, progress.sequence, last.cluster, ids, progress.readings(set(ids.values())))


def _read_on(before: CountedOffsets, rows: Sequence[ProgressRow], sequence: int) -> CountedOffsets:
    cluster, ids, readings = before.cluster, dict(before.topic_ids), dict(before.readings)
    for row in rows:
        if row.topic is None or row.topic_id is None or row.topic_id.startswith(FILE):
            continue
        cluster, ids[row.topic] = row.cluster or cluster, row.topic_id
        reading = readings.get(row.topic_id, Reading({}, {}, {}))
        following = dict(reading.next_offsets)
        for part in row.offsets:
            following[part.partition] = max(following.get(part.partition, 0), part.last + 1)
        readings[row.topic_id] = replace(reading, next_offsets=following)
    return replace(before, sequence=sequence, cluster=cluster, topic_ids=ids, readings=readings)
