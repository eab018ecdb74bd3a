"""The interface of a format: a record's bytes become typed fields, or a reason why not. Each format is one folder here.

There is one decoder of a format. The stream, the import of files and the decoding of archived records all use it. A new
format is a class with this interface, one line in `decoder_of`, and its name in `model/record_format.py`.
"""

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from hourline_core.formats.avro.decoder import AvroDecoder
from hourline_core.formats.avro.writers import AvroWriters
from hourline_core.formats.csv.decoder import CsvDecoder
from hourline_core.formats.decoded_records import DecodedRecords
from hourline_core.formats.json.decoder import JsonDecoder
from hourline_core.formats.json.writers import JsonWriters
from hourline_core.formats.registry.decoder import RegistryDecoder, Writers
from hourline_core.formats.text.decoder import TextDecoder
from hourline_core.model.fields import Field
from hourline_core.model.record_format import RecordFormat


class Decoder(Protocol):
    """Decodes the values of records."""

    @property
    def fault(self) -> str | None:
        """Why no record at all can be decoded: the schema lacks a field, or has it with a type that does not fit."""

    def decode(self, values: pa.Array) -> DecodedRecords:
        """Decode ``values`` (binary), each alone: what is wrong with one changes nothing of another.

        A null value has no fields and no reason: validation handles it, and an empty one if the format does not take
        it. Never raises, whatever the bytes; but RegistryError if a schema registry that has to be asked does not
        answer.
        """


def decode(decoder: Decoder, values: pa.Array, schema_ids: pa.Array | None = None) -> DecodedRecords:
    """What ``decoder`` makes of ``values``. ``schema_ids`` (binary) are the values of their header HEADER, of a format
    that uses a registry. None: they have none.
    """
    return decoder.decode(values, schema_ids) if isinstance(decoder, RegistryDecoder) else decoder.decode(values)


def decoder_of(format: RecordFormat, fields: Mapping[str, Field]) -> Decoder:
    """The decoder of records in ``format`` with ``fields``."""
    if format.registry:
        return RegistryDecoder(format.registry, _writers_of(format, fields), fields)
    if format.avro:
        return AvroDecoder(format.avro.schema_, fields)
    if format.csv:
        return CsvDecoder(format.csv, fields)
    if format.text:
        return TextDecoder(format.text, fields)
    if format.protobuf:
        # Protobuf's library is imported by those alone who need it.
        from hourline_core.formats.protobuf.decoder import ProtobufDecoder

        return ProtobufDecoder(format.protobuf.compiled, format.protobuf.full_name, fields)
    return JsonDecoder(fields)


def _writers_of(format: RecordFormat, fields: Mapping[str, Field]) -> Writers:
    if format.avro:
        return AvroWriters(format.avro.schema_, fields)
    if protobuf := format.protobuf:
        from hourline_core.formats.protobuf.writers import ProtobufWriters

        return ProtobufWriters(protobuf.schema_, protobuf.compiled, protobuf.full_name, fields)
    return JsonWriters(fields)
