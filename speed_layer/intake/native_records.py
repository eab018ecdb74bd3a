"""Evaluates records in the task that has read them, without Spark SQL, where their source and its metrics name nothing
but fields. That is much faster: no column crosses into Java.
"""

import zlib
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.compute.projection import Projection
from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.model import Source
from hourline_core.model.branches import Branches
from hourline_core.model.expressions import named_column
from hourline_core.model.scratch_columns import (
    ARRIVED,
    HEADERS,
    ID,
    KEY,
    OFFSET,
    PARTITION,
    RECORD_TIMESTAMP,
    RECORD_TIMESTAMP_TYPE,
    TOPIC,
    VALUE,
    VALUE_CRC,
)
from hourline_core.validation.validator import Validator, is_validated_natively
from speed_layer.intake.headers import headers_of

_KAFKA_TIMESTAMP_TYPES, _TIMESTAMP_TYPES = pa.array([0, 1], pa.int32()), pa.array(["create", "log_append"])


def is_native(source: Source, branches: Branches | None, projection: Projection) -> bool:
    """Whether the records of ``source`` can be evaluated here for the metrics of ``projection``."""
    return (
        branches is None
        and is_validated_natively(source)
        and not projection.evaluates
        and (source.id is None or _id_field(source) is not None)
    )


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
    """Evaluates the records of ``source``."""

    def __init__(self, source: Source) -> None:
        self._validator = Validator(source)
        self._id = _id_field(source)

    def evaluate(self, records: pa.Table) -> pa.Table:
        """What ``RecordPlan.apply`` gives for ``records`` of other sources. VALUE_CRC is null
        but for the last record of each partition.
        """
        rows = self._validator.validate(records).append_column(VALUE_CRC, _checksums_of_last(records))
        return rows if self._id is None else rows.append_column(ID, rows[self._id])


def _id_field(source: Source) -> str | None:
    """The field that the source's id merely names. None: it is an expression, or there is no id."""
    name = named_column(source.id) if source.id else None
    return next((field for field in source.event_fields if field.lower() == name), None)


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
