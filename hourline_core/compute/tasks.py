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

_TOLD, _IS_LAST, _FAILED = "told", "is_last", "failed"
_BYTES = 4 << 20
"""The most bytes of a row. Java copies a row several times, so what a task tells may not be one."""


def run_tasks(rows: DataFrame, work: Work) -> list[bytes]:
    """What ``work`` tells of the rows of each partition of ``rows``, as one Spark job. Spark may run a task twice.

    Raises what has ended the work of a task, with its causes, and PySparkException when Spark fails.
    """
    schema = f"{_TOLD} binary, {_IS_LAST} boolean, {_FAILED} binary"
    return told_by(rows.mapInArrow(partial(tell, work), schema).toArrow())


def tell(work: Work, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What ``work`` tells of ``batches``, compressed and in several rows; or one row with the exception that has ended
    it, as ``told_by`` reads it.
    """
    told, failed = b"", None
    try:
        told = work(batches)
    except Exception as error:  # Spark would make a text of it.
        error.add_note(traceback.format_exc())
        failure = TaskFailure.of(error)
        if failure is None:
            raise
        failed = pickle.dumps(failure)
    compressed = _compress(told)
    for first in range(0, len(compressed), _BYTES):
        part = compressed[first : first + _BYTES]
        is_last = first + _BYTES >= len(compressed)
        rows = {_TOLD: pa.array([part], pa.binary()), _IS_LAST: [is_last], _FAILED: pa.array([failed], pa.binary())}
        yield pa.record_batch(rows)


def told_by(tasks: pa.Table) -> list[bytes]:
    """What ``tasks``, the rows of ``tell``, have told. Raises the first exception that has ended one of them."""
    for failed in tasks[_FAILED].drop_null().to_pylist():
        failure: TaskFailure = pickle.loads(failed)  # noqa: S301 (from a task of this process)
        raise failure.raised()
    told: list[bytes] = []
    parts: list[bytes] = []
    for part, is_last in zip(tasks[_TOLD], tasks[_IS_LAST].to_pylist(), strict=True):
        parts.append(part.as_py())
        if is_last:  # Spark collects the rows of a task one after the other.
            told.append(_decompress(b"".join(parts)))
            parts.clear()
    return told


def _compress(told: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as out:
        out.write(told)
    return bytes(sink.getvalue())


def _decompress(told: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(told), "zstd") as source:
        return bytes(source.read())


def keep_imports() -> None:
    """Spare Spark's worker, which collects garbage after each task, going through all that was imported: 40 ms."""
    gc.collect()
    gc.freeze()
