"""Decodes archived records anew in Arrow columns, of sources whose records need no Spark.

It takes the rows of the archive, and gives those of the table of events that were decoded anew. A row of the archive
and the event of now are one row there, so a record must be one event at most, by its declaration of now and before.
"""

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.ledger.layout import (
    DECODED_SCHEMA,
    EVENT_SCHEMA,
    FROM_HOUR,
    FROM_SEQUENCE,
    NO_EVENT_REASON,
    REJECTED_SCHEMA,
    stored_names,
)
from hourline_core.model import Source
from hourline_core.model.decoding import Decoding
from hourline_core.model.scratch_columns import (
    ARRIVED,
    DECODING,
    EVENT_TIME,
    HEADERS,
    HOUR,
    KEY,
    OFFSET,
    OUTCOME,
    PARTITION,
    PLACE,
    REASON,
    RECORD,
    RECORD_TIMESTAMP,
    RECORD_TIMESTAMP_TYPE,
    TOPIC,
    VALUE,
)
from hourline_core.validation.validator import Validator, event_time_column

ARCHIVED = EVENT_SCHEMA
"""The columns of archived events that are read: none of their fields."""
REFUSED = pa.schema([column for column in REJECTED_SCHEMA if column.name != "reason"])
"""The columns of rejected records that are read."""
NO_SUCH_EVENT = "its record has no such event any more"

PARTS = {
    KEY: "key",
    HEADERS: "headers",
    RECORD_TIMESTAMP: "timestamp",
    RECORD_TIMESTAMP_TYPE: "timestamp_type",
    ARRIVED: "arrived",
}
"""The parts of a record beside its value, and their names in the archive."""


def needs_no_spark(source: Source, before: Collection[Decoding]) -> bool:
    """Whether ``RecordDecoder`` takes records of ``source`` that the decodings ``before`` have made."""
    return event_time_column(source) is not None and not any(one.declared.get("explode") for one in before)


class RecordDecoder:
    """Decodes records of ``source`` that the decodings ``before`` have made."""

    def __init__(self, source: Source, before: Collection[Decoding]) -> None:
        self._validator = Validator(source)
        self._stored = {name: stored_names(source).get(name, name) for name in source.event_fields}
        self._with_bytes = pa.array([one.hash for one in before if one.raw], pa.string())
        self._before = pa.array([one.hash for one in before], pa.string())

    def of_events(self, rows: pa.Table, first: int, last: int) -> pa.Table:
        """What becomes of archived events (ARCHIVED) of the sequences from ``first`` to ``last``: rows of the decoded
        table, by hour. Those of other decodings, or without their bytes, are left out.
        """
        return self._decode(_of_sequences(rows, pc.is_in(rows[DECODING], self._with_bytes), first, last))

    def of_rejected(self, rows: pa.Table, first: int, last: int) -> pa.Table:
        """The same of rejected records (REFUSED). Those that are rejected now, too, have no row."""
        made = pc.is_in(pc.fill_null(rows["decoding"], ""), self._before)
        rows = _of_sequences(rows, made, first, last)
        parts = [rows[name].combine_chunks() for name in PARTS.values()]
        record = pa.StructArray.from_arrays(parts, [*PARTS.values()])
        nothing = {"hour": pa.nulls(rows.num_rows, EVENT_SCHEMA.field("hour").type), RECORD: record}
        nothing["duplicate"] = pa.nulls(rows.num_rows, pa.bool_())
        for name, column in nothing.items():
            rows = rows.append_column(name, column)
        return self._decode(rows.rename_columns([VALUE if name == "value" else name for name in rows.column_names]))

    def _decode(self, rows: pa.Table) -> pa.Table:
        parts = {name: pc.struct_field(rows[RECORD], part) for name, part in PARTS.items()}
        own = {VALUE: VALUE, TOPIC: "topic", PARTITION: "partition", OFFSET: "offset"}
        now = self._validator.validate(pa.table({**parts, **{name: rows[column] for name, column in own.items()}}))
        is_event = now[HOUR].is_valid()
        gone = pc.if_else(pc.equal(now[OUTCOME], "rejected"), now[REASON], NO_SUCH_EVENT)
        decoded = {
            **{name: rows[name] for name in ("sequence", "topic_id", "topic", "partition", "offset")},
            PLACE: pc.fill_null(rows[PLACE], 0),
            "event_time": now[EVENT_TIME],
            "hour": now[HOUR],
            "duplicate": pc.fill_null(rows["duplicate"], False),
            RECORD: rows[RECORD],
            FROM_HOUR: rows["hour"],
            NO_EVENT_REASON: pc.if_else(is_event, pa.scalar(None, pa.string()), gone),
            FROM_SEQUENCE: pa.nulls(rows.num_rows, pa.int64()),
            **{stored: now[name] for name, stored in self._stored.items()},
        }
        assert list(decoded)[: len(DECODED_SCHEMA)] == DECODED_SCHEMA.names
        return _chosen(pa.table(decoded), pc.or_(is_event, rows["hour"].is_valid()))


def _of_sequences(rows: pa.Table, made: pa.ChunkedArray, first: int, last: int) -> pa.Table:
    within = pc.and_(pc.greater_equal(rows["sequence"], first), pc.less_equal(rows["sequence"], last))
    return _chosen(rows, pc.and_(made, within))


def _chosen(rows: pa.Table, chosen: pa.ChunkedArray) -> pa.Table:
    """The rows of which ``chosen`` is true. Mostly, all are: then nothing is copied."""
    return rows if pc.all(chosen).as_py() is not False else rows.filter(chosen)
