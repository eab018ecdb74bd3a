"""Records that are rows of files. Those of CSV are kept as texts: what they stand for is up to the declaration."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.formats.files.typed_row import TypedRow
from hourline_core.model.fields import Field
from hourline_core.model.scratch_columns import HEADERS, RECORD_TIMESTAMP_TYPE

CONTENT_TYPE = "content-type"
"""The header of a record that is a row of a file. No record of Kafka is taken for one. Without it, the row is JSON."""
CSV = b"text/csv"
"""Its value for a row of a CSV file."""
OWN_FORMAT = b"application/octet-stream"
"""Its value for a record in the format of its source, such as a line of text."""


def find_csv_rows(records: pa.RecordBatch) -> pa.Array | None:
    """Whether each record, with RECORD_TIMESTAMP_TYPE and HEADERS, is a row of a CSV file. None: no record is."""
    types = records[RECORD_TIMESTAMP_TYPE]
    if not types.null_count:
        return None
    return pc.and_(types.is_null(), _has_content_type(records, CSV))


def find_rows(records: pa.RecordBatch) -> pa.Array | None:
    """Whether each record, as above, is a row of a file that is read as JSON, whatever the format of its source. None:
    no record is.
    """
    types = records[RECORD_TIMESTAMP_TYPE]
    if not types.null_count:
        return None
    return pc.and_(types.is_null(), pc.invert(_has_content_type(records, OWN_FORMAT)))


def _has_content_type(records: pa.RecordBatch, content_type: bytes) -> pa.Array:
    content_types = pc.map_lookup(records[HEADERS], CONTENT_TYPE, "last")
    return pc.fill_null(pc.equal(content_types, content_type), False)


def as_json_objects(values: pa.Array, is_csv: pa.Array | None, fields: Mapping[str, Field]) -> pa.Array:
    """``values`` (binary), in which the rows of CSV files are the JSON objects that a source with ``fields`` reads."""
    if is_csv is None or not pc.any(is_csv).as_py():
        return values
    typed, rows = TypedRow(fields), zip(values.to_pylist(), is_csv.to_pylist(), strict=True)
    return pa.array([typed(value) if value and csv else value for value, csv in rows], pa.binary())
