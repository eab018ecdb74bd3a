"""Finds the events that a class of a metric fails for. They are in quarantine: the metric does not count them.

Whether an event is in quarantine depends on the event alone, so both layers find the same ones.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline_core.aggregates.user_classes.code import function_of
from hourline_core.aggregates.user_classes.measure_class import ADDRESS
from hourline_core.aggregates.user_defined import user_defined_of
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.model.expressions import attempt
from hourline_core.model.scratch_columns import FAILURE, SCRATCH_PREFIX

_TYPE = "struct<measure: string, file: string, message: string>"


def mark_no_failures(events: DataFrame) -> DataFrame:
    """The events with FAILURE, as if no class failed."""
    return events.withColumn(FAILURE, F.lit(None).cast(_TYPE))


def mark_failures(aggregation: AggregationPlan, events: DataFrame, counts: str = "true") -> DataFrame:
    """The events with FAILURE: the first of the metric's measures whose class fails for the event alone. ``counts``
    (Spark SQL) says which events count; the metric's ``where`` leaves out some of them.
    """
    metric = aggregation.metric
    condition = f"{counts} AND {attempt(metric.where)}" if metric.where else counts
    messages: dict[str, Column] = {}
    for number, (name, one) in enumerate(user_defined_of(metric).items()):
        column, measure = f"{SCRATCH_PREFIX}failure_{number}", one.loaded.measure
        arguments = [f"CASE WHEN {condition} THEN {value} END" for value in aggregation.values[name][: -len(ADDRESS)]]
        message = f"{function_of('blame', measure)}({', '.join(arguments)})"
        events = events.withColumn(column, F.expr(message))
        known = F.struct(
            F.lit(name).alias("measure"), F.lit(measure.file).alias("file"), F.col(column).alias("message")
        )
        messages[column] = F.when(F.col(column).isNotNull(), known).cast(_TYPE)
    return events.withColumn(FAILURE, F.coalesce(*messages.values())).drop(*messages)
