"""The columns that Hourline adds to a source's fields while it works, and does not store in the archive of events.

All of them have one prefix, which no declared field may begin with. So a field may have any name without it.
"""

SCRATCH_PREFIX = "_hourline_"

ARRIVED = "_hourline_arrived"
"""timestamp (UTC): when Spark planned the micro-batch that read the record."""
KEY = "_hourline_key"
"""binary: the key of a record that was rejected."""
VALUE = "_hourline_value"
"""binary: the value of a record that was rejected; while a record is validated, of each one."""
UNDECODED = "_hourline_undecoded"
"""string: why the value could not be decoded; null where it could be."""
EVENT_TIME = "_hourline_event_time"
"""timestamp (UTC): the event time of a record, before it is known to be accepted."""
OUTCOME = "_hourline_outcome"
"""string: accepted, rejected or tombstone."""
REASON = "_hourline_reason"
"""string: why a record was rejected; null where it was not."""
ID_HASH = "_hourline_id_hash"
"""bigint: the hash of (id, hour); null where there is no id, or no accepted event."""
IS_FIRST = "_hourline_is_first"
"""boolean: whether an archived event is the first one of its id and hour."""
COUNTS = "_hourline_counts"
"""boolean: whether an archived event counts in results."""
