"""What the driver tells the tasks of a micro-batch, and what each of them tells the driver: no records.

A task reads a part of the records. It archives and folds them where they are.
"""

import pickle
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce
from operator import add

import pyarrow as pa
from pyarrow import ipc

from hourline_core.compute.lookup_columns import NativeLookup, Pinned
from hourline_core.compute.projection import ProjectedMetric
from hourline_core.ledger.last_records import LastRecord
from hourline_core.ledger.progress_rows import RecordCounts
from hourline_core.ledger.source_clock import PartitionClock, SourceClock
from hourline_core.model import Source
from hourline_core.model.scratch_columns import HOUR, ID_HASH, OFFSET, PARTITION, PLACE, TOPIC_ID
from hourline_core.storage.new_files import NewFile
from speed_layer.recovery.counted_records import CountedRecords

Partition = tuple[str, int]
"""A partition of a topic, by the topic's id and its number."""

IDS = pa.schema(
    {
        ID_HASH: pa.int64(),
        HOUR: pa.timestamp("us", "UTC"),
        TOPIC_ID: pa.string(),
        PARTITION: pa.int32(),
        OFFSET: pa.int64(),
        PLACE: pa.int32(),
    }
)
"""What the driver gets of each event with an id: its hash and its address."""


@dataclass(frozen=True)
class IntakePlan:
    """What all tasks of a source share while its declaration is the same."""

    source: Source
    metrics: Mapping[str, ProjectedMetric]
    """By the name of the aggregation."""
    events: str
    """The address of the events table, and so on."""
    rejected: str
    quarantine: str
    storage_options: Mapping[str, str] = field(repr=False)
    events_schema: pa.Schema
    """The columns of the archive, also those of former fields."""
    stored_names: Mapping[str, str]
    """The names in the archive of the fields that have another one there."""
    decoding: str
    """The hash of the decoding of the micro-batches."""
    native: Mapping[str, str] | None = None
    """The expressions, for DuckDB, by column, if the tasks evaluate them: records as of ``read_topics``, or derived
    events, validated. None: Spark does.
    """
    lookups: Sequence[NativeLookup] = ()
    """The lookups whose columns these name."""


@dataclass(frozen=True)
class Assignment:
    """What the tasks of one micro-batch need to know."""

    sequence: int
    """The number under which the micro-batch is committed, if it is."""
    topic_ids: Mapping[str, str]
    """By the name of a topic, or of an imported file."""
    clock: SourceClock
    """The clocks of the partitions before these records."""
    arrived: datetime
    """When the records arrive (UTC), where the tasks evaluate them."""
    counted: CountedRecords = field(default_factory=CountedRecords)
    """The records of them that were read before."""
    history: bool = False
    """Whether the records are those of a file."""
    duplicates: frozenset[tuple[str, int, int, int]] = frozenset()
    """The addresses of events whose ids were seen before."""
    lookups: Pinned = field(default_factory=dict)
    """The versions of the source's lookups that the micro-batch uses."""


@dataclass(frozen=True)
class TopicPart:
    """What a task has read of one topic, and what of it did not count before."""

    counts: RecordCounts
    hours: Counter[datetime]
    """The number of accepted events, without duplicates, by hour (UTC)."""
    taken_back: Counter[datetime] = field(default_factory=Counter)
    """The number of events that were taken back, by hour (UTC)."""

    def __add__(self, other: "TopicPart") -> "TopicPart":
        return TopicPart(self.counts + other.counts, self.hours + other.hours, self.taken_back + other.taken_back)


