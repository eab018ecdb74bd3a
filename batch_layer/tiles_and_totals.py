"""Counts the events of a metric twice in one Spark job: by hour and dimensions, as its tiles, and by hour alone, as
its totals.

The scan and the sort are shared. Behind them, each event has a copy for the totals. An event that the metric counts
has a second copy, for a tile. The totals do not go by these copies: they decide by a condition of their own which
events the metric counts. So a tile that is lost, doubled or wrong shows as a difference, and so does an event that is
in the tiles by mistake.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline_core.aggregates import aggregate_of
from hourline_core.compute.aggregation import AggregationPlan, with_ranks
from hourline_core.compute.nullable import with_nullable_parts
from hourline_core.compute.panes import tile_keys
from hourline_core.model import Metric
from hourline_core.model.scratch_columns import COUNTS, GROUP, HOUR, SCRATCH_PREFIX

_PART = f"{SCRATCH_PREFIX}part"
"""int: the part of the result that a copy of an event belongs to, one of the next two."""
_TILE, _HOUR = range(2)
_OF_METRIC = f"{SCRATCH_PREFIX}of_metric"
"""boolean: whether the metric counts the event of a copy. It is true of each copy for a tile."""
_READ, _COUNTED, _COUNTED_BY_METRIC = (f"{SCRATCH_PREFIX}{name}" for name in ("read", "counted", "counted_by_metric"))
"""bigint: the numbers of events of a group: all, those that count, and those that the metric counts."""


@dataclass(frozen=True)
class HourTotals:
    """What one metric counts in each hour, over all of its dimensions. An hour without events counts nothing."""

    rows: pa.Table
    """hour and the state columns of ``columns_in_both``, one row for each hour with events that the metric counts."""
    of_metric: Mapping[datetime, int]
    """By hour (UTC), the number of events that the metric counts."""
    counted: Mapping[datetime, int]
    """The number of events that count, also if the metric's ``where`` leaves them out."""
    read: Mapping[datetime, int]
    """The number of archived events, also if they do not count."""
    without: Mapping[str, Mapping[datetime, int]]
    """By required field of the source, the number of archived events in which Spark has read null."""
    sizes: Mapping[tuple[datetime, str], float]
    """By hour and measure of ``doubles``, the magnitude of what is added up. It bounds the error of adding in another
    order.
    """


def no_totals(aggregation: AggregationPlan) -> HourTotals:
    """The totals of no events."""
    without: dict[str, dict[datetime, int]] = {name: {} for name in aggregation.source.required_fields}
    return HourTotals(_rows_schema(aggregation).empty_table(), {}, {}, {}, without, {})


def compute_tiles_and_totals(aggregation: AggregationPlan, events: DataFrame) -> tuple[pa.Table, HourTotals]:
    """The metric's tiles (of its schema, not sorted) and its totals by hour. ``events`` have COUNTS, as
    ``ArchivedEvents.mark_counted`` gives them.
    """
    metric = aggregation.metric
    is_tile = F.col(_PART) == _TILE
    rows = events.withColumn(_PART, F.explode(F.when(_in_tiles(metric), _parts(_TILE, _HOUR)).otherwise(_parts(_HOUR))))
    rows = rows.withColumn(_OF_METRIC, is_tile | F.expr(_in_totals(metric)))
    keys = [
        F.col(HOUR).alias("hour"),
        F.col(_PART),
        *(F.when(is_tile, F.expr(expression)).alias(name) for name, expression in tile_keys(metric).items()),
    ]
    rows = with_ranks(rows.withColumn(GROUP, F.when(is_tile, F.struct(*keys))), aggregation.ranks)
    twice, by_group = columns_in_both(aggregation), _columns_by_group(aggregation.metric)
    # A sketch is not compared, and costs more than all other states.
    states = {
        name: sql if name in by_group else _only(_OF_METRIC if name in twice else f"{_PART} = {_TILE}", sql)
        for name, sql in aggregation.states.items()
    }
    sizes = {_size(name): sql for name, sql in doubles(aggregation, f"{_PART} = {_HOUR} AND {_OF_METRIC}").items()}
    there = {column.casefold() for column in events.columns}
    counts = {
        _READ: "count(*)",
        _COUNTED: f"count_if({COUNTS})",
        _COUNTED_BY_METRIC: f"count_if({_OF_METRIC})",
        # A field that was declared after the last micro-batch is no column yet.
        **{
            _without(name): f"count_if(`{name}` IS NULL)" if name.casefold() in there else "count(*)"
            for name in aggregation.source.required_fields
        },
    }
    aggregates = [F.expr(sql).alias(column) for column, sql in {**states, **sizes, **counts}.items()]
    table = with_nullable_parts(rows.groupBy(*keys).agg(*aggregates), tile_keys(metric)).toArrow()
    tiles = table.filter(pc.equal(table[_PART], _TILE)).select(aggregation.schema.names).cast(aggregation.schema)
    return tiles, _totals(aggregation, table.filter(pc.equal(table[_PART], _HOUR)))


