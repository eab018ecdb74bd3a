"""Runs the tasks of a micro-batch, each in a Python worker of Spark."""

import gc
import pickle
import traceback
from collections.abc import Iterable, Iterator
from functools import cache, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, MapType, StructType

from hourline_core.model.scratch_columns import OFFSET, PARTITION, TOPIC
from speed_layer.intake.fold_tiles import Fold, connect_for_folds
from speed_layer.intake.native_records import NativeRecords, as_records
from speed_layer.intake.part import Assignment, IntakePlan, Part, from_bytes, to_bytes
from speed_layer.intake.part_builder import PartBuilder
from speed_layer.intake.record_plan import RecordPlan

_ROWS_OF_CHUNK = 50_000
_BYTES_OF_CHUNK = 64 << 20
"""A chunk ends when it has reached one of both, at the end of a record."""

_RECORDS_OF_TASK = 10_000
"""With fewer records, a further task costs more than it saves: some 50 ms for its Python worker."""

_NO_LIMIT = str((1 << 31) - 1)

_TOLD = "told"


class Tasks:
    """Runs the tasks of micro-batches: ``records`` is what Spark evaluates, ``plan`` what they do with it."""

    def __init__(self, plan: IntakePlan, records: RecordPlan) -> None:
        self.plan = plan
        self.records = records
        self._pickled = pickle.dumps(plan)
        self._limits: dict[str, str] | None = None

    def run(self, evaluated: DataFrame, assignment: Assignment, size: int) -> list[Part]:
        """Run the tasks of one micro-batch, as the one Spark job. ``evaluated`` is what ``records.apply`` gives, of
        about ``size`` records.

        Raises what has ended the work of a task, and PySparkException when Spark fails.
        """
        tasks = min(-(-size // _RECORDS_OF_TASK) or 1, evaluated.sparkSession.sparkContext.defaultParallelism)
        work = partial(_work, self._pickled, assignment)
        if self._limits is None:
            self._limits = _limits(evaluated.schema)
        for setting, most in self._limits.items():
            evaluated.sparkSession.conf.set(f"spark.sql.execution.arrow.{setting}", most)
        told = evaluated.coalesce(tasks).mapInArrow(work, f"{_TOLD} binary").toArrow()
        return [from_bytes(part) for part in told[_TOLD].to_pylist()]


def _limits(evaluated: StructType) -> dict[str, str]:
    """Settings for the batches in which Spark passes rows to a task. If it has to keep a batch below a size, it asks
    for the size of each nested column at each row.
    """
    nested = any(isinstance(column.dataType, ArrayType | MapType | StructType) for column in evaluated)
    return {"maxBytesPerBatch": _NO_LIMIT, "maxRecordsPerBatch": "1000"} if nested else {}


def build_part(plan: bytes, assignment: Assignment, batches: Iterable[pa.RecordBatch]) -> Part:
    """Take in the evaluated records ``batches`` of a task. ``plan`` is a pickled IntakePlan."""
    declared, folds, native = _prepare(plan)
    builder = PartBuilder(declared, assignment, folds)
    if native:
        batches = (as_records(batch, assignment.arrived) for batch in batches)
    for chunk in _chunks(batches):
        builder.add(native.evaluate(chunk) if native else chunk)
    return builder.finish()


def _work(plan: bytes, assignment: Assignment, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    told: Part | Exception
    try:
        told = build_part(plan, assignment, batches)
    except Exception as error:  # Spark would make a text of it.
        error.add_note(traceback.format_exc())
        if not _can_cross(error):
            raise
        told = error
    yield pa.record_batch({_TOLD: pa.array([to_bytes(told)], pa.binary())})


def _can_cross(error: Exception) -> bool:
    """Whether the driver can get ``error`` itself."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 (of this process)
    except Exception:
        return False
    return True


@cache
def _prepare(plan: bytes) -> tuple[IntakePlan, dict[str, Fold], NativeRecords | None]:
    """The plan, the folds of its metrics, and what evaluates the records if the task does: made once in a worker, which
    lives on.
    """
    # Spark's worker collects garbage after each task, which would go through all that was imported: 40 ms a task.
    gc.collect()
    gc.freeze()
    declared: IntakePlan = pickle.loads(plan)  # noqa: S301 (from the driver)
    connection = connect_for_folds(metric.aggregation.metric for metric in declared.metrics.values())
    folds = {name: Fold(connection, metric) for name, metric in declared.metrics.items()}
    native = None if declared.native is None else NativeRecords(declared.source, declared.native)
    return declared, folds, native


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows in chunks, in which all of each record are."""
    waiting: list[pa.Table] = []
    for batch in batches:
        waiting.append(pa.table(batch))
        if sum(map(len, waiting)) >= _ROWS_OF_CHUNK or sum(one.nbytes for one in waiting) >= _BYTES_OF_CHUNK:
            rows = pa.concat_tables(waiting)
            whole = rows.num_rows - _rows_of_last_record(rows)
            if whole:
                yield rows.slice(0, whole)
            waiting = [rows.slice(whole)]
    if rest := sum(map(len, waiting)):
        yield pa.concat_tables(waiting).slice(0, rest)


def _rows_of_last_record(rows: pa.Table) -> int:
    """The number of the last rows that are of one record."""
    differs = pc.or_kleene(
        pc.not_equal(rows[OFFSET], rows[OFFSET][-1]), pc.not_equal(rows[PARTITION], rows[PARTITION][-1])
    )
    others = np.flatnonzero(pc.or_kleene(differs, pc.not_equal(rows[TOPIC], rows[TOPIC][-1])).to_numpy())
    return int(rows.num_rows - (others[-1] + 1 if len(others) else 0))
