"""The rows that tasks derive, as events that are validated."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

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
    SCRATCH_PREFIX,
    TAKEN_BACK,
    TOPIC,
    VALUE,
    VALUE_CRC,
    VALUE_SIZE,
)
from speed_layer.intake.record_plan import RecordPlan
from speed_layer.intake.tasks import Evaluated, MadeInTasks

SIDE, INPUT_SEQUENCE, AT = (f"{SCRATCH_PREFIX}{name}" for name in ("side", "input_sequence", "at"))
"""The columns of a row beside its fields: the number of the input whose event completed it, from 0, the sequence of
that event, and the event time in microseconds since 1970.
"""
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


class Part(NamedTuple):
    """The share of a task: the keys whose hash is ``number``, of ``of``."""

    number: int = 0
    of: int = 1


WHOLE = Part()
"""That of the only task."""


@dataclass(frozen=True)
class Addressed:
    """What gives the rows of a part their addresses.

    A row has the address of a micro-batch of an input: the name of the input, the partition 0, and the sequence. Its
    place tells the rows of one micro-batch apart.
    """

    inputs: Sequence[str]
    """The names of the inputs."""
    schema: pa.Schema
    """That of ``ddl_of``."""
    arrived: datetime
    """When the micro-batch was planned (UTC)."""
    part: Part = WHOLE


def derive_events(
    spark: SparkSession,
    parts: int,
    make: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    records: RecordPlan,
) -> Evaluated:
    """What ``make`` gives in each of so many ``parts``, which it gets the numbers of, evaluated by ``records``."""
    numbers = spark.range(0, parts, 1, parts)
    if records.native is not None:
        return MadeInTasks(numbers, make)
    return records.evaluate(numbers.mapInArrow(make, ddl_of(records.source)))


def no_events(spark: SparkSession, records: RecordPlan) -> Evaluated:
    """None of what ``derive_events`` gives, from a task."""
    return derive_events(spark, 1, _take_none, records)


def _take_none(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from list(numbers)[:0]


def ddl_of(source: Source) -> str:
    """The columns of the rows of a derived ``source``, with the types of Spark."""
    types = {**_OWN, **({TAKEN_BACK: "boolean"} if source.takes_back else {})}
    types |= {name: source.fields[name].spark_type for name in source.event_fields}
    return ", ".join(f"`{name}` {spark_type}" for name, spark_type in types.items())


def schema_of(source: Source) -> pa.Schema:
    """The same for Arrow."""
    return to_arrow_schema(cast(StructType, StructType.fromDDL(ddl_of(source))), timezone="UTC")


def as_validated(addressed: Addressed, rows: pa.Table, places: int) -> pa.Table:
    """``rows`` with SIDE, INPUT_SEQUENCE, AT and fields, as ``validate`` gives events. ``places`` came before from the
    part. Without AT, a row is a record that is not taken.
    """
    size = len(rows)
    names = pa.array(list(addressed.inputs))
    micros, has_key = rows[AT].cast(pa.int64()), rows[AT].is_valid()
    hours = pa.array(pc.fill_null(micros, 0).to_numpy() // _HOUR * _HOUR)
    own = {
        TOPIC: names.take(rows[SIDE].combine_chunks()),
        PARTITION: np.zeros(size, np.int32),
        OFFSET: rows[INPUT_SEQUENCE],
        PLACE: np.arange(places, places + size) * addressed.part.of + addressed.part.number,
        ARRIVED: pa.repeat(pa.scalar(addressed.arrived, TIMESTAMP), size),
        OUTCOME: pc.if_else(has_key, "accepted", "not_taken"),
        EVENT_TIME: micros.cast(TIMESTAMP),
        HOUR: pc.if_else(has_key, hours.cast(TIMESTAMP), pa.scalar(None, TIMESTAMP)),
    }
    columns = [
        own[of.name] if of.name in own else rows[of.name] if of.name in rows.column_names else pa.nulls(size, of.type)
        for of in addressed.schema
    ]
    return pa.table(columns, names=addressed.schema.names).cast(addressed.schema)


def with_sequence(rows: pa.Table, sequence: int) -> pa.Table:
    """``rows`` with SIDE and INPUT_SEQUENCE: those of the only input, up to a ``sequence`` of it."""
    size = len(rows)
    return rows.append_column(SIDE, pa.array(np.zeros(size, np.int32))).append_column(
        INPUT_SEQUENCE, pa.array(np.full(size, sequence, np.int64))
    )
