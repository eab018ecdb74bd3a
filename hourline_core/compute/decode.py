"""Decodes and validates records in Spark: native code, called in Spark's Python workers with Arrow columns."""

import pickle
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)
from pyspark.sql.pandas.functions import arrow_udf

from hourline_core.compute.tasks import keep_imports
from hourline_core.formats.registry.wire_format import HEADER
from hourline_core.model import Source
from hourline_core.model.expressions import ATTEMPT
from hourline_core.model.fields import Field
from hourline_core.model.record_format import RecordFormat
from hourline_core.model.scratch_columns import (
    ARRIVED,
    EVENT_TIME,
    HEADERS,
    KEY,
    NOT_TAKEN,
    REASON,
    RECORD_TIMESTAMP,
    RECORD_TIMESTAMP_TYPE,
    SCRATCH_PREFIX,
    UNDECODED,
    UNREADABLE,
    VALUE,
)
from hourline_core.validation.file_rows import CONTENT_TYPE, CSV, OWN_FORMAT
from hourline_core.validation.reasons import Reasons
from hourline_core.validation.validator import RecordColumns, Validator, event_time_column
from hourline_core.validation.value_decoder import ValueDecoder, Values

_IS_CSV = f"{SCRATCH_PREFIX}is_csv"
_IS_IMPORTED = f"{SCRATCH_PREFIX}is_imported"
_SCHEMA_ID = f"{SCRATCH_PREFIX}schema_id"
_DECIDED = f"{SCRATCH_PREFIX}decided"
_TIME_REASON = f"{SCRATCH_PREFIX}time_reason"
_ATTEMPTED = f"{SCRATCH_PREFIX}attempted"
"""struct of the value of an expression. Null: it raises an error."""


def decode(records: DataFrame, format: RecordFormat, fields: Mapping[str, Field]) -> DataFrame:
    """Add ``fields``, and UNDECODED (string), to ``records``, which have VALUE (binary), HEADERS and
    RECORD_TIMESTAMP_TYPE. How rows of files are read is told by their header.

    UNDECODED is null if the value was decoded, else it says why not, and all fields are null. The fields have their
    declared types, and are null if the record lacks them. Of a null value, or of an empty one that the format does not
    take, all is null. Nothing is dropped, and nothing raises.
    """
    declared = tuple(fields.items())
    inputs = {VALUE: F.col(VALUE), **_ways_to_read(format)}
    names = tuple(inputs)

    def decode_values(records: pa.Array) -> pa.Array:
        decoded = _worker_decoder(format, declared).decode(_values(names, records))
        return pa.StructArray.from_arrays([*decoded.columns.values(), decoded.reasons], [*decoded.columns, UNDECODED])

    columns = {**_types(fields), UNDECODED: "string"}
    return _with_columns(records, columns, decode_values, F.struct(*inputs.values()))


def read_records(records: DataFrame, source: Source) -> DataFrame:
    """Add to ``records`` their fields, and REASON: why a record is rejected as a whole, in words, else null.

    ``records`` are those of ``read_topics`` with NOT_TAKEN and UNREADABLE. If the event time is a column, EVENT_TIME
    (UTC) is added, too, and REASON is also about it. Fields and EVENT_TIME of rejected records may be anything. Of
    records that are not taken or have no value, all is null.
    """
    time = event_time_column(source)
    # A record that is not taken needs no decoding.
    inputs = {VALUE: F.when(F.col(NOT_TAKEN).isNull(), F.col(VALUE)), **_ways_to_read(source.format)}
    if source.branch is not None:
        inputs[UNREADABLE] = F.col(UNREADABLE)
    if source.key_type != "binary":
        inputs[KEY] = F.col(KEY)
    outputs = {**_types(source.fields), REASON: "string"}
    if time:
        inputs |= {ARRIVED: F.col(ARRIVED)} | ({time: F.col(time)} if time == RECORD_TIMESTAMP else {})
        outputs[EVENT_TIME] = "timestamp"
    validator_of = _validator_of(source)
    names = tuple(inputs)

    def decide(records: pa.Array) -> pa.Array:
        columns = dict(zip(names, records.flatten(), strict=True))
        validator = validator_of()
        fields, reasons = validator.read_records(
            RecordColumns(_values(names, records), columns.get(KEY), columns.get(UNREADABLE))
        )
        moments = [validator.read_times({**columns, **fields}[time], columns[ARRIVED], reasons)] if time else []
        return pa.StructArray.from_arrays([*fields.values(), reasons.to_arrow(), *moments], [*outputs])

    return _with_columns(records, outputs, decide, F.struct(*(column.alias(name) for name, column in inputs.items())))


