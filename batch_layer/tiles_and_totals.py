"""Counts the events of a metric twice in one Spark job: by hour and dimensions, as its tiles, and by hour alone, as
its totals.

The scan and the sort are shared. Behind them, each event has a copy for the totals. An event that the metric counts
has a second copy, for a tile. The totals do not go by these copies: they decide by a condition of their own which
events the metric counts. So a tile that is lost, doubled or wrong shows as a difference, and so does an event that is
in the tiles by mistake.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline_core.aggregates import aggregate_of
from hourline_core.aggregates.user_defined import find_failed
from hourline_core.compute.aggregation import AggregationPlan, with_ranks
from hourline_core.compute.nullable import with_nullable_parts
from hourline_core.compute.panes import tile_keys
from hourline_core.compute.quarantine import mark_failures, mark_no_failures
from hourline_core.model import Metric
from hourline_core.model.expressions import attempt
from hourline_core.model.scratch_columns import (
    COUNTS,
    FAILURE,
    GROUP,
    HOUR,
    OFFSET,
    PARTITION,
    PLACE,
    SCRATCH_PREFIX,
    TOPIC,
)

_PART = f"{SCRATCH_PREFIX}part"
"""int: the part of the result that a copy of an event belongs to, one of the next two."""
_TILE, _HOUR = range(2)
_OF_METRIC = f"{SCRATCH_PREFIX}of_metric"
"""boolean: whether the metric counts the event of a copy. It is true of each copy for a tile."""
_READ, _COUNTED, _COUNTED_BY_METRIC, _QUARANTINED = (
    f"{SCRATCH_PREFIX}{name}" for name in ("read", "counted", "counted_by_metric", "quarantined")
)
"""bigint: the numbers of events of a group: all, those that count, those that the metric counts, and those that it
would count if no class failed for them.
"""
_SHOWN = 5
"""The maximum number of events in quarantine that are shown of an hour."""


@dataclass(frozen=True)
class HourTotals:
    """What one metric counts in each hour, over all of its dimensions. An hour without events counts nothing."""

    rows: pa.Table
    """hour and the state columns of ``columns_in_both``, one row for each hour with events that the metric counts."""
    of_metric: Mapping[datetime, int]
    """By hour (UTC), the number of events that the metric counts."""
    counted: Mapping[datetime, int]
    """The number of events that count, also if the metric's ``where`` leaves them out."""
    quarantined: Mapping[datetime, int]
    """The number of events in quarantine: the metric would count them, but one of its classes fails for them."""
    read: Mapping[datetime, int]
    """The number of archived events, also if they do not count."""
    without: Mapping[str, Mapping[datetime, int]]
    """By required field of the source, the number of archived events in which Spark has read null."""
    sizes: Mapping[tuple[datetime, str], float]
    """By hour and measure of ``doubles``, the magnitude of what is added up. It bounds the error of adding in another
    order.
    """
    failures: Mapping[datetime, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """By hour, some of the events in quarantine: their addresses, and why a class fails for them."""


def no_totals(aggregation: AggregationPlan) -> HourTotals:
    """The totals of no events."""
    without: dict[str, dict[datetime, int]] = {name: {} for name in aggregation.source.required_fields}
    return HourTotals(_rows_schema(aggregation).empty_table(), {}, {}, {}, {}, without, {})


def compute_tiles_and_totals(aggregation: AggregationPlan, events: DataFrame) -> tuple[pa.Table, HourTotals]:
    """The metric's tiles (of its schema, not sorted) and its totals by hour. ``events`` have COUNTS, as
    ``ArchivedEvents.mark_counted`` gives them.

    Only once a class has failed is each event tried alone, and are those that it fails for left out.
    """
    tiles, totals = _compute(aggregation, mark_no_failures(events))
    if not find_failed(aggregation.metric, tiles):
        return tiles, totals
    marked = mark_failures(aggregation, events, COUNTS)
    tiles, totals = _compute(aggregation, marked)
    return tiles, replace(totals, failures=_read_failures(marked))


def _compute(aggregation: AggregationPlan, events: DataFrame) -> tuple[pa.Table, HourTotals]:
    """The same for events with FAILURE."""
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
    in_totals = f"{_PART} = {_HOUR} AND {_OF_METRIC}"
    sizes = {
        _absolute(name): _only(in_totals, aggregate_of(metric.measures[name]).absolute) for name in doubles(aggregation)
    }
    there = {column.casefold() for column in events.columns}
    counts = {
        _QUARANTINED: f"count_if({_in_quarantine(metric)})",
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
    return F.col(COUNTS) & F.expr(attempt(metric.where or "true")) & F.col(FAILURE).isNull()


def _in_totals(metric: Metric) -> str:
    """Whether the totals count an event (Spark SQL)."""
    return f"{_would_count(metric)} AND {FAILURE} IS NULL"


def _in_quarantine(metric: Metric) -> str:
    """Whether an event is in quarantine (Spark SQL). It has no copy for a tile."""
    return f"{_would_count(metric)} AND {FAILURE} IS NOT NULL"


def _would_count(metric: Metric) -> str:
    return f"{COUNTS} AND {attempt(metric.where)}" if metric.where else COUNTS


def _read_failures(marked: DataFrame) -> dict[datetime, list[dict[str, Any]]]:
    """Some of the events in quarantine in each hour, in the order of their addresses."""
    address = {"topic": TOPIC, "partition": PARTITION, "offset": OFFSET, "place": PLACE}
    first = F.row_number().over(Window.partitionBy(HOUR).orderBy(*address.values()))
    columns = [F.col(of).alias(name) for name, of in {"hour": HOUR, **address}.items()]
    failing = marked.where(f"{FAILURE} IS NOT NULL").withColumn(_READ, first).where(F.col(_READ) <= _SHOWN)
    found: dict[datetime, list[dict[str, Any]]] = {}
    rows = failing.select(*columns, F.col(f"{FAILURE}.*")).toArrow()
    for row in rows.sort_by([(name, "ascending") for name in address]).to_pylist():
        found.setdefault(row.pop("hour"), []).append(row)
    return found


def columns_in_both(aggregation: AggregationPlan) -> list[str]:
    """The state columns of the measures whose value over an hour can be computed in two ways."""
    measures = without_sketches(aggregation.metric).measures
    return [column for name, measure in measures.items() for column in aggregate_of(measure).columns(name)]


def _columns_by_group(metric: Metric) -> set[str]:
    """The state columns that Spark folds by GROUP."""
    aggregates = {name: aggregate_of(measure) for name, measure in metric.measures.items()}
    return {column for name, one in aggregates.items() if one.folds_by_group for column in one.columns(name)}


def doubles(aggregation: AggregationPlan) -> list[str]:
    """The measures whose last digits depend on the order of addition."""
    return [
        name
        for name, measure in aggregation.metric.measures.items()
        if (aggregate := aggregate_of(measure)).adds_numbers
        and any(pa.types.is_floating(aggregation.schema.field(column).type) for column in aggregate.columns(name))
    ]


def magnitudes(
    aggregation: AggregationPlan, rows: pa.Table, absolute: Mapping[str, Mapping[datetime, float | None]]
) -> dict[tuple[datetime, str], float]:
    """By hour and measure of ``doubles``, the magnitude of what is added up, where there is something. ``rows`` have
    the states by hour, and ``absolute`` the sums of absolute values, by measure and hour.
    """
    sizes = {}
    for name in doubles(aggregation):
        aggregate = aggregate_of(aggregation.metric.measures[name])
        states = zip(*(rows[column].to_pylist() for column in aggregate.columns(name)), strict=True)
        for hour, of_hour in zip(rows["hour"].to_pylist(), states, strict=True):
            if (size := absolute[name][hour]) is not None:
                sizes[hour, name] = aggregate.magnitude(of_hour, size)
    return sizes


def without_sketches(metric: Metric) -> Metric:
    """The metric with only those measures whose value over an hour can be computed in two ways."""
    exact = {name: measure for name, measure in metric.stored_measures.items() if aggregate_of(measure).is_exact}
    return metric.model_copy(update={"measures": exact, "dimensions": {}})


def _totals(aggregation: AggregationPlan, of_hour: pa.Table) -> HourTotals:
    """The totals from one row for each hour that has events."""
    schema = _rows_schema(aggregation)
    counted_by_metric = of_hour.filter(pc.greater(of_hour[_COUNTED_BY_METRIC], 0))
    rows = counted_by_metric.select(schema.names).cast(schema)
    return HourTotals(
        rows,
        _by_hour(of_hour, _COUNTED_BY_METRIC),
        _by_hour(of_hour, _COUNTED),
        _by_hour(of_hour, _QUARANTINED),
        _by_hour(of_hour, _READ),
        {name: _by_hour(of_hour, _without(name)) for name in aggregation.source.required_fields},
        magnitudes(aggregation, rows, {name: _by_hour(of_hour, _absolute(name)) for name in doubles(aggregation)}),
    )


def _by_hour(of_hour: pa.Table, column: str) -> dict[datetime, Any]:
    return dict(zip(of_hour["hour"].to_pylist(), of_hour[column].to_pylist(), strict=True))


def _rows_schema(aggregation: AggregationPlan) -> pa.Schema:
    return pa.schema([aggregation.schema.field(name) for name in ("hour", *columns_in_both(aggregation))])


def _parts(*parts: int) -> Column:
    return F.array(*map(F.lit, parts))


def _only(condition: str, aggregate: str) -> str:
    return f"{aggregate} FILTER (WHERE {condition})"


def _absolute(measure: str) -> str:
    return f"{SCRATCH_PREFIX}absolute_{measure}"


def _without(field: str) -> str:
    return f"{SCRATCH_PREFIX}without_{field}"