@dataclass(frozen=True)
class Part:
    """What a task has read, written and folded; or the sum of several."""

    records: int = 0
    """The number of records, also of those that counted before."""
    rows: int = 0
    """The number of events, and of records without one."""
    size: int = 0
    """The bytes of the records' values."""
    already_counted: int = 0
    """The number of them that counted before."""
    not_taken: int = 0
    """The number of records that the source's branch does not take."""
    quarantined: int = 0
    """The number of events that metrics do not count, because a class of theirs fails for them."""
    validated_again: int = 0
    """The number of events that were rejected before, and are validated again."""
    brought_bytes: int = 0
    """The number of records that were archived without their bytes, which are archived now."""
    arrived: datetime | None = None
    """When the records arrived (UTC). None: there are none."""
    latest: datetime | None = None
    """The highest event time (UTC)."""
    offsets: Mapping[Partition, tuple[int, int]] = field(default_factory=dict)
    """The lowest and the highest offset that have a record."""
    last_records: Mapping[Partition, LastRecord] = field(default_factory=dict)
    clocks: Mapping[Partition, PartitionClock] = field(default_factory=dict)
    """The clocks after the records, of partitions with a record that the source takes."""
    topics: Mapping[str, TopicPart] = field(default_factory=dict)
    """By topic id."""
    events: Sequence[NewFile] = ()
    rejected: Sequence[NewFile] = ()
    quarantine: Sequence[NewFile] = ()
    tiles: Mapping[str, Sequence[pa.Table]] = field(default_factory=dict)
    """By aggregation."""
    ids: Sequence[pa.Table] = ()
    """IDS of the accepted events that have an id."""

    def __add__(self, other: "Part") -> "Part":
        """Of a partition of Kafka, only one of both has records. Of a file, both can have some."""
        return Part(
            self.records + other.records,
            self.rows + other.rows,
            self.size + other.size,
            self.already_counted + other.already_counted,
            self.not_taken + other.not_taken,
            self.quarantined + other.quarantined,
            self.validated_again + other.validated_again,
            self.brought_bytes + other.brought_bytes,
            max(filter(None, (self.arrived, other.arrived)), default=None),
            max(filter(None, (self.latest, other.latest)), default=None),
            _spanned(self.offsets, other.offsets),
            {**self.last_records, **other.last_records},
            _latest(self.clocks, other.clocks),
            _added(self.topics, other.topics),
            [*self.events, *other.events],
            [*self.rejected, *other.rejected],
            [*self.quarantine, *other.quarantine],
            {of: [*self.tiles.get(of, ()), *other.tiles.get(of, ())] for of in {**self.tiles, **other.tiles}},
            [*self.ids, *other.ids],
        )

    def counts(self) -> RecordCounts:
        """Those of all topics."""
        return reduce(add, (of.counts for of in self.topics.values()), RecordCounts())


def sum_of(parts: Iterable[Part]) -> Part:
    """The sum of ``parts``."""
    return reduce(add, parts, Part())


def to_bytes(part: Part) -> bytes:
    """What a task tells, for the driver."""
    return pickle.dumps((replace(part, ids=()), [_compress(ids) for ids in part.ids]))


def from_bytes(told: bytes) -> Part:
    """What a task has told."""
    part, compressed = pickle.loads(told)  # noqa: S301 (from a task of this process)
    assert isinstance(part, Part)
    return replace(part, ids=[ipc.open_stream(ids).read_all() for ids in compressed])


def _compress(ids: pa.Table) -> bytes:
    """``ids`` in a quarter of their bytes: what is left of an address behind its neighbour is short."""
    stream = pa.BufferOutputStream()
    options = ipc.IpcWriteOptions(compression="zstd", use_threads=False)
    with ipc.new_stream(stream, ids.schema, options=options) as writer:
        writer.write_table(ids)
    return bytes(stream.getvalue())


def _latest(
    one: Mapping[Partition, PartitionClock], other: Mapping[Partition, PartitionClock]
) -> dict[Partition, PartitionClock]:
    """By partition, the clock that is ahead."""
    clocks = {**one, **other}
    for of in one.keys() & other.keys():
        shown = [clock for clock in (one[of], other[of]) if clock.clock is not None]
        clocks[of] = max(shown, key=lambda clock: clock.clock or clock.arrived, default=one[of])
    return clocks


def _spanned(
    one: Mapping[Partition, tuple[int, int]], other: Mapping[Partition, tuple[int, int]]
) -> dict[Partition, tuple[int, int]]:
    both = {of: (one[of], other[of]) for of in one.keys() & other.keys()}
    return {**one, **other} | {
        of: (min(first for first, _ in spans), max(last for _, last in spans)) for of, spans in both.items()
    }


def _added(one: Mapping[str, TopicPart], other: Mapping[str, TopicPart]) -> dict[str, TopicPart]:
    return {
        of: one[of] + other[of] if of in one and of in other else (one.get(of) or other[of]) for of in {**one, **other}
    }
