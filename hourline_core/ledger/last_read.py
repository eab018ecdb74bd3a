"""Reads from the progress of a source which Kafka was read: its cluster, the ids of its topics, and the last
record of each partition.

After a reset, only what the reset and later rows say counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.ledger.last_records import LastRecord, later_of
from hourline_core.ledger.read_offsets import FILE

LAST_READ_COLUMNS = ["sequence", "topic_id", "topic", "position", "cluster", "last_records"]
"""The columns of progress that ``last_read_of`` needs."""

Partition = tuple[str, int]
"""A partition of a topic, by the topic's id."""


@dataclass(frozen=True)
class LastRead:
    """What progress says of the Kafka that a source was read from."""

    cluster: str | None = None
    """The id of the cluster. None: it is not known."""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """By the name of a topic, the id of the one that was read, or reset, last."""
    records: Mapping[Partition, LastRecord] = field(default_factory=dict)
    """The last record that was read of each partition."""


def last_read_of(progress: pa.Table) -> LastRead:
    """What ``progress`` (LAST_READ_COLUMNS, by sequence) says."""
    of_kafka = pc.fill_null(pc.invert(pc.starts_with(progress["topic_id"], FILE)), False)
    rows = progress.filter(of_kafka)
    clusters = rows["cluster"].drop_null()
    topic_ids = dict(zip(rows["topic"].to_pylist(), rows["topic_id"].to_pylist(), strict=True))
    return LastRead(
        clusters[-1].as_py() if len(clusters) else None,
        topic_ids,
        {
            (topic_id, record.partition): record
            for topic_id in topic_ids.values()
            for record in _last_records(rows.filter(pc.equal(rows["topic_id"], topic_id)))
        },
    )


def _last_records(rows: pa.Table) -> tuple[LastRecord, ...]:
    """Of each partition of one topic, the record with the highest offset since the last reset."""
    resets = np.flatnonzero(rows["position"].is_valid().to_numpy())
    since = rows.slice(int(resets[-1]) if len(resets) else 0)
    entries = pc.list_flatten(since["last_records"]).combine_chunks()
    if not len(entries):
        return ()
    flat = pa.Table.from_struct_array(entries)
    highest = flat.group_by("partition").aggregate([("offset", "max")]).rename_columns(["partition", "offset"])
    found = flat.join(highest, ["partition", "offset"], join_type="inner").to_pylist()
    return later_of((), (LastRecord(**row) for row in found))
