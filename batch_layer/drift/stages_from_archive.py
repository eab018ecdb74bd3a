"""Computes hours again from the archived events, by the declaration that was served: what should have been served."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from batch_layer.job import Job
from batch_layer.read_archive import ArchivedEvents, keep_counted
from hourline_core.aggregates import aggregate_of
from hourline_core.aggregates.user_defined import find_failed
from hourline_core.compute.aggregation import AggregationPlan, plan_aggregation
from hourline_core.compute.quarantine import mark_failures
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.model.expressions import attempt
from hourline_core.model.scratch_columns import FAILURE, HOUR, SCRATCH_PREFIX


@dataclass(frozen=True)
class Replayed:
    """Some hours computed again."""

    counted: pa.Table
    """The tiles of the events that had counted."""
    first: pa.Table
    """The tiles of the first event of each id."""
    magnitudes: dict[tuple[datetime, str], float]
    """By hour and measure, the magnitude of the added numbers. It bounds the error of sums of doubles, which depends
    on the order of addition.
    """


Replay = Callable[[list[datetime]], Replayed]


def replay(job: Job, served: MetricTables, cutoff: int, hours: list[datetime]) -> Replayed:
    """Compute ``hours`` (UTC) of ``served`` again, up to the sequence ``cutoff``. Starts Spark unless it runs."""
    aggregation = plan_aggregation(job.spark(), served.source, served.metric)
    covered = job.snapshot.coverage.of(served.metric.name, served.declaration).covered(hours)
    events = ArchivedEvents(job, served.source, hours, cutoff, served=covered)
    cutoffs = {hour: one.cutoff for hour, one in covered.items()}
    first = keep_counted(events.mark_counted())
    return Replayed(
        _compute_tiles(aggregation, events.keep_counted_before(cutoffs)),
        _compute_tiles(aggregation, first),
        _add_magnitudes(aggregation, first),
    )


def _compute_tiles(aggregation: AggregationPlan, events: DataFrame) -> pa.Table:
    def compute(some: DataFrame) -> pa.Table:
        return aggregation.tiles(some).toArrow().cast(aggregation.schema)

    tiles = compute(events)
    if find_failed(aggregation.metric, tiles):
        tiles = compute(mark_failures(aggregation, events).where(F.col(FAILURE).isNull()))
    return tiles


def _add_magnitudes(aggregation: AggregationPlan, events: DataFrame) -> dict[tuple[datetime, str], float]:
    """By hour and measure, the magnitude of what is added up, for measures that add up more than counts."""
    metric = aggregation.metric
    adding = {name: one for name, of in metric.measures.items() if (one := aggregate_of(of)).adds_numbers}
    if not adding:
        return {}
    wanted = {f"{SCRATCH_PREFIX}{name}": one.absolute for name, one in adding.items()}
    wanted |= {column: aggregation.states[column] for name, one in adding.items() for column in one.columns(name)}
    counting = events.where(attempt(metric.where)) if metric.where else events
    rows = counting.groupBy(HOUR).agg(*(F.expr(sql).alias(column) for column, sql in wanted.items())).toArrow()
    return {
        (row[HOUR], name): one.magnitude([row[column] for column in one.columns(name)], absolute)
        for row in rows.to_pylist()
        for name, one in adding.items()
        if (absolute := row[f"{SCRATCH_PREFIX}{name}"]) is not None
    }
