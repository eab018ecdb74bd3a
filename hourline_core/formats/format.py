"""The seam where a record's bytes become typed fields. Each format is one file of this folder.

A new format, such as Avro, is a class with this interface, and one line in `format_of`.
"""

from typing import Protocol

from pyspark.sql import DataFrame

from hourline_core.formats.json_format import JsonFormat
from hourline_core.model import Source


class RecordFormat(Protocol):
    """How the values of a source's records are decoded, by Spark expressions."""

    def decode(self, records: DataFrame) -> DataFrame:
        """Add the declared fields, and UNDECODED (string), to ``records``, which have VALUE (binary).

        UNDECODED is null where the value was decoded, else it says why not, for people. It is never null for a
        value that is not exactly one record. The fields have their declared types, and are null where the record lacks
        them. They mean nothing where UNDECODED is not null, and neither column means anything for a null or empty value,
        since validation comes first with these. Nothing is dropped, and nothing raises.
        """


def format_of(source: Source) -> RecordFormat:
    """The format of the records of ``source``: JSON is the only one so far."""
    return JsonFormat(source.fields)
