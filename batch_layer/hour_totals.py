"""What a metric counts in each hour, over all of its dimensions: computed apart from its tiles, so that the audit finds
a tile that is lost, doubled or wrong.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from hourline_core.aggregates import aggregate_of
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.model import Metric


@dataclass(frozen=True)
class LookedUpCounts:
    """By hour (UTC), the numbers of archived events that met no row of a lookup."""

    null_keys: Mapping[datetime, int]
    """Those with a null in their key."""
    no_row: Mapping[datetime, int]
    """Those with a null in their key, and all others without a row."""


@dataclass(frozen=True)
class IdCounts:
    """By hour (UTC), what the fold keeps of events of a source with an id, counted apart from it."""

    first: Mapping[datetime, int]
    """The number of events that are kept: without an id, or the first of it in the hour."""
    ids: Mapping[datetime, int]
    """The number of their ids, and of those without one."""
    repeated: Mapping[datetime, int]
    """The number of events that are left out, since another one of their id is kept."""
    later: Mapping[datetime, int]
    """The number of those of them that came after it."""


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
    """By required field of the source, the number of archived events in which null was read."""
    sizes: Mapping[tuple[datetime, str], float]
    """By hour and measure of ``doubles``, the magnitude of what is added up. It bounds the error of adding in another
    order.
    """
    ids: IdCounts | None = None
    """None: the source has no id, or takes events back, or there are no events."""
    failures: Mapping[datetime, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """By hour, some of the events in quarantine: their addresses, and why a class fails for them."""
    looked_up: Mapping[str, LookedUpCounts] = field(default_factory=dict)
    """By what the source calls it, each lookup that a metric of the job names."""


def no_totals(aggregation: AggregationPlan) -> HourTotals:
    """The totals of no events."""
    without: dict[str, dict[datetime, int]] = {name: {} for name in aggregation.source.required_fields}
    return HourTotals(rows_schema(aggregation).empty_table(), {}, {}, {}, {}, without, {})


def columns_in_both(aggregation: AggregationPlan) -> list[str]:
    """The state columns of the measures whose value over an hour can be computed in two ways."""
    measures = without_sketches(aggregation.metric).measures
    return [column for name, measure in measures.items() for column in aggregate_of(measure).columns(name)]


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


def rows_schema(aggregation: AggregationPlan) -> pa.Schema:
    """The columns of ``HourTotals.rows``."""
    return pa.schema([aggregation.schema.field(name) for name in ("hour", *columns_in_both(aggregation))])
