"""Evaluates records in the task that has read them, without Spark SQL, where DuckDB computes all expressions of their
source and its metrics with the same results. That is faster: no column crosses into Java.
"""

import zlib
from collections.abc import Mapping, Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.compute.lookup_columns import NO_LOOKUPS, NativeLookup, Pinned, add_lookup_columns, native_lookups
from hourline_core.compute.native_expressions import translate_all
from hourline_core.compute.projection import Projection
from hourline_core.compute.worker_database import connect
from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.model import Source
from hourline_core.model.branches import Branches
from hourline_core.model.scratch_columns import (
    ARRIVED,
    HEADERS,
    ID,
    KEY,
    OFFSET,
    OUTCOME,
    PARTITION,
    RECORD_TIMESTAMP,
    RECORD_TIMESTAMP_TYPE,
    TOPIC,
    VALUE,
    VALUE_CRC,
    VALUE_SIZE,
)
from hourline_core.sql.literals import identifier
from hourline_core.validation.validator import Validator, is_validated_natively
from speed_layer.intake.headers import headers_of

_KAFKA_TIMESTAMP_TYPES, _TIMESTAMP_TYPES = pa.array([0, 1], pa.int32()), pa.array(["create", "log_append"])


def native_expressions(source: Source, branches: Branches | None, projection: Projection) -> dict[str, str] | None:
    """The expressions of ID and of ``projection``, by column, for DuckDB. None: the records of ``source``, some
    expression, or the key of a lookup need Spark. Derived events are valid, as those that they are made of.
    """
    if branches is not None or not (source.is_derived or is_validated_natively(source)):
        return None
    expressions = dict(projection.expressions) | ({ID: (source, source.id)} if source.id else {})
    native = translate_all(expressions)
    return None if native is None or native_lookups(source, native.values()) is None else native


def as_records(kafka: pa.RecordBatch, arrived: datetime) -> pa.RecordBatch:
    """Records of ``read_topics`` as validation takes them: `kafka/read_topics.py` does the same in Spark."""
    columns = {
        KEY: kafka["key"],
        VALUE: kafka["value"],
        HEADERS: headers_of(kafka["headers"]),
        RECORD_TIMESTAMP: kafka["timestamp"],
        RECORD_TIMESTAMP_TYPE: _TIMESTAMP_TYPES.take(pc.index_in(kafka["timestampType"], _KAFKA_TIMESTAMP_TYPES)),
        TOPIC: kafka["topic"],
        PARTITION: kafka["partition"],
        OFFSET: kafka["offset"],
        ARRIVED: pa.repeat(pa.scalar(arrived, TIMESTAMP), kafka.num_rows),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


class NativeRecords:
    """Evaluates the records of ``source``, and ``expressions`` of their events (DuckDB's SQL by column), which name
    columns of ``lookups``.
    """

    def __init__(self, source: Source, expressions: Mapping[str, str], lookups: Sequence[NativeLookup] = ()) -> None:
        self._validator = None if source.is_derived else Validator(source)
        self._lookups = lookups
        columns = (
            f"CASE WHEN {OUTCOME} = 'accepted' THEN {sql} END AS {identifier(name)}"
            for name, sql in expressions.items()
        )
        self._query = f"SELECT {', '.join(columns)} FROM rows" if expressions else ""
        self._connection = connect()

    def evaluate(self, records: pa.Table, pinned: Pinned = NO_LOOKUPS) -> pa.Table:
        """What ``RecordPlan.apply`` gives for ``records`` of other sources, with lookups as ``pinned``. VALUE_CRC is
        null but for the last record of each partition. Of a derived source, ``records`` are its events, validated.
        """
        if self._validator is None:
            return self._evaluate(records.drop_columns([HEADERS]), pinned)
        rows = self._validator.validate(records).append_column(VALUE_CRC, _checksums_of_last(records))
        return self._evaluate(rows.append_column(VALUE_SIZE, pc.binary_length(records[VALUE])), pinned)

    def _evaluate(self, rows: pa.Table, pinned: Pinned) -> pa.Table:
        """The validated ``rows`` with the expressions."""
        if not self._query:
            return rows
        looked_up = add_lookup_columns(self._connection, rows, self._lookups, pinned)
        self._connection.register("rows", looked_up)
        try:
            evaluated = self._connection.execute(self._query).to_arrow_table()
        finally:
            self._connection.unregister("rows")
        for name in evaluated.column_names:
            rows = rows.append_column(name, evaluated[name])
        return rows


def _checksums_of_last(records: pa.Table) -> pa.Array:
    size = records.num_rows
    partitions = records[PARTITION].to_numpy()
    topics = records[TOPIC].combine_chunks().dictionary_encode().indices.to_numpy() if size else partitions
    is_last = np.append((np.diff(partitions) != 0) | (np.diff(topics) != 0), True)[:size]
    checksums = np.zeros(size, np.int64)
    for row in np.flatnonzero(is_last).tolist():
        value = records[VALUE][row].as_py()
        checksums[row] = zlib.crc32(value or b"")
        is_last[row] = value is not None
    return pa.array(checksums, mask=~is_last)
