"""The validated records of a micro-batch as an Arrow table: by topic, by partition, by outcome."""

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.ledger.last_records import LastRecord, checksum_of
from hourline_core.ledger.source_clock import Micros
from hourline_core.model.scratch_columns import (
    DUPLICATE,
    EVENT_TIME,
    HEADERS,
    KEY,
    OFFSET,
    OUTCOME,
    PARTITION,
    PLACE,
    RECORD_TIMESTAMP,
    TOPIC,
    TOPIC_ID,
    VALUE,
    VALUE_CRC,
)


def event_times_by_partition(events: pa.Table) -> dict[tuple[str, int], Micros]:
    """By topic id and number of a partition, the highest event time of each record of ``events`` (TOPIC_ID, PARTITION,
    OFFSET, EVENT_TIME) by offset, in microseconds since 1970. So no record confirms its own time, however many events
    it has. A partition without events is left out.
    """
    if not events.num_rows:
        return {}
    times = events[EVENT_TIME].cast(pa.int64()).to_numpy()
    if (only := only_partition(events)) and bool((np.diff(events[OFFSET].to_numpy()) > 0).all()):
        return {only: times}
    topics = events[TOPIC_ID].combine_chunks().dictionary_encode()
    names, indices = topics.dictionary.to_pylist(), topics.indices.to_numpy()
    addresses = np.stack([indices, events[PARTITION].to_numpy(), events[OFFSET].to_numpy()])
    order = np.lexsort(addresses[::-1])
    addresses = addresses[:, order]
    differs = np.insert(addresses[:, 1:] != addresses[:, :-1], 0, True, axis=1)  # from the row before
    records, partitions = np.flatnonzero(differs.any(axis=0)), np.flatnonzero(differs[:2].any(axis=0))
    highest = np.maximum.reduceat(times[order], records)
    parts = np.split(highest, np.searchsorted(records, partitions[1:]))
    return {
        (names[topic], number): times
        for (topic, number), times in zip(addresses[:2, partitions].T.tolist(), parts, strict=True)
    }


def number_of_records(rows: pa.Table, *, joined: bool = False) -> int:
    """The number of records of ``rows`` (TOPIC_ID, PARTITION, OFFSET, PLACE), each of which is an event, or a record
    without. Each event that is ``joined`` is a record.
    """
    exploded = not joined and pc.any(pc.greater(rows[PLACE], 0)).as_py()
    return len(rows.group_by([TOPIC_ID, PARTITION, OFFSET]).aggregate([]) if exploded else rows)


def with_kept_values(rows: pa.Table, skipped: npt.NDArray[np.bool_], *, raw: bool) -> pa.Table:
    """The rows of exploded records, whose VALUE is on the first row of each, with VALUE on those that keep it: on the
    first one if ``raw`` records are kept, unless it has none, and on the first rejected one that is not ``skipped``.
    """
    numbers, outcomes = np.arange(rows.num_rows), rows[OUTCOME]
    is_first = rows[PLACE].to_numpy() == 0
    firsts = np.maximum.accumulate(np.where(is_first, numbers, 0))
    kept = is_first & raw & pc.is_in(outcomes, pa.array(["accepted", "empty"])).to_numpy()
    rejected = np.flatnonzero(pc.equal(outcomes, "rejected").to_numpy() & ~skipped)
    kept[rejected[np.diff(firsts[rejected], prepend=-1) != 0]] = True
    values = rows[VALUE].take(pa.array(firsts, mask=~kept))
    return rows.set_column(rows.column_names.index(VALUE), VALUE, values)


def with_topic_ids(rows: pa.Table, topic_ids: Mapping[str, str]) -> pa.Table:
    """The rows with TOPIC_ID; ``topic_ids`` are by the names of topics."""
    names = rows[TOPIC].combine_chunks().dictionary_encode()
    ids = pa.array([topic_ids[name] for name in names.dictionary.to_pylist()], pa.string())
    return rows.append_column(TOPIC_ID, ids.take(names.indices))


