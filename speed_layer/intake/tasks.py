"""Runs the tasks of a micro-batch, each in a Python worker of Spark."""

import gc
import pickle
import traceback
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from typing import Any

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
from speed_layer.intake.task_failure import TaskFailure

_ROWS_OF_CHUNK = 50_000
_BYTES_OF_CHUNK = 64 << 20
"""A chunk ends when it has reached one of both, at the end of a record."""

_NO_LIMIT = str((1 << 31) - 1)

_TOLD = "told"


class Tasks:
    """Runs the tasks of micro-batches: ``records`` is what Spark evaluates, ``plan`` what they do with it."""

    def __init__(self, plan: IntakePlan, records: RecordPlan) -> None:
        self.plan = plan
        self.records = records
        self._pickled = pickle.dumps(plan)
        self._limits: dict[str, str] | None = None

    def run(self, evaluated: DataFrame, assignment: Assignment, most: int) -> list[Part]:
        """Run the tasks of one micro-batch, at most ``most``, as the one Spark job. ``evaluated`` is what
        ``records.apply`` gives.

        Raises what has ended the work of a task, and PySparkException when Spark fails.
        """
        tasks = min(most, evaluated.sparkSession.sparkContext.defaultParallelism)
        work = partial(_work, self._pickled, assignment)
        if self._limits is None:
            self._limits = _limits(evaluated.schema)
        for setting, value in self._limits.items():
            evaluated.sparkSession.conf.set(f"spark.sql.execution.arrow.{setting}", value)
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
    told: Part | TaskFailure
    try:
        told = build_part(plan, assignment, batches)
    except Exception as error:  # Spark would make a text of it.
        error.add_note(traceback.format_exc())
        failure = TaskFailure.of(error)
        if failure is None:
            raise
        told = failure
    yield pa.record_batch({_TOLD: pa.array([to_bytes(told)], pa.binary())})


@lru_cache(maxsize=100)  # one for each source, and for each start after a change of its tables
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
