"""Resolves declared expressions against the fields of a source, and adds its derived fields to events."""

import re
from collections.abc import Iterator, Mapping

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from hourline_core.compute.record import with_record
from hourline_core.model import Source
from hourline_core.model.expressions import attempt
from hourline_core.model.scratch_columns import (
    ARRIVED,
    EVENT_TIME,
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
from hourline_core.model.yaml_files import KeyPath

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

_NOT_ARCHIVED = re.compile(
    r"(?:^|[<:,])(void|variant|timestamp_ntz|time(?=\()|interval[a-z ]*|string collate \w+|geometry|geography)"
    r"(?=$|[>,(])"
)
"""Types, as a part of Spark's text of a type, that the archive does not hold."""

_NOT_GROUPED = re.compile(
    r"(?:^|[<:,])(map|void|variant|interval[a-z ]*|time(?=\()|string collate \w+|geometry|geography)(?=$|[<>,(])"
)
"""As above, of what is grouped by."""

_READ_BY = {
    "iso": "text, or a timestamp",
    "local": "text, or a timestamp_ntz, such as to_timestamp_ntz(sent, 'dd.MM.yyyy HH:mm:ss') gives",
    "epoch_seconds": "a number, or a number as text",
    "epoch_milliseconds": "a number, or a number as text",
}
"""By encoding of an event time, the values that it reads."""


_WHOLE_NUMBERS = {"tinyint", "smallint", "int", "bigint"}


class UnresolvedError(Exception):
    """An expression of a declaration that Spark cannot resolve. ``path`` is its place within the declaration."""

    def __init__(self, path: KeyPath, message: str) -> None:
        super().__init__(message)
        self.path = path


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


def empty_looked_up(spark: SparkSession, source: Source) -> DataFrame:
    """As ``empty_events``, with the structs of the source's lookups."""
    return with_no_rows(empty_events(spark, source), source)


def with_no_rows(events: DataFrame, source: Source) -> DataFrame:
    """The events with the structs of the source's lookups, all null."""
    for name in source.lookups:
        events = events.withColumn(name, F.lit(None).cast(lookup_type(source, name)))
    return events


def are_comparable(key: str, column: str) -> bool:
    """Whether values of these Spark types, of a key and of a column of a lookup, are compared alike everywhere."""
    return key == column or {key, column} <= _WHOLE_NUMBERS


def lookup_type(source: Source, name: str) -> str:
    """The Spark type of the row of the lookup that the source calls ``name``."""
    columns = source.lookup_of(name).columns
    return f"struct<{', '.join(f'`{column}`: {of.spark_type}' for column, of in columns.items())}>"


def with_names(events: DataFrame, source: Source) -> DataFrame:
    """The events with ``record``, and with ``event_time`` and ``hour`` unless fields have these names."""
    events = with_record(events, source)
    for column in (EVENT_TIME, HOUR):
        events = events.withColumn(visible_name(column, source.field_names), F.col(column))
    return events


def with_derived(events: DataFrame, source: Source) -> DataFrame:
    """The events with the other names that declared expressions may use: those of ``with_names``, and the source's
    derived fields. The rows of its lookups are there already (`lookup_columns.py`).
    """
    events = with_names(events, source)
    for name, expression in source.derived.items():
        try:
            events = events.withColumn(name, F.expr(attempt(expression)))
        except PySparkException as error:
            raise UnresolvedError(("derived", name), shorten_error(error)) from error
    return events


def apply_where(events: DataFrame, source: Source) -> DataFrame:
    """The events that fulfil the source's ``where``. ``events`` are as ``with_derived`` gives them."""
    return events.where(attempt(source.where)) if source.where else events


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


def check_condition(events: DataFrame, condition: str, path: KeyPath = ("where",)) -> None:
    """Raise UnresolvedError with ``path`` unless ``condition`` is a boolean over ``events``."""
    for mistake in find_no_condition(condition, type_of(events, condition, path), path):
        raise mistake


def type_of(events: DataFrame, expression: str, path: KeyPath) -> str:
    """The Spark type of ``expression`` over ``events``. Raises UnresolvedError with ``path``."""
    return _resolve(events, expression, path).simpleString()


def types_of(events: DataFrame, expressions: Mapping[KeyPath, str]) -> dict[KeyPath, DataType]:
    """The type of each expression over ``events``. Raises UnresolvedError with the path of the first mistake."""
    try:
        columns = [F.expr(expression).alias(str(number)) for number, expression in enumerate(expressions.values())]
        schema = events.select(*columns).schema
    except PySparkException:
        schema = None
    if schema is None or len(schema) != len(expressions):  # Spark does not say which one it is about
        return {path: _resolve(events, expression, path) for path, expression in expressions.items()}
    return {path: column.dataType for path, column in zip(expressions, schema, strict=True)}


def find_no_condition(condition: str, spark_type: str, path: KeyPath = ("where",)) -> Iterator[UnresolvedError]:
    """A mistake with ``path`` unless the type of ``condition`` is boolean."""
    if spark_type != "boolean":
        yield UnresolvedError(path, f"'{condition}' is of type {spark_type}; a condition is boolean")


def find_ungrouped(spark_type: str) -> str | None:
    """The part of ``spark_type`` whose values the engines do not compare alike, or that no table holds. None: it has
    no such part.
    """
    unsuited = _NOT_GROUPED.search(spark_type)
    return unsuited and unsuited[1]


def find_no_identity(spark_type: str) -> str | None:
    """The part of ``spark_type`` that an id cannot have: what cannot be grouped by, and within others a floating-point
    number, whose two zeros are equal and have two texts. None: it has no such part.
    """
    within = re.search(r"[<:,](float|double)(?=$|[>,])", spark_type)
    return find_ungrouped(spark_type) or (within and within[1])


def shorten_error(error: PySparkException) -> str:
    """Spark's message without its error class, SQL state and plan."""
    text = (error.getMessage() or str(error)).partition("SQLSTATE")[0].partition("\n")[0].strip()
    if unknown := re.search(r"parameter with name (\S+) cannot be resolved", text):
        return f"there is no field '{unknown[1].replace('`', '')}'"  # Who tells of it suggests others.
    return text.partition("] ")[2] if text.startswith("[") else text


def _element_type(records: DataFrame, expression: str, path: KeyPath) -> DataType:
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
    element = array.elementType
    return element.toNullable() if isinstance(element, ArrayType | MapType | StructType) else element


def _resolve(events: DataFrame, expression: str, path: KeyPath) -> DataType:
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
