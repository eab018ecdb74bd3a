"""Extends the table of events that were decoded anew, in chunks of micro-batches.

A chunk is one commit, which records the sequence up to which the table is complete. So a kill costs one chunk, and no
record is decoded twice. Readers of results do not use the table before a publication has.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)
from pyspark.sql.pandas.types import to_arrow_schema

from batch_layer.decoding.to_decode import DECODE_WRITER, decoded_up_to
from hourline_core.compute.archive import read_version, record_columns
from hourline_core.compute.resolve import empty_events
from hourline_core.compute.validation import validate
from hourline_core.ledger.decodings import ArchiveDecodings
from hourline_core.ledger.layout import DECODED_SCHEMA, FROM_HOUR, NO_EVENT_REASON, Layout, stored_names
from hourline_core.model import Project, Source
from hourline_core.model.scratch_columns import (
    ARRIVED,
    DECODING,
    DUPLICATE,
    EVENT_TIME,
    HEADERS,
    HOUR,
    KEY,
    OFFSET,
    OUTCOME,
    PARTITION,
    PLACE,
    REASON,
    RECORD_TIMESTAMP,
    RECORD_TIMESTAMP_TYPE,
    SCRATCH_PREFIX,
    SEQUENCE,
    TOPIC,
    TOPIC_ID,
    VALUE,
)
from hourline_core.storage import commits
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.nullable_schema import nullable_schema
from hourline_core.storage.opening import open_table, update
from hourline_core.storage.version_retention import PUBLISHED

_MOST_ROWS = 500_000
"""The number of archived events, and of records without one, that are decoded in one chunk. A micro-batch is not
divided.
"""
_RECORD = [TOPIC_ID, PARTITION, OFFSET]
_ADDRESS = [*_RECORD, PLACE]
_ONLY_PLACES = f"{SCRATCH_PREFIX}only_places"
"""array<int>: the places of a record that are decoded anew, since its other events stand. Empty: all are."""
_OLD_HOUR = f"{SCRATCH_PREFIX}old_hour"


def decode_anew(
    spark: Callable[[], SparkSession],
    project: Project,
    source: Source,
    up_to: int,
    on_chunk: Callable[[int], None] = lambda rows: None,
    turn: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> bool:
    """Decode the archived records of ``source`` up to the sequence ``up_to`` that other declarations have decoded, as
    far as this was not done before. Returns whether there are such records. Starts Spark only for them.

    Each commit is made within ``turn()``, in which the caller holds the lease "batch". ``on_chunk`` is called after it,
    with the number of its rows. Raises TableError, and ConflictError when another process writes to the table.
    """
    layout = Layout.of(project)
    events = open_table(layout.events(source), layout.storage_options)
    decodings = ArchiveDecodings.of(events, source)
    if not decodings.others:
        return False
    up_to = decodings.last_of_others(up_to)
    if decoded_up_to(layout, source, decodings.now) >= up_to:
        return True
    rejected = open_table(layout.rejected(source), layout.storage_options)
    with turn():
        decoding = _Decoding(spark(), layout, source, events, rejected, decodings)
    for first, last in decoding.list_chunks(up_to):
        with turn():
            decoding.extend(first, last, on_chunk)
    return True


class _Decoding:
    def __init__(
        self,
        spark: SparkSession,
        layout: Layout,
        source: Source,
        events: DeltaTable,
        rejected: DeltaTable,
        decodings: ArchiveDecodings,
    ) -> None:
        self._source, self._decodings = source, decodings
        self._archived, self._rejected = (read_version(spark, table) for table in (events, rejected))
        fields = empty_events(spark, source).select(*source.event_fields).withColumnsRenamed(stored_names(source))
        self._schema = pa.schema([*DECODED_SCHEMA, *nullable_schema(to_arrow_schema(fields.schema, timezone="UTC"))])
        self._table = open_or_create(
            layout.decoded(source, decodings.now.hash),
            layout.storage_options,
            "decoded",
            self._schema,
            PUBLISHED,
            f"events of {source.name} that were decoded anew",
        )

    def extend(self, first: int, last: int, on_chunk: Callable[[int], None]) -> None:
        """Add the events of the micro-batches from ``first`` to ``last``, unless another process has done so."""
        update(self._table)
        if self._done() < last:
            rows = self._decode(max(first, self._done() + 1), last)
            commits.append(self._table, rows, {"sequence": last}, [DECODE_WRITER], last)
            on_chunk(rows.num_rows)

    def _done(self) -> int:
        return self._table.transaction_version(DECODE_WRITER) or 0

    def list_chunks(self, up_to: int) -> Iterator[tuple[int, int]]:
        """Ranges of sequences, first and last, up to ``up_to``, whose records are not decoded anew yet. The last one
        ends with ``up_to``.
        """
        first, last = self._done() + 1, up_to
        within = F.col("sequence").between(first, last)
        made = [
            table.where(within & self._is_other(hash_column)).groupBy("sequence").count()
            for table, hash_column in ((self._archived, DECODING), (self._rejected, "decoding"))
        ]
        counts = made[0].unionAll(made[1]).groupBy("sequence").agg(F.sum("count").alias("rows")).orderBy("sequence")
        before = 0

        def chunk_of(row: tuple[int, int]) -> int:
            nonlocal before
            before += row[1]
            return (before - 1) // _MOST_ROWS

        chunks = [
            [sequence for sequence, _ in rows]
            for _, rows in groupby(((row.sequence, row.rows) for row in counts.collect()), chunk_of)
        ]
        ends = [sequences[-1] for sequences in chunks[:-1]]
        yield from zip([first, *(end + 1 for end in ends)], [*ends, last], strict=True)

    def _is_other(self, column: str) -> Column:
        """Whether a row was made by another decoding than the one of now."""
        return F.coalesce(F.col(column), F.lit("")).isin([one.hash for one in self._decodings.others])

    def _decode(self, first: int, last: int) -> pa.Table:
        """The rows of the table for the micro-batches from ``first`` to ``last``, sorted by hour."""
        within = F.col("sequence").between(first, last)
        kept = [one.hash for one in self._decodings.others if one.raw]
        archived = self._archived.where(within & F.col(DECODING).isin(kept))
        old = archived.select(
            *(_column(name).alias(name) for name in _ADDRESS),
            F.col("sequence").alias(f"{SEQUENCE}_old"),
            F.col("topic").alias(f"{TOPIC}_old"),
            F.col("hour").alias(_OLD_HOUR),
            F.col("duplicate").alias(DUPLICATE),
        )
        refused = self._rejected.where(within & self._is_other("decoding"))
        # The other events of its record stand if their bytes were not kept.
        only = F.when(~F.coalesce(F.col("decoding"), F.lit("")).isin(kept), F.coalesce(PLACE, F.lit(0)))
        rejected = refused.select(*_rejected_columns(), only.alias(_ONLY_PLACES))
        # The bytes of a record are on one of its rows. Those of an older version of Hourline are on each.
        places = rejected.groupBy(*_RECORD, SEQUENCE).agg(F.collect_set(_ONLY_PLACES).alias(_ONLY_PLACES))
        with_value = rejected.where(F.col(VALUE).isNotNull()).drop(_ONLY_PLACES)
        records = (
            archived.where(F.col(VALUE).isNotNull())
            .select(*record_columns(archived), F.array().cast("array<int>").alias(_ONLY_PLACES))
            .unionByName(with_value.join(places, [*_RECORD, SEQUENCE]))
            .dropDuplicates([*_RECORD, _ONLY_PLACES])
        )
        validated = validate(records, self._source, keep=(TOPIC_ID, SEQUENCE, _ONLY_PLACES))
        new = validated.where((F.size(_ONLY_PLACES) == 0) | F.array_contains(_ONLY_PLACES, F.col(PLACE)))
        both = new.join(old, _ADDRESS, "full_outer").where(F.col(HOUR).isNotNull() | F.col(_OLD_HOUR).isNotNull())
        table = self._as_stored(both).toArrow()
        return table.select(self._schema.names).cast(self._schema).sort_by([("hour", "ascending")])

    def _as_stored(self, both: DataFrame) -> DataFrame:
        """``both``, the events of now beside those of the archive, with the columns of the table."""
        plain = stored_names(self._source)
        is_event = F.col(HOUR).isNotNull()
        gone = F.when(F.col(OUTCOME) == "rejected", F.col(REASON)).otherwise("its record has no such event any more")
        record = F.struct(
            *(
                F.col(f"{SCRATCH_PREFIX}{name}").alias(name)
                for name in ("key", "headers", "timestamp", "timestamp_type", "arrived")
            )
        )
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
            *(F.col(name).alias(plain.get(name, name)) for name in self._source.event_fields),
        )


def _column(name: str) -> Column:
    """A column of an address in the archive."""
    return F.coalesce(PLACE, F.lit(0)) if name == PLACE else F.col(name.removeprefix(SCRATCH_PREFIX))


def _rejected_columns() -> list[Column]:
    """The columns of rejected records, as of those that are read from a topic."""
    own = (TOPIC_ID, TOPIC, PARTITION, OFFSET, SEQUENCE, KEY, VALUE, HEADERS, RECORD_TIMESTAMP, RECORD_TIMESTAMP_TYPE)
    return [F.col(name.removeprefix(SCRATCH_PREFIX)).alias(name) for name in (*own, ARRIVED)]
