"""Has Spark's tasks join events, and hand the pairs on as events that are validated. No event goes to the driver."""

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from hourline_core.compute.tasks import keep_imports
from hourline_core.compute.worker_database import connect
from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.model import Source
from hourline_core.model.scratch_columns import (
    ARRIVED,
    EVENT_TIME,
    HEADERS,
    HEADERS_TEXT,
    HOUR,
    KEY,
    OFFSET,
    OUTCOME,
    PARTITION,
    PLACE,
    REASON,
    RECORD_TIMESTAMP,
    RECORD_TIMESTAMP_TYPE,
    TAKEN_BACK,
    TOPIC,
    VALUE,
    VALUE_CRC,
    VALUE_SIZE,
)
from speed_layer.joins.join_rows import AT, INPUT_SEQUENCE, SIDE, Joiner, Part
from speed_layer.joins.plan import JoinPlan
from speed_layer.joins.read_side import ArchivedSide
from speed_layer.joins.step import Passed, SideStep

_ROWS_OF_TASK = 100_000
"""With fewer events to read, a further task costs more than it saves: each of them reads all, and keeps its keys."""
_HOUR = 3_600_000_000
_OWN = {
    HEADERS_TEXT: "string",
    TOPIC: "string",
    PARTITION: "int",
    OFFSET: "bigint",
    PLACE: "int",
    RECORD_TIMESTAMP: "timestamp",
    RECORD_TIMESTAMP_TYPE: "string",
    ARRIVED: "timestamp",
    KEY: "binary",
    HEADERS: "map<string, binary>",
    OUTCOME: "string",
    REASON: "string",
    VALUE: "binary",
    VALUE_CRC: "bigint",
    VALUE_SIZE: "int",
    EVENT_TIME: "timestamp",
    HOUR: "timestamp",
}
"""The columns of `hourline_core/compute/validation.py` before the fields, with the types of Spark."""


@dataclass(frozen=True)
class _Work:
    plan: JoinPlan
    step: tuple[SideStep, SideStep]
    passed: Passed
    arrived: datetime
    parts: int
    schema: pa.Schema


def number_of_parts(step: tuple[SideStep, SideStep], tasks: int) -> int:
    """The number of tasks, of at most ``tasks``, that a micro-batch is divided among."""
    rows = sum(files.rows for side in step for files in (side.new, side.near, side.far))
    return max(1, min(tasks, rows // _ROWS_OF_TASK))


def no_events(spark: SparkSession, source: Source) -> DataFrame:
    """None of what ``join_events`` gives, from a task."""
    return spark.range(0, 1, 1, 1).mapInArrow(_take_none, _ddl(source))


def _take_none(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from list(numbers)[:0]


def join_events(
    spark: SparkSession,
    source: Source,
    plan: JoinPlan,
    step: tuple[SideStep, SideStep],
    passed: Passed,
    parts: int,
    arrived: datetime,
) -> DataFrame:
    """The pairs of a micro-batch of the joined ``source``, as ``validate`` gives events: in so many ``parts``. They
    ``arrived`` (UTC) when it was planned. An event with null in its key is a record that is not taken.

    A pair has the address of its later event's micro-batch: the name of that input, the partition 0, and its sequence.
    Its place tells the pairs of one micro-batch apart. An event without a partner, or one that takes it back
    (TAKEN_BACK), has that of the last sequence that is read of an input.
    """
    ddl = _ddl(source)
    schema = to_arrow_schema(cast(StructType, StructType.fromDDL(ddl)), timezone="UTC")
    work = pickle.dumps(_Work(plan, step, passed, arrived, parts, schema))
    return spark.range(0, parts, 1, parts).mapInArrow(partial(_work, work), ddl)


def _ddl(source: Source) -> str:
    types = {**_OWN, **({TAKEN_BACK: "boolean"} if source.takes_back else {})}
    types |= {name: source.fields[name].spark_type for name in source.event_fields}
    return ", ".join(f"`{name}` {spark_type}" for name, spark_type in types.items())


def _work(pickled: bytes, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    keep_imports()
    work: _Work = pickle.loads(pickled)  # noqa: S301 (from the driver)
    for number in [number for batch in numbers for number in batch.column(0).to_pylist()]:
        for rows in _join(work, number):
            yield from rows.to_batches()


def _join(work: _Work, number: int) -> Iterator[pa.Table]:
    left, right = (ArchivedSide(plan, step) for plan, step in zip(work.plan.sides, work.step, strict=True))
    with connect() as connection:
        joined = Joiner(connection, work.plan, Part(number, work.parts)).join(left, right, work.passed)
        places = 0
        for side, events in enumerate(joined.null_keys):
            sequences = np.repeat(list(events), list(events.values())).astype(np.int64)
            rows = pa.table({SIDE: np.full(len(sequences), side, np.int32), INPUT_SEQUENCE: sequences})
            yield _as_validated(work, rows.append_column(AT, pa.nulls(len(rows), pa.int64())), places, number)
            places += len(rows)
        for rows in joined.pairs:
            yield _as_validated(work, rows, places, number)
            places += len(rows)
        read = next((place for place, side in enumerate(work.step) if side.up_to > side.after), 0)
        for rows in joined.unmatched:
            sides = pa.chunked_array([np.full(len(rows), read, np.int32)])
            sequences = pa.chunked_array([np.full(len(rows), work.step[read].up_to)])
            addressed = rows.append_column(SIDE, sides).append_column(INPUT_SEQUENCE, sequences)
            yield _as_validated(work, addressed, places, number)
            places += len(rows)


def _as_validated(work: _Work, rows: pa.Table, places: int, number: int) -> pa.Table:
    """Pairs, or events without a partner or a key, of which ``places`` came before from the part ``number``."""
    size = len(rows)
    names = pa.array([side.source for side in work.plan.sides])
    micros, has_key = rows[AT].cast(pa.int64()), rows[AT].is_valid()
    hours = pa.array(pc.fill_null(micros, 0).to_numpy() // _HOUR * _HOUR)
    own = {
        TOPIC: names.take(rows[SIDE].combine_chunks()),
        PARTITION: np.zeros(size, np.int32),
        OFFSET: rows[INPUT_SEQUENCE],
        PLACE: np.arange(places, places + size) * work.parts + number,
        ARRIVED: pa.repeat(pa.scalar(work.arrived, TIMESTAMP), size),
        OUTCOME: pc.if_else(has_key, "accepted", "not_taken"),
        EVENT_TIME: micros.cast(TIMESTAMP),
        HOUR: pc.if_else(has_key, hours.cast(TIMESTAMP), pa.scalar(None, TIMESTAMP)),
    }
    columns = [
        own[of.name] if of.name in own else rows[of.name] if of.name in rows.column_names else pa.nulls(size, of.type)
        for of in work.schema
    ]
    return pa.table(columns, names=work.schema.names).cast(work.schema)
