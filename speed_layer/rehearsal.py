"""Reads the records of a test as the speed layer reads those of Kafka, in micro-batches of any sizes, and as often as
asked.

Spark evaluates the records once. Each micro-batch is then taken in by this process, in some milliseconds, with the code
of a task.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.ledger.source_clock import SourceClock
from hourline_core.model import Project, Source
from hourline_core.model.given_records import GivenRecord
from hourline_core.model.hours import Clock
from hourline_core.model.scratch_columns import OFFSET, PARTITION
from hourline_core.model.topics import names_of
from speed_layer.commit.committer import Committer, Finished
from speed_layer.commit.offset_order import OffsetsReached
from speed_layer.intake.deduplication import Deduplicator
from speed_layer.intake.micro_batch_size import MicroBatchSize
from speed_layer.intake.read_micro_batch import MicroBatchReader, Read
from speed_layer.kafka.record_origin import Origin
from speed_layer.recovery.reprocessing import Reprocessing
from speed_layer.streams.open_source import open_source

_BYTES_OF_IDS, _BYTES_OF_BATCH = 16 << 20, 1 << 30
_CREATE_TIME = 0
"""Kafka's number of the type of a timestamp that the producer has set."""


@dataclass(frozen=True)
class EvaluatedRecords:
    """The records of a test as Spark evaluates them, in their order."""

    topic_id: str
    """That of no real topic. Tests that share tables have different ones."""
    arrived: datetime
    """When all of them arrive (UTC)."""
    rows: pa.Table
    places: npt.NDArray[np.int64]
    """By row, the place of its record among all."""
    addresses: Sequence[tuple[int, int]]
    """By record, its partition and offset."""

    def between(self, first: int, end: int) -> pa.Table:
        """The rows of the records from ``first`` up to ``end`` (exclusive), by partition."""
        chosen = np.flatnonzero((self.places >= first) & (self.places < end))
        partitions = np.array([self.addresses[place][0] for place in self.places[chosen]], dtype=np.int64)
        return self.rows.take(pa.array(chosen[np.argsort(partitions, kind="stable")]))


class Rehearsal:
    """Opens the tables of ``source`` for one test or several. ``clock`` (UTC) dates what is committed.

    Raises as ``open_source`` does.
    """

    def __init__(self, spark: SparkSession, project: Project, source: Source, clock: Clock) -> None:
        self.source = source
        self.workspace = project.workspace
        self._spark = spark
        self.reader: MicroBatchReader
        """Reads what is to be committed."""
        self._committer: Committer
        self.reader, self._committer = open_source(spark, project, source, [], clock)
        self.tables = self.reader.source_tables
        self._topic = _topic_of(source)

    def evaluate(self, records: Sequence[GivenRecord], topic_id: str, arrived: datetime) -> EvaluatedRecords:
        """What Spark makes of ``records``, which arrive at ``arrived`` (UTC). Raises PySparkException."""
        following: dict[int, int] = {}
        addresses: list[tuple[int, int]] = []
        for record in records:
            offset = following.setdefault(record.partition, 0)
            addresses.append((record.partition, offset))
            following[record.partition] += 1
        rows, names = _as_kafka(records, addresses, self._topic), ("partition", "offset")
        if self.reader.tasks.records.native is None:
            at = F.lit(arrived.isoformat()).cast("timestamp")
            plan = self.reader.tasks.records
            applied = plan.apply(self._spark.createDataFrame(rows), at)
            rows = plan.complete(applied, self.reader.pin_lookups()).toArrow()
            names = (PARTITION, OFFSET)
        else:
            rows = rows.set_column(rows.column_names.index("headers"), "headers", _headers_as_text(records))
        place_of = {address: place for place, address in enumerate(addresses)}
        of_rows = zip(*(rows[name].to_pylist() for name in names), strict=True)
        places = np.array([place_of[of] for of in of_rows], np.int64)
        return EvaluatedRecords(topic_id, arrived, rows, places, addresses)

    def positions(self, evaluated: EvaluatedRecords) -> "Positions":
        """The records one by one, so that micro-batches of them can begin anywhere."""
        return Positions(self, evaluated)

    def read(self, reader: MicroBatchReader, evaluated: EvaluatedRecords, first: int, end: int, sequence: int) -> Read:
        """What ``reader`` reads of the records from ``first`` up to ``end`` (exclusive), as a micro-batch."""
        ends: dict[tuple[str, int], int] = {}
        for partition, offset in evaluated.addresses[:end]:
            ends[self._topic, partition] = offset + 1
        read = reader.read(evaluated.between(first, end), Origin({self._topic: evaluated.topic_id}), ends, sequence)
        assert read, "a micro-batch of a test has records"
        return read

    def commit(self, evaluated: EvaluatedRecords, first: int, end: int, sequence: int) -> Finished:
        """Read the records with ``reader``, and commit them."""
        return self._committer.commit(self.read(self.reader, evaluated, first, end, sequence))


