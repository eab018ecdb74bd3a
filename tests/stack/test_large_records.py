"""Large records are counted within the memory of a default project, also those that become many events, and their bytes
are kept.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

import serving_layer
from speed_layer.intake.tasks import limits_of_batches
from speed_layer.spark_session import speed_session
from tests.support import observed
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject

FILES = {
    "hourline.yaml": 'kafka: {bootstrap: "${KAFKA}"}\nspark: {master: "local[1]"}\n'
    "speed: {max_records_per_batch: 3, max_bytes_per_batch: 1m}\n",
    "sources/orders.yaml": "topic: large_records\nfields: {items: 'array<struct<n: int, at: timestamp>>'}\n"
    "explode: {item: items}\nevent_time: item.at\npartitions: 1\n",
    "metrics/counts.yaml": "source: orders\nmeasures: {events: count, total: sum(item.n)}\n",
    "sources/notes.yaml": "topic: large_notes\nfields: {n: int, at: timestamp}\nevent_time: at\npartitions: 1\n",
    "metrics/noted.yaml": "source: notes\nmeasures: {notes: count, total: sum(n)}\n",
}
EVENTS = 5_000
NOTES = 11


def test_large_records_make_small_micro_batches_and_may_become_thousands_of_events(kafka: str, tmp_path: Path) -> None:
    project = StackProject(write_project(tmp_path, FILES), kafka, {})
    good, bad = {"n": 1, "at": "2024-05-06T20:15:00Z"}, {"n": 1, "at": None}
    record = {"undeclared": "x" * 500_000, "items": [*[good] * EVENTS, bad, bad]}
    project.send("orders", [record])
    text = "x" * 500_000
    project.send("notes", [{"n": n, "at": "2024-05-06T20:15:00Z", "undeclared": text} for n in range(NOTES)])
    with speed_session(project.project) as spark:
        batches = observed.drain(spark, project.project, kafka).batches
        sizes = sizes_of_batches(spark, 100)
    assert [done.records for done in batches if done.source == "notes"] == [3, 2, 2, 2, 2]
    assert len(sizes) > 1 and max(sizes) < (64 << 20) + 2_000_000
    (finished,) = (done for done in batches if done.source == "orders")
    assert (finished.records, finished.accepted, finished.rejected) == (1, EVENTS, 2)
    with serving_layer.connect(project.project) as connection:
        assert connection.sql("SELECT events, total FROM counts").fetchall() == [(EVENTS, EVENTS)]
        assert connection.sql("SELECT notes, total FROM noted").fetchall() == [(NOTES, sum(range(NOTES)))]
    value = json.dumps(record, ensure_ascii=False).encode()
    kept = [row["_hourline_value"] for row in project.table("events", "orders", ["_hourline_value"])]
    assert sorted(kept, key=lambda one: one is None) == [value, *[None] * (EVENTS - 1)]
    assert [row["value"] for row in project.table("rejected", "orders", ["value"])] == [value, None]
    with serving_layer.connect(project.project) as connection:
        assert connection.sql("SELECT value FROM rejected_orders").fetchall() == [(value,)] * 2


def sizes_of_batches(spark: SparkSession, megabytes: int) -> list[int]:
    """The sizes in bytes of the batches in which Spark passes so many nested rows of a megabyte to a task."""
    for setting, value in limits_of_batches(small_rows=False).items():
        spark.conf.set(setting, value)
    rows = spark.range(0, megabytes, numPartitions=1).select(F.struct(F.repeat(F.lit("x"), 1_000_000)).alias("nested"))
    return [row.size for row in rows.mapInArrow(tell_size, "size bigint").collect()]


def tell_size(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.record_batch({"size": [batch.nbytes]})
