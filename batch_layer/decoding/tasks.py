"""The tasks that decode archived records anew: each writes one file of the decoded table, and tells of it alone.

A task can be run twice, or end half-way. No commit names what it leaves, and maintenance deletes it.
"""

import pickle
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from batch_layer.decoding.chunks import Chunk
from hourline_core.compute.tasks import Work, keep_imports, run_tasks
from hourline_core.ledger.decode_records import ARCHIVED, REFUSED, RecordDecoder
from hourline_core.model import Source
from hourline_core.model.decoding import Decoding
from hourline_core.storage.data_files import file_system
from hourline_core.storage.file_if_rows import FileIfRows
from hourline_core.storage.file_ranges import FileRange
from hourline_core.storage.file_slices import FileSlice, divide, join_tables, read_slices
from hourline_core.storage.new_files import NewFile

_ROWS_OF_TASK = 10_000
"""With fewer rows, a further task costs more than it saves."""


@dataclass(frozen=True)
class DecodedTable:
    """The table that the tasks write to."""

    uri: str
    storage_options: Mapping[str, str] = field(repr=False)
    schema: pa.Schema


@dataclass(frozen=True)
class DecodingPlan:
    """What all tasks share that read the archive themselves."""

    source: Source
    before: Sequence[Decoding]
    """The decodings whose records are decoded anew."""
    events: str
    """The address of the events table, and so on."""
    rejected: str
    decoded: DecodedTable


_Slices = tuple[Sequence[FileSlice], Sequence[FileSlice]]
"""Of the files of events, and of those of rejected records."""


def decode_files(
    spark: SparkSession,
    plan: DecodingPlan,
    chunk: Chunk,
    events: Collection[FileRange],
    rejected: Collection[FileRange],
) -> list[NewFile]:
    """Decode the records of ``chunk`` anew, which are in these files of the archive. Returns the files of the decoded
    table.

    Raises OSError or ArrowInvalid if one cannot be read or written, and PySparkException when Spark fails.
    """
    rows = sum(file.rows for file in (*events, *rejected))
    number = min(-(-rows // _ROWS_OF_TASK) or 1, spark.sparkContext.defaultParallelism)
    slices = list(zip(divide(events, number), divide(rejected, number), strict=True))
    work = partial(_decode_slices, pickle.dumps(plan), chunk, slices)
    return _run(spark.range(0, number, 1, number), work)


def write_rows(rows: DataFrame, table: DecodedTable) -> list[NewFile]:
    """Write ``rows`` where Spark has them. Returns the files. Errors are as in ``decode_files``."""
    return _run(rows, partial(_write_batches, table))


def _run(rows: DataFrame, work: Work) -> list[NewFile]:
    files: list[NewFile] = []
    for told in run_tasks(rows, work):
        files += pickle.loads(told)  # noqa: S301 (from a task of this process)
    return files


def _decode_slices(plan: bytes, chunk: Chunk, slices: Sequence[_Slices], batches: Iterable[pa.RecordBatch]) -> bytes:
    declared, decoder = _prepare(plan)
    table, options = declared.decoded, declared.decoded.storage_options
    file = _new_file(table)
    for number in [number for batch in batches for number in batch.column(0).to_pylist()]:
        of_events, of_rejected = slices[number]
        for rows in read_slices(file_system(declared.events, options), of_events, ARCHIVED, "sequence", [chunk]):
            _write(file, decoder.of_events(rows, *chunk))
        for rows in read_slices(file_system(declared.rejected, options), of_rejected, REFUSED, "sequence", [chunk]):
            _write(file, decoder.of_rejected(rows, *chunk))
    return pickle.dumps(file.close())


def _write_batches(table: DecodedTable, batches: Iterable[pa.RecordBatch]) -> bytes:
    file = _new_file(table)
    for rows in join_tables(pa.Table.from_batches([batch]) for batch in batches):
        _write(file, rows)
    return pickle.dumps(file.close())


def _new_file(table: DecodedTable) -> FileIfRows:
    return FileIfRows(table.uri, table.storage_options, "decoded", table.schema)


def _write(file: FileIfRows, rows: pa.Table) -> None:
    """Write ``rows`` by hour, so that who reads an hour can leave out the row groups of others."""
    if rows.num_rows:
        hours = rows["hour"].cast(pa.int64()).fill_null(np.iinfo(np.int64).max).to_numpy()
        in_order = bool((np.diff(hours) >= 0).all())
        file.write(rows if in_order else rows.take(np.argsort(hours, kind="stable")))


@lru_cache(maxsize=10)  # one for each source, and for each change of its declaration
def _prepare(plan: bytes) -> tuple[DecodingPlan, RecordDecoder]:
    """The plan, and its decoder: made once in a worker, which lives on."""
    keep_imports()
    declared: DecodingPlan = pickle.loads(plan)  # noqa: S301 (from the driver)
    return declared, RecordDecoder(declared.source, declared.before)
