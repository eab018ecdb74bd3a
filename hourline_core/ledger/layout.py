"""The place of each table. No other file knows it. The columns of tables are here, too, except those of progress,
coverage and findings (progress_columns.py, coverage_rows.py, findings.py).

    <tables>/events/<source>                     every accepted event, as the speed layer read it
    <tables>/rejected/<source>                   every event that was not accepted, with its record and the reason;
                                                 and tombstones
    <tables>/quarantine/<source>                 every event that a class of a metric failed for, if one has a class
    <tables>/progress/<source>                   one row per topic and finished micro-batch, or reset
    <tables>/provisional/<metric>/<declaration>  partial states, one set per sequence
    <tables>/decoded/<source>/<decoding>         events of archived records, decoded anew by another declaration
    <tables>/staged/<metric>/<declaration>       what the last recompute computed, before it was published
    <tables>/final/<metric>/<declaration>        partial states of covered hours
    <tables>/lookups/<lookup>                    the rows of each lookup; each content that was read is a version
    <tables>/coverage                            which version of final counts, the cutoffs, and which hours are blocked
    <tables>/drift                               how much each recomputed hour changed, and why
    <tables>/quality                             the findings of each recomputed hour's audit, one row per expectation
    <tables>/confirmations                       the gaps that a person has confirmed
    <tables>/findings                            what a person should know of a source, and when it was found
    <tables>/checksums                           of the data files of all tables, as `hourline verify` saw them first

``<declaration>`` is the hash of the metric's declaration: a changed declaration has other columns and other numbers,
hence other tables. ``<decoding>`` is the hash of the settings of a source that decide how records become events. All
timestamps are microseconds in UTC; every column is nullable, since writers differ in what they take for NOT NULL.
"""

import hashlib
from collections.abc import Container
from dataclasses import dataclass, field

import pyarrow as pa

from hourline_core.ledger.columns import Column, Columns, schema_of
from hourline_core.model import Lookup, Metric, Project, Source, declaration_hash
from hourline_core.model.decoding import BYTES_ALONE, TOMBSTONE
from hourline_core.model.scratch_columns import (
    DECODING,
    EVENT_TIME,
    HOUR,
    OFFSET,
    PARTITION,
    PLACE,
    SCRATCH_PREFIX,
    SEQUENCE,
    TOPIC,
    TOPIC_ID,
    VALUE,
)

TIMESTAMP = pa.timestamp("us", tz="UTC")

_ADDRESS = {
    "topic_id": Column(
        pa.string(),
        "Kafka's id of the topic, which another topic of the same name does not have; or the id of an imported file. "
        "Of a derived event, the id of the progress of the input whose event came later.",
    ),
    "topic": Column(
        pa.string(),
        "The name of the topic or of the imported file. Of a derived event, that of the input whose event came later.",
    ),
    "partition": Column(pa.int32(), "The partition of the topic."),
    "offset": Column(
        pa.int64(),
        "The offset in the partition, or the number of the row in the file. Of a derived event, the sequence of the "
        "input's micro-batch.",
    ),
    # It has the prefix, since a field of an archive that is older than this column may be called `place`.
    PLACE: Column(
        pa.int32(),
        "The place of the event in its record, from 0, if the source declares `explode`. Of a derived event, its place "
        "among those of the same micro-batch. Otherwise 0. Null is 0, too: an earlier Hourline 0.2 read it.",
    ),
}
"""The identity of an event: topic id, partition, offset and place. Without the place, that of its record. The topic's
name is for people.
"""

