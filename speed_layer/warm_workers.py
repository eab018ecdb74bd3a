"""Keeps Spark's Python workers while no records come.

Spark ends all of them when none has worked for a minute. Then the first event after a silence would wait for a new one,
which has to import the libraries and prepare the source's plan.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa
from pyspark.sql import SparkSession

_SECONDS_BETWEEN = 25.0


@contextmanager
def warm_workers(spark: SparkSession) -> Iterator[None]:
    """Within the block, a Python worker does something now and then."""
    ended = threading.Event()
    threading.Thread(target=_keep, args=(spark, ended), name="warm-workers", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _keep(spark: SparkSession, ended: threading.Event) -> None:
    with suppress(Exception):  # Spark has ended.
        while not ended.wait(_SECONDS_BETWEEN):
            spark.range(1).mapInArrow(_pass_on, "id long").collect()


def _pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches
