"""A metric as an aggregation. The batch layer runs it as it is; the speed layer runs its parts, see `projection.py`."""

import re
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType

from hourline_core.aggregates import UnsuitableArgumentError, aggregate_of
from hourline_core.aggregates.user_fold_class import load_fold
from hourline_core.aggregates.user_measure_class import load_class
from hourline_core.compute.panes import tile_keys
from hourline_core.compute.record import with_record
from hourline_core.compute.user_measures import register_functions
from hourline_core.model import DeclaredMetric, Metric, Source, to_stored
from hourline_core.model.scratch_columns import (
    ARRIVED,
    EVENT_TIME,
    GROUP,
    HEADERS,
    HOUR,
    KEY,
    OFFSET,
    PARTITION,
    PLACE,
    RECORD,
    RECORD_TIMESTAMP,
    RECORD_TIMESTAMP_TYPE,
    TOPIC,
    visible_name,
)

_RECORD_TYPES = {
    TOPIC: "string",
    PARTITION: "int",
    OFFSET: "bigint",
    PLACE: "int",
    ARRIVED: "timestamp",
    KEY: "binary",
    HEADERS: "map<string, binary>",
    RECORD_TIMESTAMP: "timestamp",
    RECORD_TIMESTAMP_TYPE: "string",
}

_NOT_ARCHIVED = re.compile(r"(?:^|[<:,])(void|variant|timestamp_ntz|time\(\d\)|interval[a-z ]*)(?=$|[>,])")
"""Types, as a part of Spark's text of a type, that the archive does not hold."""

_READ_BY = {
    "iso": "text, or a timestamp",
    "local": "text, or a timestamp_ntz, such as to_timestamp_ntz(sent, 'dd.MM.yyyy HH:mm:ss') gives",
    "epoch_seconds": "a number, or a number as text",
    "epoch_milliseconds": "a number, or a number as text",
}
"""By encoding of an event time, the values that it reads."""

_OF_ANY_TYPE = ("min", "max", "first", "last", "user_defined", "fold")
"""The kinds of measures whose values have the type of the argument, or that of their class."""
_NO_NUMBERS = ("string", "boolean", "date", "timestamp", "timestamp_ntz")

Path = tuple[str, ...]
"""A place within a declaration."""

_PLANS: MutableMapping[SparkSession, dict[str, "AggregationPlan"]] = WeakKeyDictionary()
"""What each session has resolved, by the text of all that an aggregation depends on. A start checks all metrics before
it plans them, and each job of a backfill plans them again.
"""


class UnresolvedError(Exception):
    """An expression of a declaration that Spark cannot resolve. ``path`` is its place within the declaration."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path


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


def empty_events(spark: SparkSession, source: Source) -> DataFrame:
    """No events, with the fields, EVENT_TIME, HOUR, and the columns that ``with_record`` reads. Raises
    UnresolvedError.
    """
    types = {name: field.spark_type for name, field in source.fields.items()}
    types |= {EVENT_TIME: "timestamp", HOUR: "timestamp", **_RECORD_TYPES}
    columns = ", ".join(f"CAST(NULL AS {spark_type}) AS `{name}`" for name, spark_type in types.items())
    try:
        events = spark.sql(f"SELECT {columns} WHERE false")  # which takes a fifth of what createDataFrame does
    except PySparkException as error:
        raise UnresolvedError(("fields",), shorten_error(error)) from error
    for name, expression in source.explode.items():
        element = _element_type(with_record(events, source), expression, ("explode", name))
        events = events.withColumn(name, F.lit(None).cast(element))
        events = events.select(*source.event_fields, EVENT_TIME, HOUR, *_RECORD_TYPES)
    return events


def _element_type(records: DataFrame, expression: str, path: Path) -> DataType:
    """The type of the elements of an array. Raises UnresolvedError with ``path`` if ``expression`` gives none, or of
    elements that cannot be archived.
    """
    array = _resolve(records, expression, path)
    if not isinstance(array, ArrayType):
        example = f"map_entries({expression})" if isinstance(array, MapType) else "split(line, ' ')"
        raise UnresolvedError(
            path, f"'{expression}' is of type {array.simpleString()}, allowed is an array, such as {example}"
        )
    if unsuited := _NOT_ARCHIVED.search(array.elementType.simpleString()):
        raise UnresolvedError(path, f"its elements have the type {unsuited[1]}, which is not archived; cast them")
    return array.elementType


def event_time_type(spark: SparkSession, source: Source) -> str:
    """The Spark type of the event time's expression. Raises UnresolvedError if it cannot be resolved, or does not
    fit its encoding.
    """
    time = source.event_time
    events = with_record(empty_events(spark, source), source).select(RECORD, *source.event_fields)
    path = ("event_time",)
    spark_type = type_of(events, time.expression, path)
    is_number = spark_type in ("int", "bigint", "float", "double") or spark_type.startswith("decimal")
    suits = {
        "iso": spark_type in ("string", "timestamp"),
        "local": spark_type in ("string", "timestamp_ntz"),
        "epoch_seconds": spark_type == "string" or is_number,
        "epoch_milliseconds": spark_type == "string" or is_number,
    }[time.encoding]
    if not suits:
        raise UnresolvedError(
            path,
            f"'{time.expression}' is of type {spark_type}; encoding {time.encoding} reads {_READ_BY[time.encoding]}",
        )
    return spark_type


def with_derived(events: DataFrame, source: Source) -> DataFrame:
    """The events with the other names that declared expressions may use: ``record``, the source's derived fields, and
    ``event_time`` and ``hour`` unless fields have these names.
    """
    events = with_record(events, source)
    for column in (EVENT_TIME, HOUR):
        events = events.withColumn(visible_name(column, source.field_names), F.col(column))
    for name, expression in source.derived.items():
        try:
            events = events.withColumn(name, F.expr(expression))
        except PySparkException as error:
            raise UnresolvedError(("derived", name), shorten_error(error)) from error
    return events


def apply_where(events: DataFrame, source: Source) -> DataFrame:
    """The events that fulfil the source's ``where``. ``events`` are as ``with_derived`` gives them."""
    return events.where(source.where) if source.where else events


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
    for name in metric.dimensions:
        grouped = types["dimensions", name]
        if grouped.startswith("map") or grouped in ("void", "variant") or " collate " in grouped:
            raise UnresolvedError(("dimensions", name), f"values of type {grouped} cannot be grouped by")
    states: dict[str, str] = {}
    values: dict[str, list[str]] = {}
    for name, measure in metric.stored_measures.items():
        path = ("measures", name)
        aggregate = aggregate_of(measure)
        try:
            if measure.user_measure and measure.kind == "user_defined":
                register_functions(spark, measure.user_measure)
            values[name] = aggregate.values(types.get(path, ""))
        except UnsuitableArgumentError as error:
            raise UnresolvedError(path, str(error)) from error
        states |= zip(aggregate.columns(name), aggregate.partials(values[name]), strict=True)
        if measure.where:
            _refuse_no_condition(measure.where, types[*path, "where"], (*path, "where"))
    _refuse_ratios_of_no_numbers(metric, types)
    if metric.where:
        _refuse_no_condition(metric.where, types["where",])
    try:
        schema = _tiles(events, metric, states, _ranks(metric, values)).schema
    except PySparkException as error:
        raise UnresolvedError((), shorten_error(error)) from error
    return AggregationPlan(source, metric, states, make_nullable(to_arrow_schema(schema, timezone="UTC")), values)


