"""Runs the tasks of a micro-batch, each in a Python worker of Spark."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, MapType, StructType

from hourline_core.compute.fold_tiles import Fold, connect_for_folds
from hourline_core.compute.tasks import keep_imports, run_tasks
from hourline_core.model.scratch_columns import OFFSET, PARTITION, TOPIC
from hourline_core.storage.file_slices import join_tables
from speed_layer.intake.micro_batch_size import TaskBounds
from speed_layer.intake.native_records import NativeRecords, as_records
from speed_layer.intake.part import Assignment, IntakePlan, Part, from_bytes, to_bytes
from speed_layer.intake.part_builder import PartBuilder
from speed_layer.intake.record_plan import RecordPlan

_ROWS_OF_CHUNK = 50_000
_BYTES_OF_CHUNK = 64 << 20
"""A chunk ends when it has reached one of both, at the end of a record."""

_ROWS_OF_BATCH, _SMALL_ROWS_OF_BATCH = 10_000, 250
_BYTES_OF_BATCH, _NO_LIMIT = 64 << 20, (1 << 31) - 1


@dataclass(frozen=True)
class MadeInTasks:
    """Validated events of a derived source, which its tasks make, so that none of them crosses into Java."""

    parts: DataFrame
    """A partition for each task, and what ``make`` needs of it."""
    make: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


Evaluated: TypeAlias = DataFrame | MadeInTasks | pa.Table
"""Evaluated records, as ``RecordPlan.apply`` gives them."""


class Tasks:
    """Runs the tasks of micro-batches: ``records`` is what Spark evaluates, ``plan`` what they do with it."""

    def __init__(self, plan: IntakePlan, records: RecordPlan) -> None:
        self.plan = plan
        self.records = records
        self._pickled = pickle.dumps(plan)
        self._nested: bool | None = None

    def run(self, evaluated: Evaluated, assignment: Assignment, bounds: TaskBounds) -> list[Part]:
        """Run the tasks of one micro-batch, as the one Spark job. ``evaluated`` is what ``records.apply`` gives. If it
        is in the memory of this process, it is complete; there is one task, and this process runs it.

        Raises what has ended the work of a task, and PySparkException when Spark fails.
        """
        if isinstance(evaluated, pa.Table):
            return [build_part(self._pickled, assignment, evaluated.to_batches())]
        if isinstance(evaluated, MadeInTasks):
            make_and_work = partial(_make_and_work, self._pickled, assignment, evaluated.make)
            return [from_bytes(told) for told in run_tasks(evaluated.parts, make_and_work)]
        evaluated = self.records.complete(evaluated, assignment.lookups)
        spark = evaluated.sparkSession
        tasks = min(bounds.tasks, spark.sparkContext.defaultParallelism)
        work = partial(_work, self._pickled, assignment)
        if self._nested is None:
            self._nested = has_nested_columns(evaluated.schema)
        if self._nested:
            for setting, value in limits_of_batches(bounds.small_rows).items():
                spark.conf.set(setting, value)
        return [from_bytes(told) for told in run_tasks(evaluated.coalesce(tasks), work)]


def has_nested_columns(evaluated: StructType) -> bool:
    """Whether Spark would have to ask for the sizes of nested columns at each row to keep a batch below a size."""
    return any(isinstance(column.dataType, ArrayType | MapType | StructType) for column in evaluated)


def limits_of_batches(small_rows: bool) -> dict[str, str]:
    """Spark's settings for the batches in which it passes rows with nested columns to a task. A bound of bytes costs
    some microseconds a row. So small rows are bounded by their number: if they become large all at once, a batch has
    that many of them.
    """
    rows, size = (_SMALL_ROWS_OF_BATCH, _NO_LIMIT) if small_rows else (_ROWS_OF_BATCH, _BYTES_OF_BATCH)
    arrow = "spark.sql.execution.arrow"
    return {f"{arrow}.maxRecordsPerBatch": str(rows), f"{arrow}.maxBytesPerBatch": str(size)}


def build_part(plan: bytes, assignment: Assignment, batches: Iterable[pa.RecordBatch]) -> Part:
    """Take in the evaluated records ``batches`` of a task. ``plan`` is a pickled IntakePlan."""
    declared, folds, native = _prepare(plan)
    builder = PartBuilder(declared, assignment, folds)
    if native and not declared.source.is_derived:
        batches = (as_records(batch, assignment.arrived) for batch in batches)
    # Pairs of one micro-batch of an input have its sequence in their address, and are records of their own.
    for chunk in join_tables(map(pa.table, batches)) if declared.source.is_derived else _chunks(batches):
        builder.add(native.evaluate(chunk, assignment.lookups) if native else chunk)
    return builder.finish()


def _work(plan: bytes, assignment: Assignment, batches: Iterable[pa.RecordBatch]) -> bytes:
    return to_bytes(build_part(plan, assignment, batches))


def _make_and_work(
    plan: bytes,
    assignment: Assignment,
    make: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    parts: Iterable[pa.RecordBatch],
) -> bytes:
    return _work(plan, assignment, make(parts))


@lru_cache(maxsize=100)  # one for each source, and for each start after a change of its tables
def _prepare(plan: bytes) -> tuple[IntakePlan, dict[str, Fold], NativeRecords | None]:
    """The plan, the folds of its metrics, and what evaluates the records if the task does: made once in a worker, which
    lives on.
    """
    keep_imports()
    declared: IntakePlan = pickle.loads(plan)  # noqa: S301 (from the driver)
    connection = connect_for_folds(metric.aggregation.metric for metric in declared.metrics.values())
    folds = {name: Fold(connection, metric) for name, metric in declared.metrics.items()}
    native = None if declared.native is None else NativeRecords(declared.source, declared.native, declared.lookups)
    return declared, folds, native


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows in chunks, in which all of each record are. A record may fill many batches: each is looked at once."""
    record: list[pa.Table] = []
    """Rows of one record, of which more may follow."""
    waiting: list[pa.Table] = []
    rows = size = 0
    for batch in filter(len, batches):
        waiting.append(pa.table(batch))
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _ROWS_OF_CHUNK or size >= _BYTES_OF_CHUNK:
            new = pa.concat_tables(waiting)
            others, waiting = new.num_rows - _rows_of_last_record(new), []
            if others or (record and _last_address(record[-1]) != _last_address(new)):
                yield pa.concat_tables([*record, new.slice(0, others)])
                record = [new.slice(others)]
                rows, size = record[0].num_rows, record[0].nbytes
            else:
                record.append(new)
    if rows:
        yield pa.concat_tables([*record, *waiting])


def _rows_of_last_record(rows: pa.Table) -> int:
    """The number of the last rows that are of one record."""
    differs = pc.or_kleene(
        pc.not_equal(rows[OFFSET], rows[OFFSET][-1]), pc.not_equal(rows[PARTITION], rows[PARTITION][-1])
    )
    others = np.flatnonzero(pc.or_kleene(differs, pc.not_equal(rows[TOPIC], rows[TOPIC][-1])).to_numpy())
    return int(rows.num_rows - (others[-1] + 1 if len(others) else 0))


def _last_address(rows: pa.Table) -> tuple[Any, ...]:
    return tuple(rows[name][-1].as_py() for name in (TOPIC, PARTITION, OFFSET))
