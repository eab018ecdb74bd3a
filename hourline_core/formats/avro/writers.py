"""Decodes records in Avro that were written by other schemas than that of their source."""

from collections.abc import Mapping

from hourline_core.formats.avro.decoder import AvroRecords
from hourline_core.formats.avro.resolution import resolve
from hourline_core.formats.registry.decoder import UnreadableError
from hourline_core.formats.registry.written_schema import SchemaKind, WrittenSchema
from hourline_core.formats.typed_columns import RecordConversion
from hourline_core.model.avro_schema import AvroSchemaError, parse_avro
from hourline_core.model.fields import Field


class AvroWriters:
    """Makes decoders of records with ``fields``, whose source declares ``schema``, a text as JSON."""

    kind: SchemaKind = "AVRO"
    takes_empty = False

    def __init__(self, schema: str, fields: Mapping[str, Field]) -> None:
        self._schema, self._fields = schema, dict(fields)
        self._record = parse_avro(schema)

    def __reduce__(self) -> tuple[type["AvroWriters"], tuple[str, dict[str, Field]]]:
        return AvroWriters, (self._schema, self._fields)

    @property
    def fault(self) -> str | None:
        """See ``Writers``."""
        fault = RecordConversion(self._record, self._fields).fault
        return fault.reason() if fault else None

    def decoder_of(self, schema: WrittenSchema, message: tuple[int, ...] = ()) -> AvroRecords:
        """See ``Writers``. A record of another name is another thing, whatever its members are called."""
        try:
            writer = parse_avro(schema.text, schema.references)
        except AvroSchemaError as error:
            raise UnreadableError(f"it is not valid: {error}") from None
        names = dict.fromkeys(map(_short, (self._record.name, *self._record.aliases)))
        if _short(writer.name) not in names:
            raise UnreadableError(f"got {writer}, want record {' or '.join(names)}")
        return AvroRecords(resolve(writer, self._record), self._fields)


def _short(name: str) -> str:
    """``name`` without its namespace."""
    return name.rpartition(".")[2]
