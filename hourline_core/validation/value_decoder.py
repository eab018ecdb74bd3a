"""Decodes the values of records: those of Kafka by the format of their source, and rows of imported files as JSON.

A file has a format of its own. Its rows were made JSON objects, or are rows of CSV, when it was imported; or they are
records in the format of their source.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.formats.decoded_records import DecodedRecords
from hourline_core.formats.format import decode, decoder_of
from hourline_core.formats.json.decoder import JsonDecoder
from hourline_core.formats.registry.wire_format import HEADER
from hourline_core.model.fields import Field
from hourline_core.model.record_format import RecordFormat
from hourline_core.model.scratch_columns import HEADERS, VALUE
from hourline_core.validation.file_rows import as_json_objects, find_csv_rows, find_rows


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a batch of records, and what says how each is read."""

    values: pa.Array
    """binary. Null: there is nothing to decode, and no reason."""
    is_csv: pa.Array | None = None
    """boolean, see ``find_csv_rows``."""
    is_imported: pa.Array | None = None
    """boolean: whether the record is a row of a file, and read as JSON. None: none is, or all are JSON."""
    schema_ids: pa.Array | None = None
    """binary, see ``decode``."""


def values_of(records: pa.RecordBatch, format: RecordFormat) -> Values:
    """The values of ``records`` in ``format``, which have VALUE, HEADERS and RECORD_TIMESTAMP_TYPE."""
    return Values(
        records[VALUE],
        find_csv_rows(records),
        None if format.is_plain_json else find_rows(records),
        pc.map_lookup(records[HEADERS], HEADER, "last") if format.uses_registry else None,
    )


class ValueDecoder:
    """Decodes the values of records in ``format`` with ``fields``, and rows of files."""

    def __init__(self, format: RecordFormat, fields: Mapping[str, Field]) -> None:
        self._of_records = decoder_of(format, fields)
        self._of_rows = JsonDecoder(fields)
        self._fields = fields
        self._takes_empty = format.takes_empty

    def are_empty(self, values: Values) -> pa.Array:
        """Whether each value (boolean) has no bytes, where some have to be: rows of files need some always."""
        are_empty = pc.equal(pc.binary_length(values.values), 0)
        if not self._takes_empty:
            return are_empty
        return pc.and_(are_empty, pa.scalar(False) if values.is_imported is None else values.is_imported)

    def decode(self, values: Values) -> DecodedRecords:
        """What the values become. Raises as ``Decoder.decode``."""
        written = as_json_objects(values.values, values.is_csv, self._fields)
        imported = values.is_imported
        if imported is None or not pc.any(imported).as_py():
            return decode(self._of_records, written, values.schema_ids)
        if pc.all(imported).as_py():
            return self._of_rows.decode(written)
        ids = values.schema_ids
        is_row: np.ndarray[tuple[int], np.dtype[np.bool_]] = imported.to_numpy(zero_copy_only=False)
        records, rows = np.flatnonzero(~is_row), np.flatnonzero(is_row)
        of_records = decode(self._of_records, written.take(records), None if ids is None else ids.take(records))
        of_rows = self._of_rows.decode(written.take(rows))
        # The places of both, behind each other, in the order of the batch.
        order = pa.array(np.argsort(np.concatenate([records, rows])))

        def merge(one: pa.Array, other: pa.Array) -> pa.Array:
            return pa.concat_arrays([one, other]).take(order)

        columns = {name: merge(column, of_rows.columns[name]) for name, column in of_records.columns.items()}
        return DecodedRecords(columns, merge(of_records.reasons, of_rows.reasons))
