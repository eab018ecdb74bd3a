"""Decodes records in Avro's binary encoding by the schema of their source."""

from collections.abc import Mapping

import pyarrow as pa

from hourline_core.formats.avro.binary import Cursor, MalformedError, Readers
from hourline_core.formats.columns.recursion import despite_depth
from hourline_core.formats.decoded_records import DecodedRecords
from hourline_core.formats.typed_columns import RecordConversion, TypedColumns
from hourline_core.model.avro_schema import parse_avro
from hourline_core.model.fields import Field


class AvroDecoder:
    """Decodes records of ``schema``, a text as JSON, whose fields are ``fields``. It can be pickled."""

    def __init__(self, schema: str, fields: Mapping[str, Field]) -> None:
        self._schema, self._fields = schema, dict(fields)
        record = parse_avro(schema)
        self._conversion = RecordConversion(record, self._fields)
        self._read = Readers().of_record(record, self._conversion.members)

    def __reduce__(self) -> tuple[type["AvroDecoder"], tuple[str, dict[str, Field]]]:
        return AvroDecoder, (self._schema, self._fields)

    @property
    def fault(self) -> str | None:
        """Why no record can be decoded; see ``Decoder``."""
        return self._conversion.fault.reason() if self._conversion.fault else None

    def decode(self, values: pa.Array | pa.ChunkedArray) -> DecodedRecords:
        """Decode binary ``values``, each alone. See ``Decoder``."""
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
