"""Converts events and rejected records between Spark's frames and the archive, where some columns have other names."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, DecimalType, DoubleType, FloatType, StructType

from hourline_core.ledger.layout import EVENT_COLUMNS, EVENT_SCHEMA, REJECTED_COLUMNS, stored_names
from hourline_core.model import Source
from hourline_core.model.scratch_columns import (
    DECODING,
    DUPLICATE,
    PLACE,
    RECORD,
    SCRATCH_PREFIX,
    SEQUENCE,
    TOPIC_ID,
    VALUE,
)
from hourline_core.storage.data_files import path_of

_RECORD_TYPE: pa.StructType = EVENT_SCHEMA.field(RECORD).type
_OWN = [name for name in EVENT_COLUMNS if name not in (RECORD, PLACE, VALUE, DECODING)]


def from_archive(events: DataFrame, source: Source) -> DataFrame:
    """Archived events with Hourline's own columns under their internal names, and the fields as declared.

    The parts of ``record`` are null, and the place is 0, if no micro-batch has written these columns yet: an older
    version made the archive.
    """
    place = F.coalesce(PLACE, F.lit(0)) if PLACE in events.columns else F.lit(0)
    if RECORD not in events.columns:
        events = events.withColumn(RECORD, F.lit(None).cast(from_arrow_type(_RECORD_TYPE, prefer_timestamp_ntz=False)))
    names = {name: f"{SCRATCH_PREFIX}{name}" for name in _OWN}
    fields = {stored: name for name, stored in stored_names(source, events.columns).items()}
    parts = {f"{SCRATCH_PREFIX}{part.name}": F.col(f"{RECORD}.{part.name}") for part in _RECORD_TYPE}
    own = events.withColumns({PLACE: place, **parts}).drop(RECORD).withColumnsRenamed(names)
    # A column with the name of a field that has another one is that of the field's earlier type.
    return own.drop(*(fields[stored] for stored in fields if stored in own.columns)).withColumnsRenamed(fields)


def record_columns(events: DataFrame) -> list[Column]:
    """The columns of archived ``events`` that make up their record, as of one that is read from a topic: VALUE may be
    null. With TOPIC_ID and SEQUENCE.
    """
    own = ("topic_id", "topic", "partition", "offset", "sequence")
    parts = {f"{SCRATCH_PREFIX}{part.name}": events[f"{RECORD}.{part.name}"] for part in _RECORD_TYPE}
    columns = {**{f"{SCRATCH_PREFIX}{name}": events[name] for name in own}, **parts, VALUE: events[VALUE]}
    return [column.alias(name) for name, column in columns.items()]


def events_to_archive(events: pa.Table, stored: Mapping[str, str]) -> pa.Table:
    """Accepted events (fields, and the columns of the archive under their internal names) as they are stored.
    ``stored`` are the ``stored_names`` of the fields.
    """
    names = {f"{SCRATCH_PREFIX}{name}": name for name in _OWN} | dict(stored)
    parts = [events[f"{SCRATCH_PREFIX}{part.name}"].cast(part.type) for part in _RECORD_TYPE]
    record = pc.make_struct(*parts, field_names=[part.name for part in _RECORD_TYPE])
    return events.rename_columns([names.get(name, name) for name in events.column_names]).append_column(RECORD, record)


def rejected_to_archive(records: pa.Table) -> pa.Table:
    """Rejected records (the columns of their table under their internal names) as they are stored."""
    names = {f"{SCRATCH_PREFIX}{name}": name for name in REJECTED_COLUMNS if name != PLACE} | {PLACE: PLACE}
    own = [name for name in records.column_names if name in names]
    return records.select(own).rename_columns([names[name] for name in own])


def as_declared(events: DataFrame, declared: DataFrame) -> DataFrame:
    """``events``, as ``from_archive`` gives them, with the columns of ``declared`` (as of ``empty_events``) and those
    that identify an event. A field that their table lacks, or has with another type, is null.
    """
    there = {column.name: column.dataType.simpleString() for column in events.schema}
    columns = [
        # They may differ in what is never null.
        (F.col(of.name) if there.get(of.name) == of.dataType.simpleString() else F.lit(None))
        .cast(of.dataType)
        .alias(of.name)
        for of in declared.schema
    ]
    return events.select(SEQUENCE, TOPIC_ID, DUPLICATE, *columns)


def read_version(spark: SparkSession, table: DeltaTable) -> DataFrame:
    """The rows of ``table`` at the version that it is open at.

    Conditions on numbers with a fraction are evaluated on each row. Files of an older version have ranges of them that
    may be wrong (see storage/statistics.py), and Spark would leave out files by these.
    """
    rows = spark.read.format("delta").option("versionAsOf", table.version()).load(path_of(table))
    guarded = {of.name: value for of in rows.schema if (value := _guard(rows[of.name], of.dataType)) is not None}
    return rows.withColumns(guarded) if guarded else rows


def _guard(column: Column, of: DataType) -> Column | None:
    """The values of a column as an expression, which Spark compares with no range. None: its ranges are right."""
    if isinstance(of, FloatType | DoubleType):
        return F.nanvl(column, F.lit(float("nan")).cast(of))
    if isinstance(of, DecimalType) or (isinstance(of, StructType) and _has_fraction(of)):
        return F.when(column.isNotNull(), column)
    return None


def _has_fraction(of: StructType) -> bool:
    """Whether a number with a fraction is a part of the struct, at any depth. Spark has no range of an array or map."""
    fractions = (FloatType, DoubleType, DecimalType)
    parts = [part.dataType for part in of]
    return any(isinstance(part, fractions) or (isinstance(part, StructType) and _has_fraction(part)) for part in parts)
