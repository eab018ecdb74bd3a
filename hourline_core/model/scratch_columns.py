"""The columns that Hourline adds to a source's fields while it works.

All of them have one prefix, which no declared field may begin with. So a field may have any name without it. The layout
of the archive says under which names some of them are stored.
"""

from collections.abc import Container

SCRATCH_PREFIX = "_hourline_"

TOPIC_ID = "_hourline_topic_id"
"""string: the id of the topic, or of the imported file. It never changes."""
TOPIC = "_hourline_topic"
"""string: the name of the topic, or of the imported file."""
PARTITION = "_hourline_partition"
"""int: the partition of the topic."""
OFFSET = "_hourline_offset"
"""bigint: the offset in the partition, or the number of the row in the file."""
PLACE = "_hourline_place"
"""int: the place of the event in its record, from 0; always 0 where records are not exploded. The archive has it under
this name. Before validation, null: the record has no event.
"""
SEQUENCE = "_hourline_sequence"
"""bigint: the number of the micro-batch that read the record."""
RECORD_TIMESTAMP = "_hourline_timestamp"
"""timestamp (UTC): Kafka's timestamp of the record; null for a row of a file."""
RECORD_TIMESTAMP_TYPE = "_hourline_timestamp_type"
"""string: create (by the producer) or log_append (by the broker); null for a row of a file."""
HEADERS = "_hourline_headers"
"""map<string, binary>: the record's headers; null if it has none. Of several with one name, the last."""
HEADERS_TEXT = "_hourline_headers_text"
"""string: the list of the record's headers as JSON, with their values in Base64; null if it has none. A nested column
is too slow on its way to a task of Python: Spark asks for its size at each row.
"""
ARRIVED = "_hourline_arrived"
"""timestamp (UTC): when Spark planned the micro-batch that read the record."""
KEY = "_hourline_key"
"""binary: the record's key; null if it has none."""
VALUE = "_hourline_value"
"""binary: the bytes of the record's value. After validation, on the rows of each record that keep it: on that of its
first event, and on that of its first rejected one. The archive of events has it under this name.
"""
DECODING = "_hourline_decoding"
"""string: the hash of the decoding that made the event, see `model/decoding.py`. The archive of events has it under
this name.
"""
VALUE_CRC = "_hourline_value_crc"
"""bigint: the CRC-32 of the record's value; null if it has none."""
VALUE_SIZE = "_hourline_value_size"
"""int: the number of bytes of the record's value; null if it has none."""
UNDECODED = "_hourline_undecoded"
"""string: why the value could not be decoded; null if it could."""
EVENT_TIME = "_hourline_event_time"
"""timestamp (UTC): when the event happened; null if the record was not accepted."""
HOUR = "_hourline_hour"
"""timestamp (UTC): the start of the hour of the event time; null if the record was not accepted."""
NOT_TAKEN = "_hourline_not_taken"
"""string: null if the source's branch takes the record, else one of NOT_TAKEN_OUTCOMES."""
UNREADABLE = "_hourline_unreadable"
"""string: why the conditions of the branches could not be evaluated; null if they could."""
NOT_TAKEN_OUTCOMES = ("not_taken", "taken_by_none")
"""Not taken by the source's branch; and taken by no branch of the topic, either."""
OUTCOME = "_hourline_outcome"
"""string: accepted, rejected, tombstone (a record without a value), empty (a record without an event), or one of
NOT_TAKEN_OUTCOMES.
"""
REASON = "_hourline_reason"
"""string: why a record was rejected; null if it was not."""
ID = "_hourline_id"
"""Of any type: the value of the source's ``id``; null if there is none, or the record was not accepted."""
ID_HASH = "_hourline_id_hash"
"""bigint: the hash of (id, hour); null if there is no id, or the record was not accepted."""
DUPLICATE = "_hourline_duplicate"
"""boolean: whether the speed layer has recognised the event as a duplicate."""
TAKEN_BACK = "_hourline_taken_back"
"""boolean: whether the event takes back the one with its id. Null: it does not."""
IS_FIRST = "_hourline_is_first"
"""boolean: whether an archived event is the first one of its id and hour; of a source whose events are taken back, the
only one.
"""
COUNTS = "_hourline_counts"
"""boolean: whether an archived event counts in results."""


def lookup_column(name: str, column: str) -> str:
    """The column of events with a column of the lookup that the source calls ``name``, where tasks evaluate
    expressions.
    """
    return f"{SCRATCH_PREFIX}lookup_{name}.{column}"


def visible_name(column: str, fields: Container[str]) -> str:
    """The name of one of these columns as users see it: without the prefix, unless a field has that name.

    ``fields`` are the names of the fields in lower case, since Spark and DuckDB ignore case in names.
    """
    name = column.removeprefix(SCRATCH_PREFIX)
    return column if name in fields else name


RECORD = "record"
"""struct: what expressions may name of the record itself, see `compute/record.py`. No field may have this name."""
