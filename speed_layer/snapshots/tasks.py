"""Has Spark's tasks take snapshots, and hand the rows on as events that are validated. No event goes to the driver."""

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from hourline_core.compute.tasks import keep_imports
from hourline_core.compute.worker_database import connect
from hourline_core.storage.data_files import file_system
from hourline_core.storage.file_slices import read_slices
from speed_layer.derived.read_events import read_events
from speed_layer.derived.rows import AT, INPUT_SEQUENCE, SIDE, Addressed, Part, as_validated, derive_events, schema_of
from speed_layer.intake.record_plan import RecordPlan
from speed_layer.intake.tasks import Evaluated
from speed_layer.snapshots.plan import ArchiveColumns, SnapshotPlan
from speed_layer.snapshots.snapshot_rows import Archived, SnapshotTaker
from speed_layer.snapshots.step import TOMBSTONES, SnapshotStep

_ALL_SEQUENCES = (0, 1 << 62)
_LAST_TIME = datetime.max.replace(tzinfo=UTC)


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
        _read_rejected(work),
        read_events(work.earlier, step.snapshots, work.earlier.columns, *_ALL_SEQUENCES),
    )
    with connect() as connection:
        taker = SnapshotTaker(connection, plan, work.earlier, (step.after, step.up_to), part)
        places = 0
        for rows in taker.take(archived, step.times):
            yield as_validated(addressed, _addressed(rows, step.up_to), places)
            places += len(rows)
        size = taker.count_null_keys(step.times)
        yield as_validated(addressed, _addressed(pa.table({AT: pa.nulls(size, pa.int64())}), step.up_to), places)


def _read_rejected(work: _Work) -> Iterator[pa.Table]:
    if not work.step.tombstones:
        return
    options: Mapping[str, str] = work.plan.table.storage_options
    files = file_system(work.plan.rejected, options)
    yield from read_slices(files, work.step.tombstones, TOMBSTONES, "timestamp", work.step.first, _LAST_TIME)


def _addressed(rows: pa.Table, sequence: int) -> pa.Table:
    size = len(rows)
    return rows.append_column(SIDE, pa.array(np.zeros(size, np.int32))).append_column(
        INPUT_SEQUENCE, pa.array(np.full(size, sequence, np.int64))
    )
