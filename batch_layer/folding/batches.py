"""How Spark passes events to a task: in batches, which are in Java's memory and in that of the worker."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession

_ROWS = 2_500
_SMALL = 1_000
"""Bytes of an event in a data file, where it is compressed, with the bytes of its record."""
_NO_LIMIT = (1 << 31) - 1
_ARROW = "spark.sql.execution.arrow"
_LIMITS = {f"{_ARROW}.maxRecordsPerBatch": str(_ROWS), f"{_ARROW}.maxBytesPerBatch": str(_NO_LIMIT)}


_GROWING = frozenset(
    {
        *("aggregate", "array_join", "array_repeat", "concat_ws", "format_string", "lpad", "printf", "reduce"),
        *("regexp_replace", "repeat", "replace", "rpad", "sequence", "space", "transform", "translate", "zip_with"),
    }
)
"""Functions whose value may be much larger than what they are given."""
_FUNCTION = re.compile(r"(\w+)`?\s*\(")


def may_grow(expressions: Iterable[str]) -> bool:
    """Whether Spark's SQL may make large values of small events, so that their number bounds no batch."""
    called = {name.casefold() for text in expressions for name in _FUNCTION.findall(text)}
    return not called.isdisjoint(_GROWING)


def are_small(archive: DeltaTable) -> bool:
    """Whether the events of each file of ``archive`` are so small that their number alone can bound a batch."""
    files = pa.table(archive.get_add_actions()).select(["size_bytes", "num_records"])
    sizes, rows = (column.to_pylist() for column in files.columns)
    return all(of is not None and size <= _SMALL * max(of, _ROWS) for size, of in zip(sizes, rows, strict=True))


@contextmanager
def bounded_by_rows(spark: SparkSession) -> Iterator[None]:
    """Within the block, Spark bounds batches by their number of rows alone.

    Otherwise it asks Arrow for the size of each column at each row, to keep a batch below a size. That costs 0.5 µs an
    event, which is twice what reading it and evaluating its expressions costs.
    """
    before = {name: value for name in _LIMITS if (value := spark.conf.get(name)) is not None}
    for name, value in _LIMITS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