def only_partition(rows: pa.Table) -> tuple[str, int] | None:
    """The topic id and number of the partition of all ``rows``. None: there are none, or several partitions."""
    if not rows.num_rows:
        return None
    topic, number = rows[TOPIC_ID][0], rows[PARTITION][0]
    is_only = pc.all(pc.equal(rows[PARTITION], number)).as_py() and pc.all(pc.equal(rows[TOPIC_ID], topic)).as_py()
    return (topic.as_py(), number.as_py()) if is_only else None


def of_topic(rows: pa.Table, topic_id: str) -> pa.Table:
    """The rows of one topic."""
    return keep(rows, pc.equal(rows[TOPIC_ID], topic_id))


def partitions_of(rows: pa.Table) -> Iterator[tuple[str, int]]:
    """The partitions of ``rows``, by topic id and number."""
    if only := only_partition(rows):
        yield only
        return
    for partition in rows.group_by([TOPIC_ID, PARTITION]).aggregate([]).to_pylist():
        yield partition[TOPIC_ID], partition[PARTITION]


def keep(rows: pa.Table, chosen: pa.ChunkedArray | pa.Array) -> pa.Table:
    """The rows of which ``chosen`` (boolean, never null) is true. Mostly, all are: then nothing is copied."""
    all_of_them = pc.all(chosen).as_py() is not False  # null if there are no rows
    return rows if all_of_them else rows.filter(chosen)


def with_outcome(rows: pa.Table, *outcomes: str) -> pa.Table:
    """The rows with one of these as OUTCOME."""
    return keep(rows, pc.is_in(rows[OUTCOME], pa.array(outcomes)))


def accepted_of(rows: pa.Table) -> pa.Table:
    """The accepted events, without duplicates."""
    return keep(rows, pc.and_(pc.equal(rows[OUTCOME], "accepted"), pc.invert(rows[DUPLICATE])))


def last_records_of(rows: pa.Table) -> dict[tuple[str, int], LastRecord]:
    """The record with the highest offset of each partition, by topic id and number."""
    if not rows.num_rows:
        return {}
    topics = rows[TOPIC_ID].combine_chunks().dictionary_encode().indices.to_numpy()
    partitions, offsets = rows[PARTITION].to_numpy(), rows[OFFSET].to_numpy()
    order = np.lexsort((offsets, partitions, topics))
    is_last = np.append(np.diff(topics[order]) != 0, True) | np.append(np.diff(partitions[order]) != 0, True)
    names = [TOPIC_ID, PARTITION, OFFSET, RECORD_TIMESTAMP, KEY, VALUE_CRC, HEADERS]
    last = rows.select(names).take(order[is_last])
    return {
        (topic_id, number): LastRecord(number, offset, timestamp, checksum_of(key, crc, dict(headers or ())))
        for topic_id, number, offset, timestamp, key, crc, headers in zip(*last.to_pydict().values(), strict=True)
    }


def offsets_by_partition(rows: pa.Table) -> dict[tuple[str, int], tuple[int, int]]:
    """By topic id and number of a partition, the lowest and the highest offset of ``rows``."""
    if only := only_partition(rows):
        span = pc.min_max(rows[OFFSET]).as_py()
        return {only: (span["min"], span["max"])}
    ranges = rows.group_by([TOPIC_ID, PARTITION]).aggregate([(OFFSET, "min"), (OFFSET, "max")]).to_pylist()
    return {(of[TOPIC_ID], of[PARTITION]): (of[f"{OFFSET}_min"], of[f"{OFFSET}_max"]) for of in ranges}


def is_full(offsets: Mapping[tuple[str, int], tuple[int, int]], most: int) -> bool:
    """Whether Kafka may have further records that Spark could have read, if a micro-batch has at most ``most`` offsets.
    ``offsets`` are the lowest and the highest one of each partition with records.

    Spark divides them among the partitions and rounds down, and offsets without a record count. So some fewer are full.
    """
    return sum(last - first + 1 for first, last in offsets.values()) + 2 * len(offsets) >= most


def outcomes_of(rows: pa.Table) -> dict[str, int]:
    """The number of rows of each OUTCOME."""
    return {entry["values"]: entry["counts"] for entry in pc.value_counts(rows[OUTCOME]).to_pylist()}
