"""Decodes archived records anew in Spark: of sources with an event time or events that Spark SQL makes, or that had
such ones before. An event of now and one of the archive meet by their address.
"""

from functools import reduce
from operator import or_

from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from batch_layer.decoding.chunks import Chunk
from hourline_core.compute.archive import read_version, record_columns
from hourline_core.compute.validation import validate
from hourline_core.ledger.decode_records import NO_SUCH_EVENT, PARTS
from hourline_core.ledger.decodings import ArchiveDecodings
from hourline_core.ledger.layout import FROM_HOUR, FROM_SEQUENCE, NO_EVENT_REASON, stored_names
from hourline_core.model import Source
from hourline_core.model.decoding import BYTES_ALONE
from hourline_core.model.scratch_columns import (
    ARRIVED,
    DECODING,
    DUPLICATE,
    EVENT_TIME,
    HOUR,
    OFFSET,
    OUTCOME,
    PARTITION,
    PLACE,
    REASON,
    SCRATCH_PREFIX,
    SEQUENCE,
    TOPIC,
    TOPIC_ID,
    VALUE,
)

_RECORD = [TOPIC_ID, PARTITION, OFFSET]
_ADDRESS = [*_RECORD, PLACE]
_ONLY_PLACES = f"{SCRATCH_PREFIX}only_places"
"""array<int>: the places of a record that are decoded anew, since its other events stand. Empty: all are."""
_OLD_HOUR = f"{SCRATCH_PREFIX}old_hour"
_OLD_ARRIVED = f"{SCRATCH_PREFIX}old_arrived"
_FIRST = f"{SCRATCH_PREFIX}first_sequence"


def decode_by_spark(
    spark: SparkSession,
    source: Source,
    events: DeltaTable,
    rejected: DeltaTable,
    decodings: ArchiveDecodings,
    chunk: Chunk,
) -> DataFrame:
    """The rows of the decoded table for the records of ``chunk``, from the archived ``events`` and ``rejected``."""
    archived_then, refused_then = (read_version(spark, table) for table in (events, rejected))
    within = F.col("sequence").between(*chunk)
    kept = [one.hash for one in decodings.others if one.raw]
    archived = archived_then.where(within & F.col(DECODING).isin(kept))
    old = archived.select(
        *(_column(name).alias(name) for name in _ADDRESS),
        F.col("sequence").alias(f"{SEQUENCE}_old"),
        F.col("topic").alias(f"{TOPIC}_old"),
        F.col("hour").alias(_OLD_HOUR),
        F.col("duplicate").alias(DUPLICATE),
    )
    made = F.coalesce(F.col("decoding"), F.lit(""))
    refused = refused_then.where(within & made.isin([one.hash for one in decodings.others]))
    # The other events of its record stand if their bytes were not kept.
    only = F.when(~made.isin(kept), F.coalesce(PLACE, F.lit(0)))
    of_rejected = refused.select(*_rejected_columns(), only.alias(_ONLY_PLACES))
    # The bytes of a record are on one of its rows. Those of an older version of Hourline are on each.
    places = of_rejected.groupBy(*_RECORD, SEQUENCE).agg(F.collect_set(_ONLY_PLACES).alias(_ONLY_PLACES))
    with_value = of_rejected.where(F.col(VALUE).isNotNull()).drop(_ONLY_PLACES)
    records = (
        archived.where(F.col(VALUE).isNotNull())
        .select(*record_columns(archived), F.array().cast("array<int>").alias(_ONLY_PLACES))
        .unionByName(with_value.join(places, [*_RECORD, SEQUENCE]))
        .dropDuplicates([*_RECORD, _ONLY_PLACES])
    )
    validated = validate(records, source, keep=(TOPIC_ID, SEQUENCE, _ONLY_PLACES))
    new = validated.where((F.size(_ONLY_PLACES) == 0) | F.array_contains(_ONLY_PLACES, F.col(PLACE)))
    both = _meet(new, old).withColumn(FROM_SEQUENCE, F.lit(None).cast("long"))
    stored = _as_stored(both, source)
    if decodings.lost:
        stored = stored.unionByName(
            _as_stored(_decode_brought(archived_then, refused_then, source, decodings, chunk), source)
        )
    return stored