EVENT_COLUMNS: Columns = {
    "sequence": Column(pa.int64(), "The number of the micro-batch that read the event."),
    **_ADDRESS,
    "event_time": Column(TIMESTAMP, "When the event happened."),
    "hour": Column(TIMESTAMP, "The start of the hour of `event_time`."),
    "duplicate": Column(pa.bool_(), "Whether the speed layer has recognised it as a duplicate, which does not count."),
    "record": Column(
        pa.struct(
            {
                "key": pa.binary(),
                "headers": pa.map_(pa.string(), pa.binary()),
                "timestamp": TIMESTAMP,
                "timestamp_type": pa.string(),
                "arrived": TIMESTAMP,
            }
        ),
        "The rest of the Kafka record: key and headers as bytes, and Kafka's timestamp, which the producer (`create`) "
        "or the broker (`log_append`) has set. `arrived`: when the micro-batch that read it was planned. Null: "
        "an earlier Hourline 0.2 archived the event.",
    ),
    # They have the prefix for the same reason as the place.
    VALUE: Column(
        pa.binary(),
        "The bytes of the record's value, on the row of its first event. Null: they are on another row of the record, "
        "here or in rejected, or were not kept (`raw: false`, or an earlier Hourline 0.2).",
    ),
    DECODING: Column(
        pa.string(),
        "The hash of the declared settings that made the event of the record. Null: an earlier Hourline 0.2 did.",
    ),
}
"""The first columns of the events table. The source's declared fields follow, with the names of ``stored_names``."""
EVENT_SCHEMA = schema_of(EVENT_COLUMNS)

_FIELD_PREFIX = f"{SCRATCH_PREFIX}field_"


def stored_names(source: Source, archived: Container[str] = ()) -> dict[str, str]:
    """The names in the archive of the fields that have another one there. ``archived`` are the columns of the archive.

    A field's own name may be a column of the archive itself. A field that is declared with another type than before has
    a column of its own, beside the earlier one.
    """
    plain = {
        name: f"{_FIELD_PREFIX}{name}" if name.casefold() in EVENT_COLUMNS else name for name in source.event_fields
    }
    names = {name: typed if (typed := typed_name(source, name)) in archived else plain[name] for name in plain}
    return {name: stored for name, stored in names.items() if stored != name}


def archived_names(source: Source, archived: Container[str]) -> dict[str, str]:
    """By column of the events that expressions may need, Hourline's own and the fields, that of the archive.
    ``archived`` are the columns of the archive.
    """
    own = {
        HOUR: "hour",
        SEQUENCE: "sequence",
        TOPIC_ID: "topic_id",
        TOPIC: "topic",
        PARTITION: "partition",
        OFFSET: "offset",
        PLACE: PLACE,
        EVENT_TIME: "event_time",
    }
    stored = stored_names(source, archived)
    return own | {name: stored.get(name, name) for name in source.event_fields}


def typed_name(source: Source, field: str) -> str:
    """The name in the archive of a field of the events, if another type has the plain one."""
    types = {name: declared.spark_type for name, declared in source.fields.items()}
    kind = types.get(field) or f"{source.explode[field]} over {sorted(types.items())}"
    return f"{_FIELD_PREFIX}{field}_{hashlib.sha256(kind.encode()).hexdigest()[:8]}"


REJECTED_COLUMNS: Columns = {
    "sequence": Column(pa.int64(), "The number of the micro-batch that read the record."),
    **_ADDRESS,
    "arrived": Column(TIMESTAMP, "When the micro-batch that read the record was planned."),
    "reason": Column(pa.string(), "Why it was rejected. Null: it was not, see `decoding`."),
    "key": Column(pa.binary(), "The record's key."),
    "value": Column(
        pa.binary(),
        "The record's value, on the row of its first rejected event. Null: it is on another row of the record and the "
        "micro-batch, here. The view `rejected_<source>` has it on each row.",
    ),
    "headers": Column(pa.map_(pa.string(), pa.binary()), "The record's headers."),
    "timestamp": Column(TIMESTAMP, "Kafka's timestamp of the record."),
    "timestamp_type": Column(pa.string(), "`create`: the producer's timestamp. `log_append`: the broker's."),
    "decoding": Column(
        pa.string(),
        "The hash of the declared settings by which it was rejected. Null: an earlier Hourline 0.2 rejected it. "
        f"`{BYTES_ALONE}`: it was not rejected. Its events were archived without the bytes, which a reset has brought. "
        f"`{TOMBSTONE}`: it was not rejected. It has no value, and deletes the row of its key in a table.",
    ),
}
REJECTED_SCHEMA = schema_of(REJECTED_COLUMNS)

FROM_HOUR = f"{SCRATCH_PREFIX}from_hour"
FROM_SEQUENCE = f"{SCRATCH_PREFIX}from_sequence"
NO_EVENT_REASON = f"{SCRATCH_PREFIX}reason"

