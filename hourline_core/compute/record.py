"""The Kafka record itself, as declared expressions name it: ``record.key``, ``record.headers['trace']``, …"""

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)
from pyspark.sql.pandas.functions import arrow_udf

from hourline_core.model import Source
from hourline_core.model.scratch_columns import (
    ARRIVED,
    HEADERS,
    KEY,
    OFFSET,
    PARTITION,
    PLACE,
    RECORD,
    RECORD_TIMESTAMP,
    RECORD_TIMESTAMP_TYPE,
    TOPIC,
)
from hourline_core.validation.keys import find_undecodable


def with_record(events: DataFrame, source: Source) -> DataFrame:
    """Add ``record``, a struct, to events or records with the columns of `model/scratch_columns.py`.

    key (of the source's ``key_type``, null if it is not of this type), headers (map<string, string>: UTF-8, invalid
    bytes become U+FFFD), timestamp (UTC), timestamp_type (create or log_append), topic, partition (int), offset
    (bigint), place (int), arrived (UTC). A row of a file has no key, headers and timestamp. All but the address and
    place may also be null for events that were archived by an earlier Hourline 0.2.
    """
    columns = {
        "key": _decoded_key(source),
        "headers": F.transform_values(HEADERS, lambda _, value: F.make_valid_utf8(value.cast("string"))),
        "timestamp": F.col(RECORD_TIMESTAMP),
        "timestamp_type": F.col(RECORD_TIMESTAMP_TYPE),
        "topic": F.col(TOPIC),
        "partition": F.col(PARTITION),
        "offset": F.col(OFFSET),
        "place": F.col(PLACE),
        "arrived": F.col(ARRIVED),
    }
    return events.withColumn(RECORD, F.struct(*(column.alias(name) for name, column in columns.items())))


def undecodable_key(source: Source) -> Column:
    """Why the record's key is not of the source's ``key_type``, in words. Null if it is, or if there is no key."""
    key_type = source.key_type
    if key_type == "binary":
        return F.lit(None).cast("string")

    def find(keys: pa.Array) -> pa.Array:
        return find_undecodable(keys, key_type)

    # The kind of function is told by its type hints, or Spark warns.
    return arrow_udf(find, "string")(KEY)  # type: ignore[call-overload,no-any-return]


def _decoded_key(source: Source) -> Column:
    key = F.col(KEY)
    match source.key_type:
        case "binary":
            return key
        case "string":
            return F.when(F.is_valid_utf8(key.cast("string")), key.cast("string"))
        case "int":
            return F.when(F.length(key) == 4, F.conv(F.hex(key), 16, 10).cast("bigint").cast("int"))
        case "long":
            # A negative base gives a signed number.
            return F.when(F.length(key) == 8, F.conv(F.hex(key), 16, -10).cast("bigint"))
