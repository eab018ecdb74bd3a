"""Runs work in tasks of Spark, each in a Python worker, which tell the driver what they have done or what has ended
them.
"""

import gc
import pickle
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from hourline_core.compute.task_failure import TaskFailure

Work = Callable[[Iterable[pa.RecordBatch]], bytes]
"""Takes the rows of a task, and gives what is told of them."""

_TOLD, _FAILED = "told", "failed"


def run_tasks(rows: DataFrame, work: Work) -> list[bytes]:
    """What ``work`` tells of the rows of each partition of ``rows``, as one Spark job. Spark may run a task twice.

    Raises what has ended the work of a task, with its causes, and PySparkException when Spark fails.
    """
    return told_by(rows.mapInArrow(partial(tell, work), f"{_TOLD} binary, {_FAILED} binary").toArrow())


def tell(work: Work, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row: what ``work`` tells of ``batches``, or the exception that has ended it, as ``told_by`` reads it."""
    told = failed = None
    try:
        told = work(batches)
    except Exception as error:  # Spark would make a text of it.
        error.add_note(traceback.format_exc())
        failure = TaskFailure.of(error)
        if failure is None:
            raise
        failed = pickle.dumps(failure)
    yield pa.record_batch({_TOLD: pa.array([told], pa.binary()), _FAILED: pa.array([failed], pa.binary())})


def told_by(tasks: pa.Table) -> list[bytes]:
    """What ``tasks``, the rows of ``tell``, have told. Raises the first exception that has ended one of them."""
    for failed in tasks[_FAILED].drop_null().to_pylist():
        failure: TaskFailure = pickle.loads(failed)  # noqa: S301 (from a task of this process)
        raise failure.raised()
    told: list[bytes] = tasks[_TOLD].to_pylist()
    return told


def keep_imports() -> None:
    """Spare Spark's worker, which collects garbage after each task, going through all that was imported: 40 ms."""
    gc.collect()
    gc.freeze()
