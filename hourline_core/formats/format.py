"""The interface of a format: a record's bytes become typed fields, or a reason why not. Each format is one folder here.

There is one decoder of a format. The stream, the import of files and the decoding of archived records all use it. A new
format, such as Avro, is a class with this interface, one line in `decoder_of`, and its name in `Source.format`.
"""

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from hourline_core.formats.decoded_records import DecodedRecords
from hourline_core.formats.json.decoder import JsonDecoder
from hourline_core.model.fields import Field


class Decoder(Protocol):
    """Decodes the values of records."""

    def decode(self, values: pa.Array) -> DecodedRecords:
        """Decode ``values`` (binary), each alone: what is wrong with one changes nothing of another.

        A null or empty value has no fields and no reason: validation handles it. Never raises, whatever the bytes.
        """


def decoder_of(format: str, fields: Mapping[str, Field]) -> Decoder:
    """The decoder of records in ``format`` with ``fields``. JSON is the only format so far."""
    assert format == "json", "the only format that a source can declare"
    return JsonDecoder(fields)