def named_expressions(metric: Metric) -> dict[Path, str]:
    """The expressions of ``metric``, each by its place within the declaration."""
    dimensions: dict[Path, str] = {("dimensions", name): text for name, text in metric.dimensions.items()}
    measures: dict[Path, str | None] = {}
    for name, measure in metric.stored_measures.items():
        argument = None if measure.operands else measure.argument
        if measure.user_measure:
            argument = f"struct({argument})"  # It may be several.
        measures |= {("measures", name): argument, ("measures", name, "where"): measure.where}
    declared = {**dimensions, **measures, ("where",): metric.where}
    return {path: text for path, text in declared.items() if text}


def type_of(events: DataFrame, expression: str, path: Path) -> str:
    """The Spark type of ``expression`` over ``events``. Raises UnresolvedError with ``path``."""
    return _resolve(events, expression, path).simpleString()


def _resolve(events: DataFrame, expression: str, path: Path) -> DataType:
    """The type of ``expression`` over each of ``events``. Raises UnresolvedError with ``path``."""
    try:
        resolved = events.select(F.expr(expression)).schema[0].dataType
    except PySparkException as error:
        raise UnresolvedError(path, shorten_error(error)) from error
    try:
        # Beside a plain column, an aggregate wants a GROUP BY.
        events.select(F.expr(expression), F.col(f"`{events.columns[0]}`"))
    except PySparkException as error:
        raise UnresolvedError(
            path, f"'{expression}' is about several events, allowed is an expression over one event"
        ) from error
    return resolved


def types_of(events: DataFrame, expressions: Mapping[Path, str]) -> dict[Path, str]:
    """The Spark type of each expression over ``events``. Raises UnresolvedError with the path of the first mistake."""
    try:
        columns = [F.expr(expression).alias(str(number)) for number, expression in enumerate(expressions.values())]
        schema = events.select(*columns).schema
    except PySparkException:
        schema = None
    if schema is None or len(schema) != len(expressions):  # Spark does not say which one it is about
        return {path: type_of(events, expression, path) for path, expression in expressions.items()}
    return {path: column.dataType.simpleString() for path, column in zip(expressions, schema, strict=True)}


def check_condition(events: DataFrame, condition: str, path: Path = ("where",)) -> None:
    """Raise UnresolvedError with ``path`` unless ``condition`` is a boolean over ``events``."""
    _refuse_no_condition(condition, type_of(events, condition, path), path)


def _refuse_no_condition(condition: str, spark_type: str, path: Path = ("where",)) -> None:
    if spark_type != "boolean":
        raise UnresolvedError(path, f"'{condition}' is of type {spark_type}; a condition is boolean")


def _refuse_ratios_of_no_numbers(metric: Metric, types: Mapping[Path, str]) -> None:
    for ratio, measure in metric.measures.items():
        for name in measure.operands:
            operand, spark_type = metric.measures[name], types.get(("measures", name), "")
            if operand.user_measure:
                load = load_fold if operand.kind == "fold" else load_class
                spark_type = from_arrow_type(load(operand.user_measure).value_type).simpleString()
            if operand.kind in _OF_ANY_TYPE and spark_type in _NO_NUMBERS:
                raise UnresolvedError(
                    ("measures", ratio), f"'{name}' is {operand} of type {spark_type}; {measure} needs two numbers"
                )


def make_nullable(schema: pa.Schema) -> pa.Schema:
    """The schema with every column nullable. Writers differ in what they take for NOT NULL, and a later null would
    fail.
    """
    return pa.schema([column.with_nullable(True) for column in schema])


def shorten_error(error: PySparkException) -> str:
    """Spark's message without its error class, SQL state and plan."""
    text = (error.getMessage() or str(error)).partition("SQLSTATE")[0].partition("\n")[0].strip()
    return text.partition("] ")[2] if text.startswith("[") else text


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
        events = events.where(metric.where)
    keys = [
        F.col(HOUR).alias("hour"),
        *(F.expr(expression).alias(name) for name, expression in tile_keys(metric).items()),
    ]
    events = with_ranks(events.withColumn(GROUP, F.struct(*keys)), ranks)
    return events.groupBy(*keys).agg(*(F.expr(sql).alias(column) for column, sql in states.items()))
