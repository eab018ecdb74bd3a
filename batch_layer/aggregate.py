"""Aggregate the events of a job into the tiles of each metric."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from batch_layer.hour_totals import HourTotals, no_totals
from batch_layer.job import Job
from batch_layer.read_archive import SourceEvents
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.ledger.layout import Layout
from hourline_core.model import Metric, Source
from hourline_core.storage.opening import open_table


@dataclass(frozen=True)
class MetricTiles:
    """The recomputed tiles of one metric."""

    aggregation: AggregationPlan
    hours: list[datetime]
    """All hours that were recomputed (UTC), with or without rows."""
    cutoff: int
    """The sequence up to which events were counted."""
    rows: pa.Table
    """Tiles of ``aggregation.schema``, sorted as they lie in final."""

    def rows_of(self, hours: list[datetime]) -> pa.Table:
        """The rows of ``hours`` (UTC)."""
        return _keep_hours(self.rows, hours)


@dataclass(frozen=True)
class SourceTiles:
    """The tiles of all metrics of one source that a job recomputes."""

    events: SourceEvents
    metrics: list[MetricTiles]
    totals: Mapping[str, HourTotals]
    """By metric, what it counts in each hour over all dimensions."""


def aggregate(events: SourceEvents) -> SourceTiles:
    """Compute the tiles of each metric of the job over ``events``. Without events there are none."""
    job, source = events.job, events.source
    metrics, totals = [], {}
    folded = events.fold.run() if events.fold else {}
    for metric in job.metrics_of(source):
        hours = job.hours_of_metric(metric)
        if events.fold:
            aggregation = events.fold.plan.metrics[metric.name].tiles.aggregation
            rows, totals[metric.name] = folded.pop(metric.name)
            rows = _keep_hours(rows, hours)
        else:
            aggregation = _read_aggregation(job, source, metric)
            rows, totals[metric.name] = aggregation.schema.empty_table(), no_totals(aggregation)
        metrics.append(MetricTiles(aggregation, hours, events.cutoff, sort_tiles(aggregation, rows)))
    return SourceTiles(events, metrics, totals)


def _read_aggregation(job: Job, source: Source, metric: Metric) -> AggregationPlan:
    """The metric's aggregation with the columns of its provisional table, which Spark has resolved once, and without
    the expressions of its states.
    """
    declared = next(tables for tables in job.snapshot.recomputed if tables.metric.name == metric.name)
    layout = Layout.of(job.project)
    table = open_table(layout.provisional(source, metric), layout.storage_options, declared.provisional)
    schema = table.to_pyarrow_dataset().schema
    return AggregationPlan(source, metric, schema.remove(schema.get_field_index("sequence")))


def sort_tiles(aggregation: AggregationPlan, tiles: pa.Table) -> pa.Table:
    """The tiles, sorted as they lie in final."""
    sortable = [
        name for name in aggregation.metric.tile_columns if not pa.types.is_nested(aggregation.schema.field(name).type)
    ]
    return tiles.sort_by([(name, "ascending") for name in ["hour", *sortable]])


def _keep_hours(tiles: pa.Table, hours: list[datetime]) -> pa.Table:
    kept = pc.is_in(tiles["hour"], pa.array(hours, tiles.schema.field("hour").type))
    return tiles if pc.all(kept).as_py() else tiles.filter(kept)
