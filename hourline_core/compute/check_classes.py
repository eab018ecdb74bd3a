"""Tries the classes of user-defined measures on generated events of their arguments' types."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)
from pyspark.sql.pandas.types import to_arrow_schema

from hourline_core.aggregates.user_class import ADDRESS, UserClass, load_class
from hourline_core.aggregates.user_trial import find_unmergeable, measure_seconds
from hourline_core.compute.aggregation import AggregationPlan, empty_events, plan_aggregation, with_derived
from hourline_core.model import Project

_SLOW = 50e-6
"""Seconds for an event. A measure of Hourline's own takes less than one millionth."""


def find_mistakes_of_classes(spark: SparkSession, plan: AggregationPlan) -> Iterator[tuple[str, str]]:
    """The user-defined measures of a metric that cannot be merged, or that fail: each by name, with what is wrong."""
    for name, (loaded, arguments) in _used_classes(spark, plan).items():
        if mistake := find_unmergeable(loaded, arguments):
            yield name, mistake


def find_slow_classes(spark: SparkSession, project: Project) -> Iterator[str]:
    """A line for each user-defined measure that takes long. The project has no mistakes."""
    for metric in project.metrics.values():
        plan = plan_aggregation(spark, project.source_of(metric), metric)
        for name, (loaded, arguments) in _used_classes(spark, plan).items():
            seconds = measure_seconds(loaded, arguments)
            if seconds > _SLOW:
                most = project.settings.speed.max_records_per_batch
                place = project.where_declared("metric", metric.name, ("measures", name))
                yield (
                    f"{place}: measures.{name}: {loaded.measure.file} takes {seconds * 1e6:,.0f} µs an event: a "
                    f"micro-batch of {most:,} records takes {seconds * most:,.1f} s longer"
                )


def _used_classes(spark: SparkSession, plan: AggregationPlan) -> dict[str, tuple[UserClass, list[pa.DataType]]]:
    """By measure, its class and the types of its arguments."""
    own = {name: measure.user_measure for name, measure in plan.metric.measures.items()}
    events = with_derived(empty_events(spark, plan.source), plan.source) if any(own.values()) else None
    used: dict[str, tuple[UserClass, list[pa.DataType]]] = {}
    for name, user_measure in own.items():
        if user_measure is not None and events is not None:
            arguments = events.select(*map(F.expr, plan.values[name][: -len(ADDRESS)]))
            used[name] = load_class(user_measure), list(to_arrow_schema(arguments.schema, timezone="UTC").types)
    return used
