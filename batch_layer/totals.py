"""Counts the events of a metric twice in one Spark job: by hour and dimensions, as its tiles, and by hour alone.

Each event that counts is doubled behind the scan and the sort, so both groupings share these. The rows of an hour are
added up from events, not from tiles: a group that is lost, doubled or wrong shows as a difference.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline_core.aggregates import aggregate_of
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.model import Metric
from hourline_core.model.scratch_columns import COUNTS, HOUR, SCRATCH_PREFIX

_PART = f"{SCRATCH_PREFIX}part"
"""int: the part of the result that a row belongs to, one of the next four."""
_TILE, _HOUR, _NOT_OF_METRIC, _NOT_COUNTED = range(4)
_EVENTS = f"{SCRATCH_PREFIX}events"
"""bigint: the number of events of a group."""


@dataclass(frozen=True)
class HourTotals:
    """What one metric counts in each hour, over all of its dimensions. An hour without events counts nothing."""

    states: pa.Table
    """hour and the state columns of ``added_up``, one row for each hour with events that the metric counts."""
    of_metric: Mapping[datetime, int]
    """By hour (UTC), the number of events that the metric counts."""
    counted: Mapping[datetime, int]
    """The number of events that count, also if the metric's ``where`` leaves them out."""
    read: Mapping[datetime, int]
    """The number of archived events, also if they do not count."""
    sizes: Mapping[tuple[datetime, str], float]
    """By hour and measure of ``doubles``, the magnitude of what is added up. It bounds the error of adding in another
    order.
    """


def no_totals(aggregation: AggregationPlan) -> HourTotals:
    """The totals of no events."""
    return HourTotals(_states_schema(aggregation).empty_table(), {}, {}, {}, {})


def compute_tiles_and_totals(aggregation: AggregationPlan, events: DataFrame) -> tuple[pa.Table, HourTotals]:
    """The metric's tiles (of its schema, not sorted) and its totals by hour. ``events`` have COUNTS, as
    ``ArchivedEvents.mark_counted`` gives them.
    """
    metric = aggregation.metric
    counting = F.when(F.expr(metric.where or "true"), _parts(_TILE, _HOUR)).otherwise(_parts(_NOT_OF_METRIC))
    rows = events.withColumn(_PART, F.explode(F.when(F.col(COUNTS), counting).otherwise(_parts(_NOT_COUNTED))))
    is_tile = F.col(_PART) == _TILE
    keys = [
        F.col(HOUR).alias("hour"),
        F.col(_PART),
        *(F.when(is_tile, F.expr(expression)).alias(name) for name, expression in metric.dimensions.items()),
    ]
    twice = added_up(aggregation)
    # A sketch is not compared, and costs more than all other states.
    states = {name: sql if name in twice else _only(_TILE, sql) for name, sql in aggregation.states.items()}
    sizes = {f"{SCRATCH_PREFIX}size_{name}": _only(_HOUR, sql) for name, sql in doubles(aggregation).items()}
    aggregates = [F.expr(sql).alias(column) for column, sql in {**states, **sizes}.items()]
    table = rows.groupBy(*keys).agg(F.count("*").alias(_EVENTS), *aggregates).toArrow()
    tiles = table.filter(pc.equal(table[_PART], _TILE)).select(aggregation.schema.names).cast(aggregation.schema)
    return tiles, _totals(aggregation, table.filter(pc.not_equal(table[_PART], _TILE)))


def added_up(aggregation: AggregationPlan) -> list[str]:
    """The state columns of the measures whose value over an hour can be computed in two ways."""
    measures = without_sketches(aggregation.metric).measures
    return [column for name, measure in measures.items() for column in aggregate_of(measure).columns(name)]


def doubles(aggregation: AggregationPlan) -> dict[str, str]:
    """The measures whose last digits depend on the order of addition, each with its magnitude (Spark SQL)."""
    return {
        name: magnitude
        for name, measure in aggregation.metric.measures.items()
        if (magnitude := (aggregate := aggregate_of(measure)).magnitude)
        and any(pa.types.is_floating(aggregation.schema.field(column).type) for column in aggregate.columns(name))
    }


def without_sketches(metric: Metric) -> Metric:
    """The metric with only those measures whose value over an hour can be computed in two ways."""
    exact = {name: measure for name, measure in metric.measures.items() if aggregate_of(measure).is_exact}
    return metric.model_copy(update={"measures": exact, "dimensions": {}})


def _totals(aggregation: AggregationPlan, rows: pa.Table) -> HourTotals:
    """The totals from the rows of all parts but the tiles: at most three for each hour."""
    of_hour = rows.filter(pc.equal(rows[_PART], _HOUR))
    states = of_hour.select(_states_schema(aggregation).names).cast(_states_schema(aggregation))
    sizes = of_hour.select(["hour", *(f"{SCRATCH_PREFIX}size_{name}" for name in doubles(aggregation))]).to_pylist()
    return HourTotals(
        states,
        _events(rows, _HOUR),
        _events(rows, _HOUR, _NOT_OF_METRIC),
        _events(rows, _HOUR, _NOT_OF_METRIC, _NOT_COUNTED),
        {
            (row["hour"], name): size
            for row in sizes
            for name in doubles(aggregation)
            if (size := row[f"{SCRATCH_PREFIX}size_{name}"]) is not None
        },
    )


def _events(rows: pa.Table, *parts: int) -> dict[datetime, int]:
    """By hour, the number of events of these parts."""
    events: dict[datetime, int] = {}
    columns: list[list[Any]] = [rows[name].to_pylist() for name in ("hour", _PART, _EVENTS)]
    for hour, part, count in zip(*columns, strict=True):
        events[hour] = events.get(hour, 0) + (count if part in parts else 0)
    return events


def _states_schema(aggregation: AggregationPlan) -> pa.Schema:
    return pa.schema([aggregation.schema.field(name) for name in ("hour", *added_up(aggregation))])


def _parts(*parts: int) -> Any:
    return F.array(*map(F.lit, parts))


def _only(part: int, aggregate: str) -> str:
    return f"{aggregate} FILTER (WHERE {_PART} = {part})"
