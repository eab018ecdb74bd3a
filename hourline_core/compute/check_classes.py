"""Tries the classes of user-defined measures on generated events of their arguments' types."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)
from pyspark.sql.pandas.types import to_arrow_schema

from hourline_core.aggregates.user_classes.fold_class import load_fold
from hourline_core.aggregates.user_classes.fold_trial import find_broken_fold, measure_step_seconds
from hourline_core.aggregates.user_classes.measure_class import load_class
from hourline_core.aggregates.user_classes.measure_trial import find_unmergeable, measure_seconds
from hourline_core.compute.aggregation import AggregationPlan, plan_aggregation
from hourline_core.compute.resolve import empty_looked_up, with_derived
from hourline_core.model import Project, UserMeasure

_SLOW = 50e-6
"""Seconds for an event. A measure of Hourline's own takes less than one millionth."""


def find_mistakes_of_classes(spark: SparkSession, plan: AggregationPlan) -> Iterator[tuple[str, str]]:
    """The user-defined measures of a metric that cannot be merged, or that fail: each by name, with what is wrong."""
    for name, (own, arguments) in _used_classes(spark, plan).items():
        if own.kind == "fold":
            mistake = find_broken_fold(load_fold(own), arguments)
        else:
            mistake = find_unmergeable(load_class(own), arguments)
        if mistake:
            yield name, mistake


def find_slow_classes(spark: SparkSession, project: Project) -> Iterator[str]:
    """A line for each user-defined measure that takes long. The project has no mistakes."""
    for metric in project.metrics.values():
        plan = plan_aggregation(spark, project.source_of(metric), metric)
        for name, (own, arguments) in _used_classes(spark, plan).items():
            if own.kind == "fold":
                seconds = measure_step_seconds(load_fold(own), arguments)
            else:
                seconds = measure_seconds(load_class(own), arguments)
            if seconds > _SLOW:
                most = project.settings.speed.max_records_per_batch
                place = project.where_declared("metric", metric.name, ("measures", name))
                yield (
                    f"{place}: measures.{name}: {own.file} takes {seconds * 1e6:,.0f} µs an event: a "
                    f"micro-batch of {most:,} records takes {seconds * most:,.1f} s longer"
                )


def _used_classes(spark: SparkSession, plan: AggregationPlan) -> dict[str, tuple[UserMeasure, list[pa.DataType]]]:
    """By measure, its class and the types of its arguments."""
    used: dict[str, tuple[UserMeasure, list[pa.DataType]]] = {}
    with_classes = {name: measure for name, measure in plan.metric.measures.items() if measure.user_measure}
    events = with_derived(empty_looked_up(spark, plan.source), plan.source) if with_classes else None
    for name, measure in with_classes.items():
        assert measure.user_measure and events is not None
        arguments = events.select(*map(F.expr, plan.values[name][: len(measure.arguments)]))
        used[name] = measure.user_measure, list(to_arrow_schema(arguments.schema, timezone="UTC").types)
    return used
