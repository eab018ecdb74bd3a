"""Reads the archived events of an hour, each with what the declared expressions give for it. Spark evaluates these, and
sends the events in batches, so that an hour is never in memory as a whole.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline_core.aggregates import aggregate_of
from hourline_core.aggregates.python_values import read_events
from hourline_core.aggregates.user_classes.fold_class import ORDER
from hourline_core.aggregates.user_classes.measure_class import ADDRESS
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.compute.nullable import with_nullable_parts
from hourline_core.model.expressions import attempt
from hourline_core.model.scratch_columns import EVENT_TIME, OFFSET, PARTITION, PLACE, SEQUENCE, TOPIC, TOPIC_ID

_BEHIND = {"user_defined": len(ADDRESS), "fold": len(ORDER)}
"""By kind, the number of columns behind the arguments, which every event has anyway."""
_AS_TEXT = ("distinct", "top", "user_defined", "fold")
"""The kinds that take values in the form that their aggregate declares. The others take the argument itself."""


class Row(NamedTuple):
    """An event, as Python has it."""

    at: Any
    sequence: int
    topic_id: str | None
    partition: int
    offset: int
    place: int
    topic: str | None
    identity: Any
    """The value of the source's ``id``."""
    fulfils: bool | None
    """Whether it fulfils the source's ``where``."""
    in_metric: bool | None
    """Whether it fulfils the metric's ``where``."""
    dimensions: tuple[Any, ...]
    arguments: dict[str, tuple[Any, ...]]
    """By measure, what is aggregated of the event."""


def read_rows(aggregation: AggregationPlan, events: DataFrame) -> Iterator[Row]:
    """The rows of ``events``, which have the derived fields. Raises UnreadableValueError for a date or time that Python
    does not have.
    """
    source, metric = aggregation.source, aggregation.metric
    arguments = _arguments(aggregation)
    columns = [
        *(f"`{name}`" for name in (EVENT_TIME, SEQUENCE, TOPIC_ID, PARTITION, OFFSET, PLACE, TOPIC)),
        attempt(source.id) if source.id else "cast(null as string)",
        attempt(source.where or "true"),
        attempt(metric.where or "true"),
        *map(attempt, metric.dimensions.values()),
        *(sql for of_measure in arguments.values() for sql in of_measure),
    ]
    named = {f"c{place}": sql for place, sql in enumerate(columns)}
    frame = with_nullable_parts(events.select(*(F.expr(sql).alias(name) for name, sql in named.items())), named)
    own = len(Row._fields) - 2
    for batch in _stream(frame):
        for values in read_events(batch.columns):
            rest = iter(values[own:])
            dimensions = tuple(islice(rest, len(metric.dimensions)))
            of_measures = {name: tuple(islice(rest, len(of))) for name, of in arguments.items()}
            yield Row._make([*values[:own], dimensions, of_measures])


def _arguments(aggregation: AggregationPlan) -> dict[str, list[str]]:
    """By measure, Spark SQL for what is aggregated of an event."""
    found: dict[str, list[str]] = {}
    for name, measure in aggregation.metric.measures.items():
        values = list(aggregation.values[name])
        if measure.kind in _AS_TEXT:
            found[name] = values[: len(values) - _BEHIND.get(measure.kind, 0)]
        elif measure.kind == "count" or measure.operands:
            found[name] = values
        else:
            found[name] = [aggregate_of(measure).argument]
    return found


def _stream(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    """The rows of ``frame``, one Arrow batch after the other. Spark itself would give all of them at once."""
    for row in frame.mapInArrow(_pack, "batch binary").toLocalIterator():
        with pa.ipc.open_stream(bytes(row.batch)) as batches:
            yield from batches


def _pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        packed = pa.BufferOutputStream()
        with pa.ipc.new_stream(packed, batch.schema) as stream:
            stream.write_batch(batch)
        yield pa.record_batch({"batch": pa.array([packed.getvalue().to_pybytes()], pa.binary())})
