"""Decodes records in Spark: the decoder of their format, called in Spark's Python workers with Arrow columns."""

import gc
from collections.abc import Callable, Mapping
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)
from pyspark.sql.pandas.functions import arrow_udf

from hourline_core.formats.files.typed_row import TypedRow
from hourline_core.formats.format import Decoder, decoder_of
from hourline_core.model.fields import Field
from hourline_core.model.scratch_columns import HEADERS, RECORD_TIMESTAMP_TYPE, SCRATCH_PREFIX, UNDECODED, VALUE

CONTENT_TYPE, CSV = "content-type", b"text/csv"
"""The header of an imported record that is a row of a CSV file, and its value. No record of Kafka is taken for one."""
_DECODED = f"{SCRATCH_PREFIX}decoded"


def decode(records: DataFrame, format: str, fields: Mapping[str, Field]) -> DataFrame:
    """Add ``fields``, and UNDECODED (string), to ``records``, which have VALUE (binary), HEADERS and
    RECORD_TIMESTAMP_TYPE. Rows of imported CSV files are told by their header CONTENT_TYPE.

    UNDECODED is null if the value was decoded, else it says why not, and all fields are null. The fields have their
    declared types, and are null if the record lacks them. Of a null or empty value, all is null. Nothing is dropped,
    and nothing raises.
    """
    # A row of a CSV file is kept as texts. What they stand for is up to the declaration.
    is_csv = F.col(RECORD_TIMESTAMP_TYPE).isNull() & (F.col(HEADERS)[CONTENT_TYPE] == F.lit(CSV))
    types = ", ".join(f"`{name}` {field.spark_type}" for name, field in fields.items())
    decoded = records.withColumn(
        _DECODED,
        # The kind of function is told by its type hints, or Spark warns.
        arrow_udf(_decoding(format, fields), f"{types}, `{UNDECODED}` string")(  # type: ignore[call-overload]
            VALUE, F.coalesce(is_csv, F.lit(False))
        ),
    )
    columns = [F.col(f"{_DECODED}.`{name}`").alias(name) for name in (*fields, UNDECODED)]
    return decoded.select(*records.columns, *columns)


def _decoding(format: str, fields: Mapping[str, Field]) -> Callable[[pa.Array, pa.Array], pa.Array]:
    declared = tuple(fields.items())

    def decode_values(values: pa.Array, is_csv: pa.Array) -> pa.Array:
        if pc.any(is_csv).as_py():
            typed, rows = TypedRow(fields), zip(values.to_pylist(), is_csv.to_pylist(), strict=True)
            values = pa.array([typed(value) if value and csv else value for value, csv in rows], pa.binary())
        decoded = _worker_decoder(format, declared).decode(values)
        return pa.StructArray.from_arrays([*decoded.columns.values(), decoded.reasons], [*decoded.columns, UNDECODED])

    return decode_values


@cache
def _worker_decoder(format: str, fields: tuple[tuple[str, Field], ...]) -> Decoder:
    """The decoder of this worker process.

    Spark's worker collects garbage after each task, which would go through all that was imported: 40 ms a task.
    """
    gc.collect()
    gc.freeze()
    return decoder_of(format, dict(fields))
