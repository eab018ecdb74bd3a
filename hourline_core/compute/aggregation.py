"""A metric as an aggregation: what it takes of an event, and the columns of its tiles. `projection.py` says how Spark
evaluates it, and `fold_tiles.py` folds it.
"""

import re
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.errors import PySparkException, PySparkTypeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    TimestampType,
)

from hourline_core.aggregates import UnsuitableArgumentError, aggregate_of
from hourline_core.aggregates.user_classes.fold_class import load_fold
from hourline_core.aggregates.user_classes.measure_class import load_class
from hourline_core.compute.native_expressions import translate
from hourline_core.compute.panes import tile_keys
from hourline_core.compute.resolve import (
    UnresolvedError,
    empty_looked_up,
    find_no_condition,
    find_ungrouped,
    shorten_error,
    types_of,
    with_derived,
)
from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.model import DeclaredMetric, Metric, Source, to_stored
from hourline_core.model.expressions import attempt
from hourline_core.model.metric import PANE
from hourline_core.model.scratch_columns import HOUR
from hourline_core.model.yaml_files import KeyPath
from hourline_core.storage.nullable_schema import nullable_schema

_OF_ANY_TYPE = ("min", "max", "first", "last", "user_defined", "fold")
"""The kinds of measures whose values have the type of the argument, or that of their class."""
_NO_NUMBERS = ("string", "boolean", "date", "timestamp", "timestamp_ntz")
_NATIVE_TYPES: Mapping[str, DataType] = {
    of.simpleString(): of
    for of in (
        *(ByteType(), ShortType(), IntegerType(), LongType(), DoubleType(), FloatType()),
        *(StringType(), BooleanType(), DateType(), TimestampType()),
    )
}
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")

_PLANS: MutableMapping[SparkSession, dict[str, "AggregationPlan"]] = WeakKeyDictionary()
"""What each session has resolved, by the text of all that an aggregation depends on. A start checks all metrics before
it plans them, and each job of a backfill plans them again.
"""


@dataclass(frozen=True)
class AggregationPlan(DeclaredMetric):
    """A metric resolved against its source: what its tiles are computed of, and their columns."""

    schema: pa.Schema
    """hour, the metric's tile columns, the states."""
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By measure, the Spark SQL over one event that its states are made of. Empty: nothing is aggregated by this
    plan.
    """


def plan_aggregation(spark: SparkSession, source: Source, metric: Metric) -> AggregationPlan:
    """The metric's aggregation. Spark resolves every expression against the source's fields, once in a session. Raises
    UnresolvedError.
    """
    plans, declared = _PLANS.setdefault(spark, {}), to_stored(source, metric)
    if declared not in plans:
        plans[declared] = _resolve_aggregation(spark, source, metric)
    return replace(plans[declared], source=source, metric=metric)


def plan_native_aggregation(source: Source, metric: Metric) -> AggregationPlan | None:
    """As ``plan_aggregation`` gives it, without Spark. None: Spark has to resolve it, since DuckDB does not evaluate
    some expression alike, or it has a mistake.
    """
    types: dict[KeyPath, DataType] = {}
    for path, text in named_expressions(metric).items():
        native = translate(source, text)
        if native is None or (of := _native_type(native.type)) is None:
            return None
        types[path] = of
    return None if any(find_unsuited(metric, types)) else _plan(source, metric, types)


def _resolve_aggregation(spark: SparkSession, source: Source, metric: Metric) -> AggregationPlan:
    events = with_derived(empty_looked_up(spark, source), source)
    types = types_of(events, named_expressions(metric))
    for mistake in find_unsuited(metric, types):
        raise mistake
    plan = _plan(source, metric, types)
    _check_evaluated(events, plan)
    return plan


def _plan(source: Source, metric: Metric, types: Mapping[KeyPath, DataType]) -> AggregationPlan:
    """``types`` are those of ``named_expressions``."""
    states: dict[str, pa.DataType] = {}
    values: dict[str, list[str]] = {}
    for name, measure in metric.stored_measures.items():
        aggregate, argument = aggregate_of(measure), types.get(("measures", name))
        values[name] = aggregate.values(argument.simpleString() if argument else "")
        states |= zip(aggregate.columns(name), aggregate.state_types(_arrow_type(argument or NullType())), strict=True)
    keys = {"hour": TIMESTAMP, **({PANE: TIMESTAMP} if metric.pane else {})}
    keys |= {name: _arrow_type(types["dimensions", name]) for name in metric.dimensions}
    return AggregationPlan(source, metric, nullable_schema(pa.schema({**keys, **states})), values)


def _native_type(name: str) -> DataType | None:
    """Spark's type of that name. None: it is nested, or binary."""
    if decimal := _DECIMAL.fullmatch(name):
        return DecimalType(int(decimal[1]), int(decimal[2]))
    return _NATIVE_TYPES.get(name)


def _check_evaluated(events: DataFrame, plan: AggregationPlan) -> None:
    """Raise UnresolvedError unless Spark can evaluate what is made of the declared expressions: a comment in one of
    them may hide what follows.
    """
    metric = plan.metric
    condition = [attempt(metric.where)] if metric.where else []
    evaluated = [*tile_keys(metric).values(), *condition, *chain(*plan.values.values())]
    try:
        events.select(F.col(HOUR), *map(F.expr, evaluated))  # beside a plain column, no aggregate may be
    except PySparkException as error:
        raise UnresolvedError((), shorten_error(error)) from error


def _arrow_type(of: DataType) -> pa.DataType:
    """The type in a table. Null for one that no table has, which is the type of no state."""
    try:
        return to_arrow_type(of, timezone="UTC")
    except (PySparkTypeError, ValueError):  # an interval; an array of nothing but null
        return pa.null()


def find_unsuited(metric: Metric, of: Mapping[KeyPath, DataType]) -> Iterator[UnresolvedError]:
    """A mistake for each expression of ``metric`` whose type does not suit its place. ``of`` are the types of
    ``named_expressions``.
    """
    types = {path: spark_type.simpleString() for path, spark_type in of.items()}
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
