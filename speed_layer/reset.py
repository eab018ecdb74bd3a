"""Resets: reading a source from another position, and computing a metric anew.

Each reset is one row of progress, whose commit makes it count. The row is numbered like a micro-batch's, above any
sequence ever written. So no later write can be taken for one that was done already.

A source is then read from its ``position``. What is archived already does not count again (see reprocessing.py).

A metric's ``complete_from`` is raised above all of its tiles. Its hours are ``missing`` from then on unless they are
covered. Only then are its provisional rows and its coverage deleted. A process that dies in between leaves reads exact,
and the same command finishes its work.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from deltalake import DeltaTable
from pyarrow.parquet import filters_to_expression

from hourline_core.errors import SourceError, UsageError, did_you_mean
from hourline_core.ledger.coverage import Coverage, condition_on
from hourline_core.ledger.last_records import LastRecord
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.progress import Progress
from hourline_core.ledger.progress_rows import Position, ProgressRow
from hourline_core.ledger.read_offsets import Reading, offsets_in, without
from hourline_core.ledger.unpublished import drop_unpublished
from hourline_core.model import Metric, Project, Source, declaration_hash
from hourline_core.model.topics import topic_text
from hourline_core.runtime.kafka_facts import KafkaFacts
from hourline_core.runtime.topics import ensure_topic, find_topics, offsets_at, topic_offsets
from hourline_core.storage import commits
from hourline_core.storage.opening import exists, open_table
from hourline_core.storage.seen_versions import require_seen, versions_of
from speed_layer.continuity import differing_records
from speed_layer.lost_records import deleted_ranges, describe_gaps
from speed_layer.source_tables import clear_unfinished

Target = Literal["earliest", "latest"] | datetime | Mapping[tuple[str | None, int], int]
"""Where to go on: at an end of the topics, at their first record of a time (aware; Kafka's record timestamp), or at
offsets by topic and partition. The topic may be None if there is only one. A partition without an offset goes on at the
next record that Kafka still holds.
"""

Available = Mapping[str, Mapping[int, tuple[int, int]]]
"""By topic and partition, the earliest offset and the end of the committed records."""

Touched = tuple[str, str]
"""What a reset changes, in words."""


@dataclass(frozen=True)
class Move:
    """The new position of one partition, and what it means."""

    topic: str
    partition: int
    before: int
    offset: int
    unread: int
    """One past the highest offset read so far."""
    again: int
    """The number of offsets from the new position on that were read already."""
    skipped: int
    """The number of offsets before the new position that were never read."""

    @property
    def of(self) -> tuple[str, int]:
        """The topic and the partition."""
        return self.topic, self.partition


class SourceReset:
    """A reset of ``source`` to ``target``: planned at construction, done by ``apply``. The caller holds the lease
    "speed".

    Raises BrokerError, TableError, SourceError when Kafka no longer has what was read, and UsageError when
    nothing was read yet, or the target is not in the topics.
    """

    def __init__(self, project: Project, source: Source, bootstrap: str, target: Target) -> None:
        self._tables = _Tables(project, source)
        options = project.settings.kafka.options
        topics = find_topics(bootstrap, source, options)
        if not topics:
            raise UsageError(
                f"Kafka has no topic that matches {topic_text(source.topic)}, so there is nothing to reset"
            )
        facts = KafkaFacts(bootstrap, options, f"hourline.{project.name}.{source.name}")
        ids = facts.ids(topics)
        # Who only passes what is gone says nothing of a topic that is not there: the next start makes or refuses it.
        missing = [] if target == {} else [topic for topic in topics if ids[topic] is None]
        self._missing = {
            topic: partial(ensure_topic, bootstrap, topic, source.partitions, options) for topic in missing
        }
        if self._missing and isinstance(target, Mapping):
            raise UsageError(
                f"there is no topic '{next(iter(self._missing))}', so it has no offsets; leave --to out to make it anew"
            )
        self._topic_ids = {topic: topic_id for topic, topic_id in ids.items() if topic_id is not None}
        topics = list(self._topic_ids)
        available = {topic: topic_offsets(bootstrap, topic, options) for topic in topics}
        readings = self._tables.progress.readings(self._topic_ids.values())
        for topic, of in self._topic_ids.items():
            _refuse_lost_data(topic, available[topic], readings[of])
        self._cluster = facts.cluster_id()
        last_read = self._tables.progress.last_read()
        self._last_records = {
            (topic, number): record
            for topic, of in self._topic_ids.items()
            for (topic_id, number), record in last_read.records.items()
            if topic_id == of
        }
        cut_off = [of for of, _, _ in differing_records(facts, self._last_records)]
        if isinstance(target, datetime):
            at = {topic: offsets_at(bootstrap, topic, target, options) for topic in topics}
            target = {(topic, partition): offset for topic in topics for partition, offset in at[topic].items()}
        chosen = _chosen(available, target)
        self.moves = [
            _move(topic, partition, ends, chosen.get((topic, partition)), readings[self._topic_ids[topic]])
            for topic in topics
            for partition, ends in available[topic].items()
        ]
        for move in self.moves:
            if move.of in cut_off:
                _refuse_unknown_records(source, self._last_records.pop(move.of), move, chosen.get(move.of))
        kept = (self._tables.events, self._tables.rejected)
        self.gaps = {
            topic: describe_gaps(bootstrap, options, source, (topic, of), deleted, self._tables.progress, kept)
            for topic, of in self._topic_ids.items()
            if (deleted := deleted_ranges(readings[of], available[topic]))
        }
        """By topic, what Kafka has deleted before it was read."""
        self._checkpoints = project.workspace / "checkpoints"
        count = len(topics) + len(self._missing)
        self.touched = [
            *((f"topic {topic}", "made anew, without records") for topic in self._missing),
            (f"progress/{source.name}", f"{count:,} more rows" if count > 1 else "one more row"),
            *self._tables.unfinished(),
            *self._reprocessed(),
            *_leftover(self._checkpoints),
        ]

    def apply(self, moment: datetime) -> int:
        """Commit the reset, and return its sequence. ``moment`` (UTC) dates it. Raises ConflictError when another
        process writes to the tables.
        """
        self._topic_ids |= {topic: make() for topic, make in self._missing.items()}
        sequence = self._tables.clear()
        last = self._tables.progress.last_row()
        rows = [
            ProgressRow.of_source_reset(
                last,
                sequence,
                (topic_id, topic),
                self._position(topic),
                self.gaps.get(topic, ()),
                moment,
                self._cluster,
                tuple(record for (of, _), record in self._last_records.items() if of == topic),
            )
            for topic, topic_id in self._topic_ids.items()
        ]
        self._tables.progress.reset(rows, self._tables.versions(), of_metric=False)
        shutil.rmtree(self._checkpoints, ignore_errors=True)
        return sequence

    def _position(self, topic: str) -> tuple[Position, ...]:
        return tuple(Position(move.partition, move.unread, move.offset) for move in self.moves if move.topic == topic)

    def _reprocessed(self) -> list[Touched]:
        ahead = [
            [
                ("topic_id", "=", self._topic_ids[move.topic]),
                ("partition", "=", move.partition),
                ("offset", ">=", move.offset),
            ]
            for move in self.moves
        ]
        rows = _count(self._tables.rejected, ahead) if ahead else 0
        return (
            [
                (
                    f"rejected/{self._tables.source.name}",
                    f"{rows:,} record(s) are validated anew, each when it is read again",
                )
            ]
            if rows
            else []
        )


class MetricReset:
    """A reset of ``metric``, which deletes what was computed, so that it is computed anew from the archived events:
    planned at construction, done by ``apply``. The caller holds the leases "speed" and "batch".

    Raises TableError, and UsageError when nothing was computed yet.
    """

    def __init__(self, project: Project, metric: Metric) -> None:
        self._metric = metric
        self._tables = _Tables(project, project.source_of(metric))
        if not self._tables.progress.last_row():
            raise UsageError(
                f"nothing was computed for metric '{metric.name}' yet: "
                f"no micro-batch of source '{metric.source}' has finished"
            )
        layout = Layout.of(project)
        self._provisional = {of: table for of, table in self._tables.provisional.items() if of[0] == metric.name}
        there = exists(layout.coverage, layout.storage_options)
        self._coverage = open_table(layout.coverage, layout.storage_options) if there else None
        # What is kept of each publication, under its number.
        self._kept = (
            [open_table(uri, layout.storage_options) for uri in (layout.drift, layout.quality)] if there else []
        )
        covered = Coverage.at(self._coverage).hours(metric.name)
        self.touched = [(f"progress/{metric.source}", "one more row"), *self._tables.unfinished()]
        for (name, declaration), table in self._provisional.items():
            self.touched.append(
                (f"provisional/{name}/{declaration}", f"all of its {_count(table):,} row(s) are deleted")
            )
        if covered:
            self.touched.append(("coverage", f"{len(covered):,} hour(s) of {metric.name} are taken out"))

    def apply(self, moment: datetime) -> int:
        """Do the reset, and return its sequence. ``moment`` (UTC) dates it. Raises ConflictError when another process
        writes to the tables.

        In this order no reader sees a part of an answer. Hours become ``missing`` first, and a reader of the older
        progress sees that there was a reset.
        """
        sequence = self._tables.clear()
        last = self._tables.progress.last_row()
        assert last is not None  # as when it was planned
        row = ProgressRow.of_metric_reset(last, sequence, self._metric.name, moment)
        self._tables.progress.reset([row], self._tables.versions(), of_metric=True)
        for table in self._provisional.values():
            commits.delete(table, None, {"reset": sequence})
        if self._coverage:
            for kept in self._kept:
                drop_unpublished(kept, self._coverage)
                # Coverage gets a version that is no publication. A frozen recompute must keep no rows under its number.
                commits.fence(kept)
            commits.delete(self._coverage, condition_on(self._metric.name), {"reset": sequence})
        return sequence


class _Tables:
    """The tables of one source that its speed layer writes, opened for writing without changing them."""

    def __init__(self, project: Project, source: Source) -> None:
        self.source = source
        layout = Layout.of(project)
        options = layout.storage_options
        if not exists(layout.progress(source), options):
            raise UsageError(
                f"nothing was read of source '{source.name}' yet, so there is nothing to reset; "
                "`hourline up` begins at the earliest record"
            )
        self.progress = Progress(open_table(layout.progress(source), options))
        self.events = open_table(layout.events(source), options)
        self.rejected = open_table(layout.rejected(source), options)
        last = self.progress.last_row()
        written = {(known.metric, known.declaration) for known in last.metrics} if last else set()
        declared = {(metric.name, declaration_hash(source, metric)) for metric in project.metrics_of(source.name)}
        addresses = {of: layout.provisional_of(*of) for of in sorted(written | declared)}
        self.provisional = {of: open_table(uri, options) for of, uri in addresses.items() if exists(uri, options)}
        """By metric and declaration."""
        for table in self._written():
            require_seen(table, self.progress.table)

    def unfinished(self) -> list[Touched]:
        """The number of rows that an unfinished micro-batch has left, by table."""
        name, finished = self.source.name, self.progress.sequence
        named = [(f"events/{name}", self.events), (f"rejected/{name}", self.rejected)]
        named += [
            (f"provisional/{metric}/{declaration}", table) for (metric, declaration), table in self.provisional.items()
        ]
        counts = [(name, _count(table, [[("sequence", ">", finished)]])) for name, table in named]
        return [(name, f"{count:,} row(s) of an unfinished micro-batch are deleted") for name, count in counts if count]

    def clear(self) -> int:
        """Delete those, and return the next sequence."""
        return clear_unfinished(self.progress, self.events, self.rejected, self.provisional.values())

    def versions(self) -> dict[str, int]:
        """By name, the versions at which a reset leaves the tables."""
        return versions_of(self._written())

    def _written(self) -> list[DeltaTable]:
        return [self.events, self.rejected, *self.provisional.values()]


def _chosen(available: Available, target: Target) -> dict[tuple[str, int], int]:
    """Return by topic and partition the offset of the target. Raises UsageError when the topics do not hold it."""
    if isinstance(target, str):
        end = ("earliest", "latest").index(target)
        return {(topic, of): ends[end] for topic, partitions in available.items() for of, ends in partitions.items()}
    assert isinstance(target, Mapping)
    chosen = {}
    for (named, partition), offset in target.items():
        topic = named if named is not None else next(iter(available))
        if named is None and len(available) > 1:
            raise UsageError(
                f"got --to {partition}={offset}, allowed is the topic with it, such as {topic}:{partition}={offset}, "
                f"for a source that reads {', '.join(available)}"
            )
        if topic not in available:
            raise UsageError(f"the source reads no topic '{topic}'{did_you_mean(topic, available)}")
        if partition not in available[topic]:
            there = ", ".join(map(str, available[topic]))
            raise UsageError(f"topic '{topic}' has no partition {partition} (there is: {there})")
        earliest, latest = available[topic][partition]
        if not earliest <= offset <= latest:
            raise UsageError(
                f"topic '{topic}' partition {partition}: got offset {offset}, allowed are {earliest} to {latest}"
            )
        chosen[topic, partition] = offset
    return chosen


def _move(topic: str, partition: int, available: tuple[int, int], chosen: int | None, reading: Reading) -> Move:
    earliest, latest = available
    before = reading.next_offsets.get(partition, earliest)
    offset = max(before, earliest) if chosen is None else chosen
    read = reading.read.get(partition, [])
    unread = reading.end(partition) or min(before, earliest)
    again = offsets_in([(offset, latest)]) - offsets_in(without([(offset, latest)], read)) if offset < latest else 0
    return Move(topic, partition, before, offset, unread, again, max(0, offset - unread))


def _refuse_lost_data(topic: str, available: Mapping[int, tuple[int, int]], reading: Reading) -> None:
    for partition, (_, latest) in available.items():
        if (reading.end(partition) or 0) > latest:
            raise SourceError(
                f"topic '{topic}' partition {partition}: read up to offset "
                f"{(reading.end(partition) or 0) - 1}, but Kafka's last one is {latest - 1}; it has lost data, and new "
                "records there could not be told from those that are archived: read from a topic made anew"
            )


def _refuse_unknown_records(source: Source, last: LastRecord, move: Move, chosen: int | None) -> None:
    """Refuse to read a log that is another than the one that was read, unless a position behind that was ``chosen``.
    Raises SourceError.
    """
    if chosen is None or chosen <= last.offset:
        topic, partition = move.of
        raise SourceError(
            f"topic '{topic}' partition {partition}: the record at offset {last.offset} is not the one that was read, "
            "so the log was cut off, and others up to there could not be told from those that are archived; send them "
            f"to a topic made anew, or go on behind them: `hourline reset {source.name} --to "
            f"{topic}:{partition}={last.offset + 1}`"
        )


def _leftover(checkpoints: Path) -> list[Touched]:
    return [(f"{checkpoints.name}/", "removed")] if checkpoints.exists() else []


def _count(table: DeltaTable, where: list[list[tuple[str, str, Any]]] | None = None) -> int:
    if where is None:
        return sum(pa.table(table.get_add_actions())["num_records"].to_pylist())
    return int(table.to_pyarrow_dataset().count_rows(filter=filters_to_expression(where)))
