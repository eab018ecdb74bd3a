"""Has Spark's tasks find the newest versions, and hand them on as events that are validated. No event goes to the
driver.
"""

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
from speed_layer.tables.tombstones import read_tombstones
from speed_layer.upserts.newest_versions import Archived, VersionFinder
from speed_layer.upserts.plan import UpsertPlan
from speed_layer.upserts.step import UpsertFiles


@dataclass(frozen=True)
class _Work:
    plan: UpsertPlan
    files: UpsertFiles
    arrived: datetime
    parts: int
    schema: pa.Schema


def find_versions(
    spark: SparkSession, records: RecordPlan, plan: UpsertPlan, files: UpsertFiles, parts: int, arrived: datetime
) -> Evaluated:
    """The versions of a micro-batch of the source of ``records``, evaluated: in so many ``parts``. They ``arrived``
    (UTC) when it was planned. An event with null in its key is a record that is not taken. All have the address of the
    last sequence that is read of the table.
    """
    work = pickle.dumps(_Work(plan, files, arrived, parts, schema_of(records.source)))
    return derive_events(spark, parts, partial(_work, work), records)


def _work(pickled: bytes, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    keep_imports()
    work: _Work = pickle.loads(pickled)  # noqa: S301 (from the driver)
    for number in [number for batch in numbers for number in batch.column(0).to_pylist()]:
        for rows in _find(work, Part(number, work.parts)):
            yield from rows.to_batches()


def _find(work: _Work, part: Part) -> Iterator[pa.Table]:
    files, plan = work.files, work.plan
    addressed = Addressed([plan.source], work.schema, work.arrived, part)
    archived = Archived(
        read_events(plan.table, files.new, plan.table.columns, files.after, files.up_to),
        read_tombstones(plan, files.tombstones, files.first),
        read_events(plan.table, files.earlier, plan.table.columns, 0, files.after),
        read_tombstones(plan, files.tombstones, files.first),
    )
    with connect() as connection:
        finder = VersionFinder(connection, plan, (files.after, files.up_to), part)
        places = 0
        for rows in finder.find(archived):
            yield as_validated(addressed, with_sequence(rows, files.up_to), places)
            places += len(rows)
        nulls = pa.table({AT: pa.nulls(finder.count_null_keys(), pa.int64())})
        yield as_validated(addressed, with_sequence(nulls, files.up_to), places)
