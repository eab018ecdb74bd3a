"""Follows up to which offsets the topics of a source are counted. Progress is read once, and then only its new rows."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.ledger.progress import Progress
from hourline_core.ledger.read_offsets import FILE, Reading, reading_of


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
    if before is not None and before.table == table:
        if sequence == before.sequence:
            return before
        rows = _of_kafka(progress.offsets_after(before.sequence))
        # A lower sequence: the table was restored. A position: reading may go on at an earlier offset.
        if sequence > before.sequence and rows["position"].null_count == rows.num_rows:
            return _read_on(before, rows, sequence)
    return _read_all(table, _of_kafka(progress.offsets_after(0)), sequence)


def _of_kafka(progress: pa.Table) -> pa.Table:
    return progress.filter(pc.fill_null(pc.invert(pc.starts_with(progress["topic_id"], FILE)), False))


def _read_all(table: str, rows: pa.Table, sequence: int) -> CountedOffsets:
    readings = {topic_id: reading_of(rows, topic_id) for topic_id in rows["topic_id"].unique().to_pylist()}
    return CountedOffsets(table, sequence, _cluster(rows), _topic_ids(rows), readings)


def _read_on(before: CountedOffsets, rows: pa.Table, sequence: int) -> CountedOffsets:
    readings = dict(before.readings)
    for topic_id, offsets in zip(rows["topic_id"].to_pylist(), rows["offsets"].to_pylist(), strict=True):
        reading = readings.get(topic_id, Reading({}, {}, {}))
        following = dict(reading.next_offsets)
        for part in offsets:
            following[part["partition"]] = max(following.get(part["partition"], 0), part["last"] + 1)
        readings[topic_id] = replace(reading, next_offsets=following)
    ids = {**before.topic_ids, **_topic_ids(rows)}
    return replace(
        before, sequence=sequence, cluster=_cluster(rows) or before.cluster, topic_ids=ids, readings=readings
    )


def _topic_ids(rows: pa.Table) -> dict[str, str]:
    return dict(zip(rows["topic"].to_pylist(), rows["topic_id"].to_pylist(), strict=True))


def _cluster(rows: pa.Table) -> str | None:
    clusters = rows["cluster"].drop_null()
    return clusters[-1].as_py() if len(clusters) else None
