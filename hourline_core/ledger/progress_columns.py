"""The columns of progress."""

import pyarrow as pa

from hourline_core.ledger.columns import Column, Columns, schema_of
from hourline_core.ledger.layout import TIMESTAMP

PROGRESS_COLUMNS: Columns = {
    "sequence": Column(pa.int64(), "The number of the micro-batch or reset. It strictly increases."),
    "topic_id": Column(
        pa.string(),
        "Kafka's id of the topic, or the id of an imported file. Of a derived source, the id of an input's progress. "
        "An input has the partition 0, and its sequences are offsets.",
    ),
    "topic": Column(pa.string(), "The name of the topic, of the imported file, or of the input of a derived source."),
    "offsets": Column(
        pa.list_(pa.struct({"partition": pa.int32(), "first": pa.int64(), "last": pa.int64()})),
        "The lowest and the highest offset that were read of each partition. There need not be a record at the highest "
        "one: a transaction may have ended there. `last` is below `first` where there was no record to read.",
    ),
    "position": Column(
        pa.list_(pa.struct({"partition": pa.int32(), "unread": pa.int64(), "offset": pa.int64()})),
        "In a reset: the `offset` at which each partition is read on. Offsets from `unread` up to it are skipped. Null "
        "in other rows.",
    ),
    "gaps": Column(
        pa.list_(
            pa.struct(
                {
                    "partition": pa.int32(),
                    "first": pa.int64(),
                    "end": pa.int64(),
                    "sent_after": TIMESTAMP,
                    "sent_before": TIMESTAMP,
                    "first_hour": TIMESTAMP,
                    "last_hour": TIMESTAMP,
                }
            )
        ),
        "In a reset: the offsets from `first` up to `end` that Kafka had deleted before they were read, between which "
        "times they were sent, and the hours in which their events may lie. Null in other rows.",
    ),
    "records": Column(
        pa.int64(),
        "The number of records: records + exploded = accepted + rejected + duplicates + tombstones + empty + "
        "not_taken. A record that is read again after a reset is not counted again.",
    ),
    "accepted": Column(pa.int64(), "The number of accepted events."),
    "rejected": Column(pa.int64(), "The number of rejected events."),
    "duplicates": Column(pa.int64(), "The number of duplicates; of a source that takes events back, of these."),
    "tombstones": Column(pa.int64(), "The number of records without a value."),
    "not_taken": Column(
        pa.int64(),
        "The number of records that the source's branch does not take; of a derived source, the number of events of "
        "its inputs that have null in their key. They are not archived. Null is 0: an older version of Hourline wrote "
        "the row.",
    ),
    "taken_by_none": Column(
        pa.int64(),
        "The number of records that no branch of the topic took when they were read first. Without a branch "
        "`otherwise`, the first source by name counts them. Null is 0.",
    ),
    "exploded": Column(
        pa.int64(),
        "The number of events beyond the first one of each record, if the source declares `explode`; else 0. Null is "
        "0, too: an older version of Hourline wrote the row.",
    ),
    "empty": Column(
        pa.int64(), "The number of records without an event: the array to explode was empty or null. Null is 0."
    ),
    "hours": Column(
        pa.list_(pa.struct({"hour": TIMESTAMP, "events": pa.int64(), "late": pa.int64()})),
        "The number of accepted events of each hour, and of those that came after the hour had closed.",
    ),
    "metrics": Column(
        pa.list_(pa.struct({"metric": pa.string(), "declaration": pa.string(), "complete_from": pa.int64()})),
        "The metrics whose tiles were written. `complete_from` is the sequence from which on their rows are complete.",
    ),
    "clock": Column(TIMESTAMP, "The source's clock after it. It never goes back."),
    "partitions": Column(
        pa.list_(
            pa.struct(
                {
                    "topic_id": pa.string(),
                    "partition": pa.int32(),
                    "clock": TIMESTAMP,
                    "arrived": TIMESTAMP,
                    "ahead": pa.list_(TIMESTAMP),
                    "held_back": pa.int64(),
                }
            )
        ),
        "The clock of each partition after it: its highest event time that counts, when its last record arrived, the "
        "event times that wait for others to confirm them, and the number of records that none has confirmed. Null: "
        "an earlier Hourline 0.2 has written the row.",
    ),
    "cluster": Column(
        pa.string(),
        "The id of the Kafka cluster that was read, or reset. Null: it is not known, or the rows of a file were read.",
    ),
    "last_records": Column(
        pa.list_(
            pa.struct({"partition": pa.int32(), "offset": pa.int64(), "timestamp": TIMESTAMP, "checksum": pa.string()})
        ),
        "The last record that was read of each partition: Kafka's timestamp of it, and a checksum of its key, value "
        "and headers. In a reset: those that Kafka still had. Null: an earlier Hourline 0.2 has written the row.",
    ),
    "lookups": Column(
        pa.list_(pa.struct({"lookup": pa.string(), "version": pa.int64()})),
        "The versions of the source's lookups that the micro-batch used. Null, or empty: none.",
    ),
    "taken_back": Column(
        pa.list_(pa.struct({"hour": TIMESTAMP, "events": pa.int64()})),
        "Of a left or full join, a snapshot, an upsert or a join of these: how many events of each hour were taken "
        "back. They are among the duplicates. Null, or empty: none.",
    ),
    "started": Column(TIMESTAMP, "When the micro-batch began."),
    "finished": Column(TIMESTAMP, "When the micro-batch was finished."),
}
PROGRESS_SCHEMA = schema_of(PROGRESS_COLUMNS)
