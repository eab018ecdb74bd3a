"""Has Spark's tasks join events, and hand the pairs on as events that are validated. No event goes to the driver."""

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from hourline_core.compute.tasks import keep_imports
from hourline_core.compute.worker_database import connect
from speed_layer.derived.passed import Passed
from speed_layer.derived.rows import AT, INPUT_SEQUENCE, SIDE, Addressed, Part, as_validated, derive_events, schema_of
from speed_layer.intake.record_plan import RecordPlan
from speed_layer.intake.tasks import Evaluated
from speed_layer.joins.difference import DifferenceJoiner
from speed_layer.joins.join_rows import Joiner
from speed_layer.joins.plan import JoinPlan
from speed_layer.joins.read_side import ArchivedSide
from speed_layer.joins.step import SideStep


@dataclass(frozen=True)
class _Work:
    plan: JoinPlan
    step: tuple[SideStep, SideStep]
    passed: Passed
    arrived: datetime
    parts: int
    schema: pa.Schema


def join_events(
    spark: SparkSession,
    records: RecordPlan,
    plan: JoinPlan,
    step: tuple[SideStep, SideStep],
    passed: Passed,
    parts: int,
    arrived: datetime,
) -> Evaluated:
    """The pairs of a micro-batch of the joined source of ``records``, evaluated: in so many ``parts``. They ``arrived``
    (UTC) when it was planned. An event with null in its key is a record that is not taken.

    A pair has the address of its later event's micro-batch. An event without a partner has that of the last sequence
    that is read of an input. So has one that takes it back (TAKEN_BACK), and each one if inputs may take events back.
    """
    work = pickle.dumps(_Work(plan, step, passed, arrived, parts, schema_of(records.source)))
    return derive_events(spark, parts, partial(_work, work), records)


def _work(pickled: bytes, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    keep_imports()
    work: _Work = pickle.loads(pickled)  # noqa: S301 (from the driver)
    for number in [number for batch in numbers for number in batch.column(0).to_pylist()]:
        for rows in _join(work, number):
            yield from rows.to_batches()


def _joiner(connection: duckdb.DuckDBPyConnection, work: _Work, part: Part) -> Joiner | DifferenceJoiner:
    if not work.plan.inputs_take_back:
        return Joiner(connection, work.plan, part)
    left, right = work.step
    return DifferenceJoiner(connection, work.plan, (left.after, right.after), part)


def _join(work: _Work, number: int) -> Iterator[pa.Table]:
    left, right = (ArchivedSide(plan, step) for plan, step in zip(work.plan.sides, work.step, strict=True))
    names, part = [side.source for side in work.plan.sides], Part(number, work.parts)
    addressed = Addressed(names, work.schema, work.arrived, part)
    with connect() as connection:
        joined = _joiner(connection, work, part).join(left, right, work.passed)
        places = 0
        for side, events in enumerate(joined.null_keys):
            sequences = np.repeat(list(events), list(events.values())).astype(np.int64)
            rows = pa.table({SIDE: np.full(len(sequences), side, np.int32), INPUT_SEQUENCE: sequences})
            yield as_validated(addressed, rows.append_column(AT, pa.nulls(len(rows), pa.int64())), places)
            places += len(rows)
        for rows in joined.pairs:
            yield as_validated(addressed, rows, places)
            places += len(rows)
        read = next((place for place, side in enumerate(work.step) if side.up_to > side.after), 0)
        for rows in joined.changes:
            sides = pa.chunked_array([np.full(len(rows), read, np.int32)])
            sequences = pa.chunked_array([np.full(len(rows), work.step[read].up_to)])
            located = rows.append_column(SIDE, sides).append_column(INPUT_SEQUENCE, sequences)
            yield as_validated(addressed, located, places)
            places += len(rows)
