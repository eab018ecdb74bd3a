"""A metric as an aggregation. The batch layer runs it as it is; the speed layer runs its parts, see `projection.py`."""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema

from hourline_core.aggregates import UnsuitableArgumentError, aggregate_of
from hourline_core.aggregates.user_classes.fold_class import load_fold
from hourline_core.aggregates.user_classes.measure_class import load_class
from hourline_core.compute.nullable import with_nullable_parts
from hourline_core.compute.panes import tile_keys
from hourline_core.compute.resolve import (
    UnresolvedError,
    empty_events,
    find_no_condition,
    find_ungrouped,
    shorten_error,
    types_of,
    with_derived,
)
from hourline_core.compute.user_measures import register_functions
from hourline_core.model import DeclaredMetric, Metric, Source, to_stored
from hourline_core.model.expressions import attempt
from hourline_core.model.scratch_columns import GROUP, HOUR, OFFSET, PARTITION, PLACE
from hourline_core.model.yaml_files import KeyPath
from hourline_core.storage.nullable_schema import nullable_schema

_OF_ANY_TYPE = ("min", "max", "first", "last", "user_defined", "fold")
"""The kinds of measures whose values have the type of the argument, or that of their class."""
_NO_NUMBERS = ("string", "boolean", "date", "timestamp", "timestamp_ntz")

_PLANS: MutableMapping[SparkSession, dict[str, "AggregationPlan"]] = WeakKeyDictionary()
"""What each session has resolved, by the text of all that an aggregation depends on. A start checks all metrics before
it plans them, and each job of a backfill plans them again.
"""


