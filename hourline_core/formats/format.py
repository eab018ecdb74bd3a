"""The interface of a format: a record's bytes become typed fields. Each format is one file of this folder.

A new format, such as Avro, is a class with this interface, one line in `format_of`, and its name in `Source.format`.
"""

from typing import Protocol

from pyspark.sql import DataFrame

from hourline_core.formats.json_format import JsonFormat
from hourline_core.model import Source


class RecordFormat(Protocol):
    """Decodes the values of a source's records by Spark expressions."""

    def decode(self, records: DataFrame, *, explain: bool) -> DataFrame:
        """Add the declared fields, and UNDECODED (string), to ``records``, which have VALUE (binary).

        UNDECODED is null if the value was decoded, else it says why not. Without ``explain`` it may be UNEXPLAINED, if
        finding the words would slow down all other records. A value that is not exactly one record is never decoded.
        The fields have their declared types, and are null if the record lacks them. Neither means anything for a null
        or empty value, which validation handles first, and fields mean nothing beside an UNDECODED. Nothing is dropped,
        and nothing raises.
        """


def format_of(source: Source) -> RecordFormat:
    """The format of the records of ``source``. JSON is the only one so far."""
    return JsonFormat(source.fields)
