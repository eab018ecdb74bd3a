"""Where each table lies: the only place that knows. And the columns of those tables that have no file of their own;
progress and coverage have one (progress_rows.py, coverage_rows.py).

    <tables>/events/<source>                     every accepted event, as the speed layer read it
    <tables>/rejected/<source>                   every record that was not accepted, with its bytes and the reason
    <tables>/progress/<source>                   one row per finished micro-batch, or reset
    <tables>/provisional/<metric>/<declaration>  partial states, one set per sequence
    <tables>/staged/<metric>/<declaration>       what the last recompute computed, before it was published
    <tables>/final/<metric>/<declaration>        partial states of covered hours
    <tables>/coverage                            which version of final counts, the cutoffs, and which hours are blocked
    <tables>/drift                               by how much each recomputed hour changed, and why
    <tables>/quality                             what the audit of each recomputed hour found, expectation by expectation
    <tables>/checksums                           of the data files of all tables, as `hourline verify` saw them first

``<declaration>`` is the hash of the metric's declaration: a changed declaration has other columns and other numbers,
hence other tables. All timestamps are microseconds in UTC; every column is nullable, since writers differ in what they
take for NOT NULL.
"""

from dataclasses import dataclass, field

import pyarrow as pa

from hourline_core.model import Metric, Project, Source, declaration_hash

TIMESTAMP = pa.timestamp("us", tz="UTC")

ADDRESS = {"topic_id": pa.string(), "topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()}
"""What identifies a record for ever: Kafka's id of the topic (its name is for people), partition and offset."""

EVENT_COLUMNS = {"sequence": pa.int64(), **ADDRESS, "event_time": TIMESTAMP, "hour": TIMESTAMP, "duplicate": pa.bool_()}
"""The events table begins with these; the source's declared fields follow, under their own names."""

REJECTED_SCHEMA = pa.schema(
    {
        "sequence": pa.int64(),
        **ADDRESS,
        "arrived": TIMESTAMP,
        "reason": pa.string(),
        "key": pa.binary(),
        "value": pa.binary(),
    }
)

DECLARATION = "hourline.declaration"
"""The property of a provisional table that keeps its metric's declaration, so that it can be read after the YAML has
changed.
"""

DRIFT_SCHEMA = pa.schema(
    {
        "publication": pa.int64(),  # the version of coverage that published it; beyond the newest one it never was
        "published": TIMESTAMP,
        "source": pa.string(),
        "metric": pa.string(),
        "declaration": pa.string(),
        "hour": TIMESTAMP,
        "cutoff": pa.int64(),
        "measure": pa.string(),
        # over all dimensions together; null where the measure is no number
        "at_close": pa.float64(),
        "provisional": pa.float64(),
        "final": pa.float64(),
        "causes": pa.list_(pa.struct({"cause": pa.string(), "amount": pa.float64(), "cells": pa.int64()})),
    }
)

QUALITY_SCHEMA = pa.schema(
    {
        "publication": pa.int64(),  # the version of coverage that says what came of it; beyond the newest one it never came about
        "audited": TIMESTAMP,
        "source": pa.string(),
        "metric": pa.string(),  # null: it is about the source's events, hence about all metrics over them
        "declaration": pa.string(),
        "hour": TIMESTAMP,
        "cutoff": pa.int64(),
        # by Great Expectations' name; or `audit`: the audit itself failed, `accepted`: a person has overruled it
        "expectation": pa.string(),
        "about": pa.string(),  # the column, or columns
        "parameters": pa.string(),  # as JSON
        "origin": pa.string(),  # declaration, user, history, person
        "severity": pa.string(),  # fail, warn
        "success": pa.bool_(),
        # numbers where there are some: what was found, and between which bounds it was expected
        "observed": pa.float64(),
        "lower": pa.float64(),
        "upper": pa.float64(),
        "unexpected": pa.int64(),  # how many rows failed
        "found": pa.string(),  # in words
        "rows": pa.list_(pa.string()),  # failing rows with their keys, as JSON, a few of them
    }
)

CHECKSUMS_SCHEMA = pa.schema(
    {
        "table": pa.string(),  # its path below the root
        "file": pa.string(),  # its path below the table
        "checksum": pa.string(),  # BLAKE2b of 128 bits, hexadecimal
        "seen": TIMESTAMP,
    }
)


@dataclass(frozen=True)
class Layout:
    """The addresses of a project's tables, below one root: a folder, or a URI such as ``s3://bucket/prefix``."""

    root: str
    storage_options: dict[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, project: Project) -> "Layout":
        return cls(project.tables.rstrip("/"), dict(project.settings.storage_options))

    def events(self, source: Source) -> str:
        return f"{self.root}/events/{source.name}"

    def rejected(self, source: Source) -> str:
        return f"{self.root}/rejected/{source.name}"

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
    def checksums(self) -> str:
        return f"{self.root}/checksums"