@dataclass(frozen=True)
class AggregationPlan(DeclaredMetric):
    """A metric resolved against its source: how its tiles are computed, and their columns."""

    states: dict[str, str]
    """The Spark SQL aggregate of each stored column."""
    schema: pa.Schema
    """hour, the metric's tile columns, the states."""
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By measure, the Spark SQL over one event that its states are made of. Empty: nothing is aggregated by this
    plan.
    """

    def tiles(self, events: DataFrame) -> DataFrame:
        """The partial states per hour, pane and dimensions of ``events``, with derived fields, of which all count."""
        return _tiles(events, self.metric, self.states, self.ranks)

    @property
    def ranks(self) -> dict[str, str]:
        """The columns that ``states`` need, each with what the events of a group are ordered by (Spark SQL)."""
        return _ranks(self.metric, self.values)


def plan_aggregation(spark: SparkSession, source: Source, metric: Metric) -> AggregationPlan:
    """The metric's aggregation. Spark resolves every expression against the source's fields, once in a session. Raises
    UnresolvedError.
    """
    plans, declared = _PLANS.setdefault(spark, {}), to_stored(source, metric)
    if declared not in plans:
        plans[declared] = _resolve_aggregation(spark, source, metric)
    return replace(plans[declared], source=source, metric=metric)


def _resolve_aggregation(spark: SparkSession, source: Source, metric: Metric) -> AggregationPlan:
    events = with_derived(empty_events(spark, source), source)
    types = types_of(events, named_expressions(metric))
    for mistake in find_unsuited(metric, types):
        raise mistake
    states: dict[str, str] = {}
    values: dict[str, list[str]] = {}
    for name, measure in metric.stored_measures.items():
        aggregate = aggregate_of(measure)
        if measure.user_measure and measure.kind == "user_defined":
            register_functions(spark, measure.user_measure)
        values[name] = aggregate.values(types.get(("measures", name), ""))
        states |= zip(aggregate.columns(name), aggregate.partials(values[name]), strict=True)
    try:
        schema = _tiles(events, metric, states, _ranks(metric, values)).schema
    except PySparkException as error:
        raise UnresolvedError((), shorten_error(error)) from error
    return AggregationPlan(source, metric, states, nullable_schema(to_arrow_schema(schema, timezone="UTC")), values)


def find_unsuited(metric: Metric, types: Mapping[KeyPath, str]) -> Iterator[UnresolvedError]:
    """A mistake for each expression of ``metric`` whose type does not suit its place. ``types`` are the Spark types of
    ``named_expressions``.
    """
    for name in metric.dimensions:
        if unsuited := find_ungrouped(types["dimensions", name]):
            yield UnresolvedError(
                ("dimensions", name), f"values of type {unsuited} cannot be grouped by; cast it to another type"
            )
    for name, measure in metric.stored_measures.items():
        path = ("measures", name)
        try:
            aggregate_of(measure).values(types.get(path, ""))
        except UnsuitableArgumentError as error:
            yield UnresolvedError(path, str(error))
        if measure.where:
            yield from find_no_condition(measure.where, types[*path, "where"], (*path, "where"))
    yield from _ratios_of_no_numbers(metric, types)
    if metric.where:
        yield from find_no_condition(metric.where, types["where",])


def named_expressions(metric: Metric) -> dict[KeyPath, str]:
    """The expressions of ``metric``, each by its place within the declaration."""
    dimensions: dict[KeyPath, str] = {("dimensions", name): text for name, text in metric.dimensions.items()}
    measures: dict[KeyPath, str | None] = {}
    for name, measure in metric.stored_measures.items():
        argument = None if measure.operands else measure.argument
        if measure.user_measure:
            argument = f"struct({argument})"  # It may be several.
        measures |= {("measures", name): argument, ("measures", name, "where"): measure.where}
    declared = {**dimensions, **measures, ("where",): metric.where}
    return {path: text for path, text in declared.items() if text}


def _ratios_of_no_numbers(metric: Metric, types: Mapping[KeyPath, str]) -> Iterator[UnresolvedError]:
    for ratio, measure in metric.measures.items():
        for name in measure.operands:
            operand, spark_type = metric.measures[name], types.get(("measures", name), "")
            if operand.user_measure:
                load = load_fold if operand.kind == "fold" else load_class
                spark_type = from_arrow_type(load(operand.user_measure).value_type).simpleString()
            if operand.kind in _OF_ANY_TYPE and spark_type in _NO_NUMBERS:
                yield UnresolvedError(
                    ("measures", ratio), f"'{name}' is {operand} of type {spark_type}; {measure} needs two numbers"
                )


def with_ranks(events: DataFrame, ranks: Mapping[str, str]) -> DataFrame:
    """The events, which have GROUP, with the columns ``ranks``. Those of no group are spread, so that no task sorts
    all of them. Their ranks are not used.

    An aggregate that keeps the first events of a group would hold all of them. Spark sorts on disk if it has to.
    """
    alone = f"CASE WHEN {GROUP} IS NULL THEN struct({PARTITION}, {OFFSET}, {PLACE}) END"
    for name, order in ranks.items():
        rank = F.expr(f"row_number() OVER (PARTITION BY {GROUP}, {alone} ORDER BY {order})")
        events = events.withColumn(name, rank)
    return events


def _ranks(metric: Metric, values: Mapping[str, Sequence[str]]) -> dict[str, str]:
    stored = metric.stored_measures.items() if values else ()
    return {name: order for of, measure in stored for name, order in aggregate_of(measure).ranks(values[of]).items()}


def _tiles(events: DataFrame, metric: Metric, states: dict[str, str], ranks: Mapping[str, str]) -> DataFrame:
    if metric.where:
        events = events.where(attempt(metric.where))
    keys = [
        F.col(HOUR).alias("hour"),
        *(F.expr(expression).alias(name) for name, expression in tile_keys(metric).items()),
    ]
    events = with_ranks(events.withColumn(GROUP, F.struct(*keys)), ranks)
    tiles = events.groupBy(*keys).agg(*(F.expr(sql).alias(column) for column, sql in states.items()))
    return with_nullable_parts(tiles, tile_keys(metric))
