"""A metric as a Spark aggregation. Both layers run it: over a micro-batch, and over hours of archived events."""

from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)
from pyspark.sql.pandas.types import to_arrow_schema

from hourline_core.aggregates import UnsuitableArgumentError, aggregate_of
from hourline_core.model import DeclaredMetric, Metric, Source
from hourline_core.model.scratch_columns import EVENT_TIME, HOUR, visible_name


class UnresolvedError(Exception):
    """An expression of a declaration that Spark cannot resolve. ``path`` is its place within the declaration."""

    def __init__(self, path: tuple[str, ...], message: str) -> None:
        super().__init__(message)
        self.path = path


@dataclass(frozen=True)
class AggregationPlan(DeclaredMetric):
    """A metric resolved against its source: how its tiles are computed, and their columns."""

    states: dict[str, str]
    """The Spark SQL aggregate of each stored column."""
    schema: pa.Schema
    """hour, the dimensions, the states."""

    def tiles(self, events: DataFrame) -> DataFrame:
        """The partial states per hour and dimensions. ``events`` are as ``counted`` gives them."""
        return _tiles(events, self.metric, self.states)


def empty_events(spark: SparkSession, source: Source) -> DataFrame:
    """No events, with the fields, EVENT_TIME and HOUR."""
    fields = ", ".join(f"`{name}` {field.spark_type}" for name, field in source.fields.items())
    try:
        return spark.createDataFrame([], f"{fields}, {EVENT_TIME} timestamp, {HOUR} timestamp")
    except PySparkException as error:
        raise UnresolvedError(("fields",), explain(error)) from error


def event_time_type(spark: SparkSession, source: Source) -> str:
    """The Spark type of the event time's expression. Raises UnresolvedError if it cannot be resolved, or does not
    fit its encoding.
    """
    time = source.event_time
    events = empty_events(spark, source).select(*source.fields)
    path = ("event_time",)
    found = type_of(events, time.expression, path)
    suits = {
        "iso": found in ("string", "timestamp"),
        "local": found in ("string", "timestamp_ntz"),
        "epoch_seconds": found in ("string", "int", "bigint", "float", "double") or found.startswith("decimal"),
        "epoch_milliseconds": found in ("string", "int", "bigint", "float", "double") or found.startswith("decimal"),
    }[time.encoding]
    if not suits:
        raise UnresolvedError(
            path, f"'{time.expression}' is of type {found}, which encoding '{time.encoding}' does not read"
        )
    return found


def with_derived(events: DataFrame, source: Source) -> DataFrame:
    """The events with the other names that declared expressions may use: the source's derived fields, and
    ``event_time`` and ``hour`` unless fields have these names.
    """
    for column in (EVENT_TIME, HOUR):
        events = events.withColumn(visible_name(column, source.field_names), F.col(column))
    for name, expression in source.derived.items():
        try:
            events = events.withColumn(name, F.expr(expression))
        except PySparkException as error:
            raise UnresolvedError(("derived", name), explain(error)) from error
    return events


def apply_where(events: DataFrame, source: Source) -> DataFrame:
    """The events that fulfil the source's ``where``. ``events`` are as ``with_derived`` gives them."""
    return events.where(source.where) if source.where else events


def plan_aggregation(spark: SparkSession, source: Source, metric: Metric) -> AggregationPlan:
    """The metric's aggregation. Spark resolves every expression against the source's fields. Raises UnresolvedError."""
    events = with_derived(empty_events(spark, source), source)
    types = {name: type_of(events, expression, ("dimensions", name)) for name, expression in metric.dimensions.items()}
    for name, found in types.items():
        if found.startswith("map") or found in ("void", "variant"):
            raise UnresolvedError(("dimensions", name), f"values of type {found} cannot be grouped by")
    states: dict[str, str] = {}
    for name, measure in metric.measures.items():
        path = ("measures", name)
        argument = type_of(events, measure.argument, path) if measure.argument else ""
        aggregate = aggregate_of(measure)
        try:
            states |= zip(aggregate.columns(name), aggregate.partials(argument), strict=True)
        except UnsuitableArgumentError as error:
            raise UnresolvedError(path, str(error)) from error
    if metric.where:
        check_condition(events, metric.where)
    try:
        schema = _tiles(events, metric, states).schema
    except PySparkException as error:
        raise UnresolvedError((), explain(error)) from error
    return AggregationPlan(source, metric, states, make_nullable(to_arrow_schema(schema, timezone="UTC")))


def type_of(events: DataFrame, expression: str, path: tuple[str, ...]) -> str:
    """The Spark type of ``expression`` over ``events``. Raises UnresolvedError with ``path``."""
    try:
        return events.select(F.expr(expression)).schema[0].dataType.simpleString()
    except PySparkException as error:
        raise UnresolvedError(path, explain(error)) from error


def check_condition(events: DataFrame, condition: str) -> None:
    """Raise UnresolvedError unless ``condition`` is a boolean over ``events``."""
    found = type_of(events, condition, ("where",))
    if found != "boolean":
        raise UnresolvedError(("where",), f"'{condition}' is of type {found}; a condition is boolean")


def make_nullable(schema: pa.Schema) -> pa.Schema:
    """The schema with every column nullable. Writers differ in what they take for NOT NULL, and a later null would
    fail.
    """
    return pa.schema([column.with_nullable(True) for column in schema])


def explain(error: PySparkException) -> str:
    """Spark's message without its error class, SQL state and plan."""
    text = (error.getMessage() or str(error)).partition("SQLSTATE")[0].partition("\n")[0].strip()
    return text.partition("] ")[2] if text.startswith("[") else text


def _tiles(events: DataFrame, metric: Metric, states: dict[str, str]) -> DataFrame:
    if metric.where:
        events = events.where(metric.where)
    keys = [
        F.col(HOUR).alias("hour"),
        *(F.expr(expression).alias(name) for name, expression in metric.dimensions.items()),
    ]
    return events.groupBy(*keys).agg(*(F.expr(sql).alias(column) for column, sql in states.items()))