def _in_tiles(metric: Metric) -> Column:
    """Whether an event has a copy for a tile. Apart from ``_in_totals``, so that the audit finds a fault in either."""
    return F.col(COUNTS) & F.expr(metric.where or "true")


def _in_totals(metric: Metric) -> str:
    """Whether the totals count an event (Spark SQL)."""
    return f"{COUNTS} AND ({metric.where})" if metric.where else COUNTS


def columns_in_both(aggregation: AggregationPlan) -> list[str]:
    """The state columns of the measures whose value over an hour can be computed in two ways."""
    measures = without_sketches(aggregation.metric).measures
    return [column for name, measure in measures.items() for column in aggregate_of(measure).columns(name)]


def _columns_by_group(metric: Metric) -> set[str]:
    """The state columns that Spark folds by GROUP."""
    aggregates = {name: aggregate_of(measure) for name, measure in metric.measures.items()}
    return {column for name, one in aggregates.items() if one.folds_by_group for column in one.columns(name)}


def doubles(aggregation: AggregationPlan, condition: str = "true") -> dict[str, str]:
    """The measures whose last digits depend on the order of addition, each with its magnitude (Spark SQL) over the
    events that fulfil ``condition``.
    """
    return {
        name: magnitude
        for name, measure in aggregation.metric.measures.items()
        if (magnitude := (aggregate := aggregate_of(measure)).magnitude(condition))
        and any(pa.types.is_floating(aggregation.schema.field(column).type) for column in aggregate.columns(name))
    }


def without_sketches(metric: Metric) -> Metric:
    """The metric with only those measures whose value over an hour can be computed in two ways."""
    exact = {name: measure for name, measure in metric.stored_measures.items() if aggregate_of(measure).is_exact}
    return metric.model_copy(update={"measures": exact, "dimensions": {}})


def _totals(aggregation: AggregationPlan, of_hour: pa.Table) -> HourTotals:
    """The totals from one row for each hour that has events."""
    schema = _rows_schema(aggregation)
    counted_by_metric = of_hour.filter(pc.greater(of_hour[_COUNTED_BY_METRIC], 0))
    return HourTotals(
        counted_by_metric.select(schema.names).cast(schema),
        _by_hour(of_hour, _COUNTED_BY_METRIC),
        _by_hour(of_hour, _COUNTED),
        _by_hour(of_hour, _READ),
        {name: _by_hour(of_hour, _without(name)) for name in aggregation.source.required_fields},
        {
            (hour, name): size
            for name in doubles(aggregation)
            for hour, size in _by_hour(of_hour, _size(name)).items()
            if size is not None
        },
    )


def _by_hour(of_hour: pa.Table, column: str) -> dict[datetime, Any]:
    return dict(zip(of_hour["hour"].to_pylist(), of_hour[column].to_pylist(), strict=True))


def _rows_schema(aggregation: AggregationPlan) -> pa.Schema:
    return pa.schema([aggregation.schema.field(name) for name in ("hour", *columns_in_both(aggregation))])


def _parts(*parts: int) -> Column:
    return F.array(*map(F.lit, parts))


def _only(condition: str, aggregate: str) -> str:
    return f"{aggregate} FILTER (WHERE {condition})"


def _size(measure: str) -> str:
    return f"{SCRATCH_PREFIX}size_{measure}"


def _without(field: str) -> str:
    return f"{SCRATCH_PREFIX}without_{field}"
