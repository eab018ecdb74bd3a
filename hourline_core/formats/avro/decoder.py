"""Decodes records in Avro's binary encoding by the schema of their source."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.formats.avro.binary import Cursor, MalformedError, Readers
from hourline_core.formats.avro.columns import column_reader
from hourline_core.formats.columns.recursion import despite_depth
from hourline_core.formats.decoded_records import DecodedRecords
from hourline_core.formats.typed_columns import RecordConversion, TypedColumns
from hourline_core.model.avro_schema import parse_avro
from hourline_core.model.fields import Field
from hourline_core.model.record_types import Record

_MOST_AT_ONCE = 8 << 20
"""The bytes of records that are read column by column at once: that takes up to 30 times as many of memory."""


def _join(one: DecodedRecords, other: DecodedRecords) -> DecodedRecords:
    columns = {name: pa.concat_arrays([column, other.columns[name]]) for name, column in one.columns.items()}
    return DecodedRecords(columns, pa.concat_arrays([one.reasons, other.reasons]))


class AvroRecords:
    """Decodes records of the schema of ``record``, whose fields are ``fields``."""

    def __init__(self, record: Record, fields: Mapping[str, Field]) -> None:
        self._fields = dict(fields)
        self._conversion = RecordConversion(record, self._fields)
        self._read = Readers().of_record(record, self._conversion.members)
        self._columns = None if self._conversion.fault else column_reader(record, self._fields)

    @property
    def fault(self) -> str | None:
        """Why no record can be decoded; see ``Decoder``."""
        return self._conversion.fault.reason() if self._conversion.fault else None

    def decode(self, values: pa.Array | pa.ChunkedArray) -> DecodedRecords:
        """Decode binary ``values``, each alone. See ``Decoder``."""
        array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        if array.nbytes > _MOST_AT_ONCE and len(array) > 1:
            middle = len(array) // 2
            return _join(self.decode(array[:middle]), self.decode(array[middle:]))
        if self._columns is None or not len(array) or array.nbytes > _MOST_AT_ONCE:
            return self._decode_each(array)
        columns, is_read = self._columns.read(pc.fill_null(array.cast(pa.binary()), b""))
        if is_read.all():
            return DecodedRecords(columns, pa.nulls(len(array), pa.string()))
        others = np.flatnonzero(~is_read)
        decoded = self._decode_each(array.take(pa.array(others)))
        # In the place of each other record, what it was decoded into.
        chosen = np.arange(len(array))
        chosen[others] = len(array) + np.arange(len(others))
        places = pa.array(chosen)
        merged = {name: pa.concat_arrays([column, decoded.columns[name]]) for name, column in columns.items()}
        reasons = pa.concat_arrays([pa.nulls(len(array), pa.string()), decoded.reasons])
        return DecodedRecords({name: column.take(places) for name, column in merged.items()}, reasons.take(places))

    def _decode_each(self, values: pa.Array) -> DecodedRecords:
        columns = TypedColumns(self._fields, len(values))
        for place, value in enumerate(values.to_pylist()):
            if not value:
                continue
            try:
                members = despite_depth(lambda data: self._read(Cursor(data)), value)
            except MalformedError as fault:
                columns.refuse(place, fault.reason())
            else:
                columns.add(place, self._conversion, members)
        return columns.finish()


class AvroDecoder(AvroRecords):
    """Decodes records of ``schema``, a text as JSON, whose fields are ``fields``. It can be pickled."""

    def __init__(self, schema: str, fields: Mapping[str, Field]) -> None:
        super().__init__(parse_avro(schema), fields)
        self._schema = schema

    def __reduce__(self) -> tuple[type["AvroDecoder"], tuple[str, dict[str, Field]]]:
        return AvroDecoder, (self._schema, self._fields)