def _decode_brought(
    archived_then: DataFrame, refused_then: DataFrame, source: Source, decodings: ArchiveDecodings, chunk: Chunk
) -> DataFrame:
    """The events of now beside those of the archive, of records whose events were archived without their bytes, which a
    reset has brought in ``chunk``.
    """
    is_alone = F.coalesce(F.col("decoding"), F.lit("")) == BYTES_ALONE
    brought = refused_then.where(F.col("sequence").between(*chunk) & is_alone).select(*_rejected_columns())
    of_brought = brought.select(*_RECORD, F.col(SEQUENCE).alias(f"{SEQUENCE}_old"))
    spans = [
        F.col("sequence").between(first, last or chunk.last) for first, last in decodings.sequences_of(decodings.lost)
    ]
    is_lost = reduce(or_, spans) & F.coalesce(F.col(DECODING), F.lit("")).isin(decodings.lost)
    old = archived_then.where(is_lost).select(
        *(_column(name).alias(name) for name in _ADDRESS),
        F.col("topic").alias(f"{TOPIC}_old"),
        F.col("hour").alias(_OLD_HOUR),
        F.col("duplicate").alias(DUPLICATE),
        F.col("sequence").alias(FROM_SEQUENCE),
        F.col("record.arrived").alias(_OLD_ARRIVED),
    )
    old = old.join(of_brought, _RECORD)
    of_record = old.groupBy(*_RECORD).agg(F.min(FROM_SEQUENCE).alias(_FIRST), F.min(_OLD_ARRIVED).alias(_OLD_ARRIVED))
    # Other events of these records were rejected, or were validated again and are archived with their bytes.
    others = archived_then.where(~F.coalesce(F.col(DECODING), F.lit("")).isin(decodings.lost))
    others = others.select(*(_column(name).alias(name) for name in _ADDRESS)).unionByName(
        refused_then.where(~is_alone).select(*(_column(name).alias(name) for name in _ADDRESS))
    )
    records = brought.join(of_record, _RECORD).withColumn(ARRIVED, F.coalesce(_OLD_ARRIVED, ARRIVED))
    new = validate(records, source, keep=(TOPIC_ID, SEQUENCE, _FIRST)).join(others, _ADDRESS, "left_anti")
    both = _meet(new, old.drop(_OLD_ARRIVED))
    return both.withColumn(FROM_SEQUENCE, F.coalesce(FROM_SEQUENCE, _FIRST))


def _meet(new: DataFrame, old: DataFrame) -> DataFrame:
    """Each event of now beside that of the archive with its address, if it is one or was one."""
    return new.join(old, _ADDRESS, "full_outer").where(F.col(HOUR).isNotNull() | F.col(_OLD_HOUR).isNotNull())


def _as_stored(both: DataFrame, source: Source) -> DataFrame:
    """``both``, the events of now beside those of the archive, with the columns of the table."""
    plain = stored_names(source)
    is_event = F.col(HOUR).isNotNull()
    gone = F.when(F.col(OUTCOME) == "rejected", F.col(REASON)).otherwise(NO_SUCH_EVENT)
    record = F.struct(*(F.col(name).alias(part) for name, part in PARTS.items()))
    return both.select(
        F.coalesce(SEQUENCE, f"{SEQUENCE}_old").alias("sequence"),
        F.col(TOPIC_ID).alias("topic_id"),
        F.coalesce(TOPIC, f"{TOPIC}_old").alias("topic"),
        F.col(PARTITION).alias("partition"),
        F.col(OFFSET).alias("offset"),
        F.col(PLACE),
        F.col(EVENT_TIME).alias("event_time"),
        F.col(HOUR).alias("hour"),
        F.coalesce(DUPLICATE, F.lit(False)).alias("duplicate"),
        record.alias("record"),
        F.col(_OLD_HOUR).alias(FROM_HOUR),
        F.when(~is_event, gone).alias(NO_EVENT_REASON),
        F.col(FROM_SEQUENCE),
        *(F.col(name).alias(plain.get(name, name)) for name in source.event_fields),
    )


def _column(name: str) -> Column:
    """A column of an address in the archive."""
    return F.coalesce(PLACE, F.lit(0)) if name == PLACE else F.col(name.removeprefix(SCRATCH_PREFIX))


def _rejected_columns() -> list[Column]:
    """The columns of rejected records, as of those that are read from a topic."""
    own = (TOPIC_ID, TOPIC, PARTITION, OFFSET, SEQUENCE, VALUE, *PARTS)
    return [F.col(name.removeprefix(SCRATCH_PREFIX)).alias(name) for name in own]
