"""Records that are rows of imported CSV files. They are kept as texts: what they stand for is up to the declaration."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.formats.files.typed_row import TypedRow
from hourline_core.model.fields import Field
from hourline_core.model.scratch_columns import HEADERS, RECORD_TIMESTAMP_TYPE

CONTENT_TYPE, CSV = "content-type", b"text/csv"
"""The header of an imported record that is a row of a CSV file, and its value. No record of Kafka is taken for one."""


def find_csv_rows(records: pa.RecordBatch) -> pa.Array | None:
    """Whether each record, with RECORD_TIMESTAMP_TYPE and HEADERS, is a row of a CSV file. None: no record is."""
    types = records[RECORD_TIMESTAMP_TYPE]
    if not types.null_count:
        return None
    content_types = pc.map_lookup(records[HEADERS], CONTENT_TYPE, "last")
    return pc.and_(types.is_null(), pc.fill_null(pc.equal(content_types, CSV), False))


def as_json_objects(values: pa.Array, is_csv: pa.Array | None, fields: Mapping[str, Field]) -> pa.Array:
    """``values`` (binary), in which the rows of CSV files are the JSON objects that a source with ``fields`` reads."""
    if is_csv is None or not pc.any(is_csv).as_py():
        return values
    typed, rows = TypedRow(fields), zip(values.to_pylist(), is_csv.to_pylist(), strict=True)
    return pa.array([typed(value) if value and csv else value for value, csv in rows], pa.binary())