def read_times(events: DataFrame, source: Source, is_undecided: Column) -> DataFrame:
    """Add EVENT_TIME (UTC) to ``events``, and to REASON why those that ``is_undecided`` are rejected for it.

    EVENT_TIME of rejected events may be anything.
    """
    validator_of, expression = _validator_of(source), source.event_time.expression

    def decide(events: pa.Array) -> pa.Array:
        values, raises, arrived, undecided = events.flatten()
        reasons = Reasons(undecided)
        reasons.reject(raises, f"event time: '{expression}' raises an error for this event")
        moments = validator_of().read_times(values, arrived, reasons)
        return pa.StructArray.from_arrays([moments, reasons.to_arrow()], [EVENT_TIME, _TIME_REASON])

    attempted = events.withColumn(_ATTEMPTED, F.expr(f"{ATTEMPT}(struct({expression}\n AS time))"))
    raises = F.col(_ATTEMPTED).isNull().alias("raises")
    inputs = F.struct(f"{_ATTEMPTED}.time", raises, ARRIVED, is_undecided.alias("undecided"))
    timed = _with_columns(attempted, {EVENT_TIME: "timestamp", _TIME_REASON: "string"}, decide, inputs)
    return timed.withColumn(REASON, F.coalesce(REASON, _TIME_REASON)).drop(_ATTEMPTED)


def _ways_to_read(format: RecordFormat) -> dict[str, Column]:
    """What ``Values`` has beside the values, as ``values_of`` tells it. Headers need not leave Java for it."""
    is_imported = F.col(RECORD_TIMESTAMP_TYPE).isNull()
    is_csv = is_imported & (F.col(HEADERS)[CONTENT_TYPE] == F.lit(CSV))
    ways = {_IS_CSV: F.coalesce(is_csv, F.lit(False))}
    if not format.is_plain_json:
        is_own = F.coalesce(F.col(HEADERS)[CONTENT_TYPE] == F.lit(OWN_FORMAT), F.lit(False))
        ways[_IS_IMPORTED] = is_imported & ~is_own
    if format.uses_registry:
        ways[_SCHEMA_ID] = F.col(HEADERS)[HEADER]
    return ways


def _values(names: Sequence[str], records: pa.Array) -> Values:
    columns = dict(zip(names, records.flatten(), strict=True))
    return Values(columns[VALUE], columns[_IS_CSV], columns.get(_IS_IMPORTED), columns.get(_SCHEMA_ID))


def _types(fields: Mapping[str, Field]) -> dict[str, str]:
    return {name: field.spark_type for name, field in fields.items()}


def _with_columns(
    frame: DataFrame, columns: Mapping[str, str], function: Callable[[pa.Array], pa.Array], inputs: Column
) -> DataFrame:
    """``frame`` with ``columns``, by name their Spark type, which ``function`` makes of the struct ``inputs``."""
    types = ", ".join(f"`{name}` {spark_type}" for name, spark_type in columns.items())
    # The kind of function is told by its type hints, or Spark warns.
    decided = frame.withColumn(_DECIDED, arrow_udf(function, types)(inputs))  # type: ignore[call-overload]
    made = [F.col(f"{_DECIDED}.`{name}`").alias(name) for name in columns]
    return decided.select(*(name for name in frame.columns if name not in columns), *made)


def _validator_of(source: Source) -> Callable[[], Validator]:
    pickled = pickle.dumps(source)
    return lambda: _worker_validator(pickled)


@cache
def _worker_validator(pickled_source: bytes) -> Validator:
    """The validator of this worker process."""
    keep_imports()
    return Validator(pickle.loads(pickled_source))  # noqa: S301 (the driver's own)


@cache
def _worker_decoder(format: RecordFormat, fields: tuple[tuple[str, Field], ...]) -> ValueDecoder:
    """The decoder of this worker process."""
    keep_imports()
    return ValueDecoder(format, dict(fields))