DECODED_COLUMNS: Columns = {
    **{name: column for name, column in EVENT_COLUMNS.items() if name not in (VALUE, DECODING)},
    "hour": Column(TIMESTAMP, "The start of the hour of `event_time`. Null: it is no event any more."),
    FROM_HOUR: Column(TIMESTAMP, "The hour that the event has in the archive. Null: it is no event there."),
    NO_EVENT_REASON: Column(pa.string(), "Why it is no event any more. Null: it is one."),
    FROM_SEQUENCE: Column(
        pa.int64(),
        "The sequence of the event in the archive, if a reset has brought the bytes of its record in the micro-batch "
        "`sequence`. Up to that one, the event counts as it was archived. Null: its bytes were archived with it.",
    ),
}
"""The first columns of a table of events that were decoded anew. The declared fields follow, as in the events table."""
DECODED_SCHEMA = schema_of(DECODED_COLUMNS)

QUARANTINE_COLUMNS: Columns = {
    "sequence": Column(pa.int64(), "The number of the micro-batch that read the event."),
    **_ADDRESS,
    "hour": Column(TIMESTAMP, "The hour of the event."),
    "metric": Column(pa.string(), "The name of the metric that does not count the event. Others count it."),
    "declaration": Column(pa.string(), "The hash of the metric's declaration, with the class as it was."),
    "measure": Column(pa.string(), "The name of the first measure whose class failed."),
    "file": Column(pa.string(), "The file of the class, within the project."),
    "message": Column(pa.string(), "What the class raised, with its file and line."),
}
QUARANTINE_SCHEMA = schema_of(QUARANTINE_COLUMNS)

DECLARATION = "hourline.declaration"
"""The property of a provisional table with its metric's declaration, so that the table can be read after the YAML
has changed.
"""

_RECOMPUTED = {
    "hour": Column(TIMESTAMP, "The hour."),
    "cutoff": Column(pa.int64(), "The sequence up to which the recompute counted events."),
}

DRIFT_COLUMNS: Columns = {
    "publication": Column(
        pa.int64(),
        "The number of the publication: the version of coverage. A publication with a number above the newest version "
        "was never committed.",
    ),
    "published": Column(TIMESTAMP, "When it was published."),
    "source": Column(pa.string(), "The name of the source."),
    "metric": Column(pa.string(), "The name of the metric."),
    "declaration": Column(pa.string(), "The hash of the metric's declaration."),
    **_RECOMPUTED,
    "measure": Column(pa.string(), "The name of the measure."),
    "at_close": Column(
        pa.float64(), "The value without late events, over all dimensions. Null: the measure is no number."
    ),
    "provisional": Column(pa.float64(), "The value that was served last before the recompute."),
    "final": Column(pa.float64(), "The recomputed value."),
    "causes": Column(
        pa.list_(pa.struct({"cause": pa.string(), "amount": pa.float64(), "cells": pa.int64()})),
        "The causes of the change, each with its amount over all dimensions and the number of groups that changed.",
    ),
}
DRIFT_SCHEMA = schema_of(DRIFT_COLUMNS)

QUALITY_COLUMNS: Columns = {
    "publication": Column(
        pa.int64(),
        "The number of the publication that the audit was made for: the version of coverage. A publication with a "
        "number above the newest version was never committed.",
    ),
    "audited": Column(TIMESTAMP, "When the audit ran."),
    "source": Column(pa.string(), "The name of the source."),
    "metric": Column(
        pa.string(),
        "The name of the metric. Null: the expectation is on the source's events, hence on all its metrics.",
    ),
    "declaration": Column(pa.string(), "The hash of the metric's declaration."),
    **_RECOMPUTED,
    "expectation": Column(
        pa.string(),
        "Its name in Great Expectations. `audit`: the audit itself failed. `accepted`: a person has overruled it.",
    ),
    "about": Column(pa.string(), "The column, or columns, that it is on."),
    "parameters": Column(pa.string(), "Its parameters, as JSON."),
    "origin": Column(pa.string(), "Where it comes from: `declaration`, `user`, `history` or `person`."),
    "severity": Column(pa.string(), "`fail` or `warn`."),
    "success": Column(pa.bool_(), "Whether it was fulfilled. True also if it was not applied."),
    "applied": Column(pa.bool_(), "False: its condition `when` did not hold for the hour, so it was not evaluated."),
    "observed": Column(pa.float64(), "The number that was found. Null: there is none."),
    "lower": Column(pa.float64(), "The lower bound that was expected. Null: there is none."),
    "upper": Column(pa.float64(), "The upper bound that was expected. Null: there is none."),
    "unexpected": Column(pa.int64(), "The number of rows that failed."),
    "found": Column(pa.string(), "What was found, in words."),
    "rows": Column(pa.list_(pa.string()), "Some of the rows that failed, with their keys, as JSON."),
    "condition": Column(pa.string(), "Its condition `when`. Null: it has none."),
    "unit": Column(
        pa.string(), "`window`: it is about the windows that the hour is in. `hour` or null: it is about the hour."
    ),
}
QUALITY_SCHEMA = schema_of(QUALITY_COLUMNS)

