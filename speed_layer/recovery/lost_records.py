"""Finds what is known of records that Kafka deleted before they were read: how many, of which time, and whose hours."""

from collections.abc import Mapping
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from hourline_core.ledger.progress import Progress
from hourline_core.ledger.progress_rows import Gap
from hourline_core.ledger.read_offsets import Range, Reading
from hourline_core.model import Source
from hourline_core.model.hours import time_before
from hourline_core.model.windows import HOURLY
from hourline_core.runtime.kafka_records import record_times

_SECONDS_FOR_TIMES = 5.0
"""The time limit for the look-up of the first records that are there."""

_LOOKED_AT = 1000
"""The number of offsets before a gap in which its last record is looked for."""

_SHOWN = 3


def deleted_ranges(reading: Reading, available: Mapping[int, tuple[int, int]]) -> dict[int, Range]:
    """By partition, the offsets that Kafka has deleted before they were read. ``available`` gives the earliest offset
    and the end of each partition.
    """
    deleted = {partition: reading.deleted(partition, earliest) for partition, (earliest, _) in available.items()}
    return {partition: offsets for partition, offsets in deleted.items() if offsets}


def describe_gaps(
    bootstrap: str,
    client_options: Mapping[str, str],
    source: Source,
    topic: tuple[str, str],
    deleted: Mapping[int, Range],
    progress: Progress,
    kept: tuple[DeltaTable, DeltaTable],
) -> tuple[Gap, ...]:
    """The gaps of the ``deleted`` offsets of a ``topic`` (its name and id), by partition. ``kept`` are events and
    rejected, which hold what was read.

    Their events may lie in any hour that was open by the partition's clock, and not after the first record that is
    there was sent. Raises BrokerError, TableError.
    """
    name, topic_id = topic
    behind = {partition: end for partition, (_, end) in deleted.items()}
    sent_before = record_times(bootstrap, name, behind, client_options, _SECONDS_FOR_TIMES)
    last = progress.last_row()
    clocks = {known.address: known.clock for known in last.partitions} if last else {}
    gaps = []
    for partition, (first, end) in deleted.items():
        clock = clocks.get((topic_id, partition)) or (last.clock if last else None)
        first_hour = HOURLY.assign(time_before(clock, source.grace)) if clock else None
        before = sent_before.get(partition)
        last_hour = max(filter(None, (HOURLY.assign(before), first_hour))) if before else None
        after = _last_sent(kept, topic_id, partition, first)
        gaps.append(Gap(partition, first, end, after, before, first_hour, last_hour))
    return tuple(gaps)


def explain_gaps(source: Source, gaps_of: Mapping[str, tuple[Gap, ...]]) -> str:
    """One sentence: what is gone, of which time, and what to do. ``gaps_of`` are by topic."""
    told = [_describe(topic, gap) for topic, gaps in gaps_of.items() for gap in gaps]
    more = f"; and of {len(told) - _SHOWN:,} more partition(s)" if len(told) > _SHOWN else ""
    return (
        f"Kafka has deleted records of source '{source.name}' before they were read: {'; '.join(told[:_SHOWN])}{more}; "
        "what was read is safe; restore them, or go on without them: `hourline up --accept-loss`, or `hourline speed "
        "--accept-loss` (the gap stays on record, see `hourline gaps`)"
    )


def _describe(topic: str, gap: Gap) -> str:
    known = (("after", gap.sent_after), ("before", gap.sent_before))
    times = [f"{word} {moment:%Y-%m-%d %H:%M:%S}" for word, moment in known if moment]
    sent = f", sent {' and '.join(times)} UTC" if times else ""
    records = f"at most {gap.end - gap.first:,} record(s){sent}"
    return f"topic '{topic}' partition {gap.partition} offsets {gap.first} to {gap.end - 1}: {records}"


def _last_sent(kept: tuple[DeltaTable, DeltaTable], topic_id: str, partition: int, end: int) -> datetime | None:
    """Kafka's timestamp (UTC) of the last record below offset ``end`` that is kept, accepted or rejected. None: none is
    near, or its timestamp is not known.
    """
    events, rejected = kept
    found = [_sent(events, ("record", "timestamp"), topic_id, partition, end)]
    found.append(_sent(rejected, ("timestamp",), topic_id, partition, end))
    rows = pa.concat_tables(found).sort_by("offset")
    return rows["sent"][-1].as_py() if rows.num_rows else None


def _sent(table: DeltaTable, path: tuple[str, ...], topic_id: str, partition: int, end: int) -> pa.Table:
    """offset, sent of the records right below offset ``end`` in a table that has Kafka's timestamp at ``path``."""
    columns = [name for name in ("topic_id", "offset", path[0]) if name in table.schema().to_arrow().names]
    near = [("partition", "=", partition), ("offset", ">=", end - _LOOKED_AT), ("offset", "<", end)]
    rows = table.to_pyarrow_table(columns=columns, filters=near)
    # As in reprocessing.py: pyarrow cannot filter by text in files that this process has just written.
    rows = rows.filter(pc.equal(rows["topic_id"].cast(pa.string()), topic_id))
    times = pa.nulls(rows.num_rows, pa.timestamp("us", "UTC"))
    if path[0] in columns:
        times = pc.struct_field(rows[path[0]], list(path[1:])) if path[1:] else rows[path[0]]
    return pa.table({"offset": rows["offset"], "sent": times})