@dataclass(frozen=True)
class _Position:
    """What a reader knows that has read some records."""

    ids: Deduplicator
    clock: SourceClock
    next_offsets: Mapping[tuple[str, int], int]


class Positions:
    """Reads micro-batches of ``evaluated`` that begin at any record, as if those before it had been read. None of them
    is committed.
    """

    def __init__(self, rehearsal: Rehearsal, evaluated: EvaluatedRecords) -> None:
        self._rehearsal, self._evaluated = rehearsal, evaluated
        ids = Deduplicator(rehearsal.source.id_horizon, _BYTES_OF_IDS, rehearsal.workspace)
        self._positions = [_Position(ids, SourceClock(), {})]
        self._known: dict[tuple[int, int], Read] = {}
        self.each: list[Read] = []
        """By record, what a micro-batch of it alone has read. Its sequence is its number, from 1 on."""
        for place in range(len(evaluated.addresses)):
            read, position = self._read(place, place + 1)
            self.each.append(read)
            self._positions.append(position)

    def read(self, first: int, end: int) -> Read:
        """What a micro-batch of the records from ``first`` up to ``end`` (exclusive) reads."""
        if (first, end) not in self._known:
            self._known[first, end], _ = self._read(first, end)
        return self._known[first, end]

    def _read(self, first: int, end: int) -> tuple[Read, _Position]:
        rehearsal, evaluated, position = self._rehearsal, self._evaluated, self._positions[first]
        tables, ids = replace(rehearsal.tables, clock=position.clock), deepcopy(position.ids)
        reader = MicroBatchReader(
            tables,
            ids,
            Reprocessing(tables.progress, tables.events, tables.rejected, [], lambda: [], []),
            rehearsal.reader.tasks,
            OffsetsReached(position.next_offsets),
            MicroBatchSize(len(evaluated.addresses), _BYTES_OF_BATCH),
            lambda: evaluated.arrived,
            rehearsal.reader.pin_lookups,
        )
        read = rehearsal.read(reader, evaluated, first, end, first + 1)
        offsets = {(evaluated.topic_id, partition): offset + 1 for partition, offset in evaluated.addresses[:end]}
        return read, _Position(ids, read.clock, offsets)


def _topic_of(source: Source) -> str:
    """A topic that the source may read."""
    return next(iter(names_of(source.topic)), source.name)


def _headers_as_text(records: Sequence[GivenRecord]) -> pa.Array:
    """The headers of each record as Spark's ``to_json`` writes them."""
    texts = [
        json.dumps(
            [{"key": name, "value": base64.b64encode(text.encode()).decode()} for name, text in record.headers.items()]
        )
        if record.headers
        else None
        for record in records
    ]
    return pa.array(texts, pa.string())


def _as_kafka(records: Sequence[GivenRecord], addresses: Sequence[tuple[int, int]], topic: str) -> pa.Table:
    """``records`` as ``read_topics`` gives them."""
    entry = pa.struct({"key": pa.string(), "value": pa.binary()})
    headers = [
        [{"key": name, "value": text.encode()} for name, text in record.headers.items()] or None for record in records
    ]
    keys = [None if record.key is None else record.key.encode() for record in records]
    return pa.table(
        {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array([record.value.encode() for record in records], pa.binary()),
            "topic": pa.array([topic] * len(records), pa.string()),
            "partition": pa.array([partition for partition, _ in addresses], pa.int32()),
            "offset": pa.array([offset for _, offset in addresses], pa.int64()),
            "timestamp": pa.array([record.timestamp for record in records], TIMESTAMP),
            "timestampType": pa.array([_CREATE_TIME] * len(records), pa.int32()),
            "headers": pa.array(headers, pa.list_(entry)),
        }
    )