CONFIRMATION_COLUMNS: Columns = {
    "source": Column(pa.string(), "The name of the source."),
    "sequence": Column(pa.int64(), "The sequence of the gap: that of the reset that skipped it."),
    "confirmed": Column(TIMESTAMP, "When it was confirmed."),
    "person": Column(pa.string(), "Who has confirmed it."),
    "reason": Column(pa.string(), "Why the numbers of the hours are good enough."),
}
CONFIRMATION_SCHEMA = schema_of(CONFIRMATION_COLUMNS)

CHECKSUM_COLUMNS: Columns = {
    "table": Column(pa.string(), "The path of the table below the root."),
    "file": Column(pa.string(), "The path of the file below the table."),
    "checksum": Column(pa.string(), "BLAKE2b of 128 bits, in hexadecimal digits."),
    "seen": Column(TIMESTAMP, "When it was computed."),
}
CHECKSUMS_SCHEMA = schema_of(CHECKSUM_COLUMNS)


@dataclass(frozen=True)
class Layout:
    """The addresses of a project's tables, below one root: a folder, or a URI such as ``s3://bucket/prefix``."""

    root: str
    storage_options: dict[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, project: Project) -> "Layout":
        """The addresses of the tables of ``project``."""
        return cls(project.tables.rstrip("/"), dict(project.settings.storage_options))

    def events(self, source: Source) -> str:
        return f"{self.root}/events/{source.name}"

    def rejected(self, source: Source) -> str:
        return f"{self.root}/rejected/{source.name}"

    def decoded(self, source: Source, decoding: str) -> str:
        return f"{self.decoded_by(source)}/{decoding}"

    def decoded_by(self, source: Source) -> str:
        """The folder of the tables of all decodings."""
        return f"{self.root}/decoded/{source.name}"

    def quarantine(self, source: Source) -> str:
        return f"{self.root}/quarantine/{source.name}"

    def progress(self, source: Source) -> str:
        return f"{self.root}/progress/{source.name}"

    def provisional(self, source: Source, metric: Metric) -> str:
        return self.provisional_of(metric.name, declaration_hash(source, metric))

    def provisional_of(self, metric: str, declaration: str) -> str:
        return f"{self.root}/provisional/{metric}/{declaration}"

    def staged(self, source: Source, metric: Metric) -> str:
        return self.staged_of(metric.name, declaration_hash(source, metric))

    def staged_of(self, metric: str, declaration: str) -> str:
        return f"{self.root}/staged/{metric}/{declaration}"

    def final(self, source: Source, metric: Metric) -> str:
        return self.final_of(metric.name, declaration_hash(source, metric))

    def final_of(self, metric: str, declaration: str) -> str:
        return f"{self.root}/final/{metric}/{declaration}"

    def lookup(self, lookup: Lookup) -> str:
        return f"{self.root}/lookups/{lookup.name}"

    @property
    def coverage(self) -> str:
        return f"{self.root}/coverage"

    @property
    def drift(self) -> str:
        return f"{self.root}/drift"

    @property
    def quality(self) -> str:
        return f"{self.root}/quality"

    @property
    def confirmations(self) -> str:
        return f"{self.root}/confirmations"

    @property
    def findings(self) -> str:
        return f"{self.root}/findings"

    @property
    def checksums(self) -> str:
        return f"{self.root}/checksums"
