"""Has Spark's tasks take snapshots, and hand the rows on as events that are validated. No event goes to the driver."""

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession

from hourline_core.compute.tasks import keep_imports
from hourline_core.compute.worker_database import connect
from speed_layer.derived.read_events import read_events
from speed_layer.derived.rows import AT, Addressed, Part, as_validated, derive_events, schema_of, with_sequence
from speed_layer.intake.record_plan import RecordPlan
from speed_layer.intake.tasks import Evaluated
from speed_layer.snapshots.plan import SnapshotPlan
from speed_layer.snapshots.snapshot_rows import Archived, SnapshotTaker
from speed_layer.snapshots.step import SnapshotStep
from speed_layer.tables.plan import ArchiveColumns
from speed_layer.tables.tombstones import read_tombstones

_ALL_SEQUENCES = (0, 1 << 62)


@dataclass(frozen=True)
class _Work:
    plan: SnapshotPlan
    earlier: ArchiveColumns
    step: SnapshotStep
    arrived: datetime
    parts: int
    schema: pa.Schema


def take_snapshots(
    spark: SparkSession,
    records: RecordPlan,
    plan: SnapshotPlan,
    earlier: ArchiveColumns,
    step: SnapshotStep,
    parts: int,
    arrived: datetime,
) -> Evaluated:
    """The rows of a micro-batch of the source of ``records``, evaluated: in so many ``parts``. They ``arrived``
    (UTC) when it was planned. ``earlier`` are the archived snapshots. An event with null in its key is a record that is
    not taken. All have the address of the last sequence that is read of the table.
    """
    work = pickle.dumps(_Work(plan, earlier, step, arrived, parts, schema_of(records.source)))
    return derive_events(spark, parts, partial(_work, work), records)


def _work(pickled: bytes, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    keep_imports()
    work: _Work = pickle.loads(pickled)  # noqa: S301 (from the driver)
    for number in [number for batch in numbers for number in batch.column(0).to_pylist()]:
        for rows in _take(work, Part(number, work.parts)):
            yield from rows.to_batches()


def _take(work: _Work, part: Part) -> Iterator[pa.Table]:
    step, plan = work.step, work.plan
    addressed = Addressed([plan.source], work.schema, work.arrived, part)
    archived = Archived(
        read_events(plan.table, step.table, plan.table.columns, 0, step.up_to),
        read_tombstones(plan, step.tombstones, step.first),
        read_events(work.earlier, step.snapshots, work.earlier.columns, *_ALL_SEQUENCES),
    )
    with connect() as connection:
        taker = SnapshotTaker(connection, plan, work.earlier, (step.after, step.up_to), part)
        places = 0
        for rows in taker.take(archived, step.times):
            yield as_validated(addressed, with_sequence(rows, step.up_to), places)
            places += len(rows)
        size = taker.count_null_keys(step.times)
        yield as_validated(addressed, with_sequence(pa.table({AT: pa.nulls(size, pa.int64())}), step.up_to), places)
