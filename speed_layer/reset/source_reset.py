"""Resets of a source: it is read from another position."""

import shutil
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from pathlib import Path

from hourline_core.errors import UsageError
from hourline_core.ledger.progress_rows import Position, ProgressRow
from hourline_core.model import Project, Source
from hourline_core.model.topics import topic_text
from hourline_core.runtime.kafka_facts import KafkaFacts
from hourline_core.runtime.topics import ensure_topic, find_topics, offsets_at, topic_offsets
from speed_layer.continuity import differing_records
from speed_layer.lost_records import deleted_ranges, describe_gaps
from speed_layer.reset.positions import Target, choose_offsets, plan_move, refuse_lost_data, refuse_unknown_records
from speed_layer.reset.tables import ResetTables, Touched, count_rows


class SourceReset:
    """A reset of ``source`` to ``target``: planned at construction, done by ``apply``. The caller holds the lease
    "speed".

    Raises BrokerError, TableError, SourceError when Kafka no longer has what was read, and UsageError when
    nothing was read yet, or the target is not in the topics.
    """

    def __init__(self, project: Project, source: Source, bootstrap: str, target: Target) -> None:
        self._tables = ResetTables(project, source)
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
            topic: partial(ensure_topic, bootstrap, topic, source.partitions, options, source.retention)
            for topic in missing
        }
        if self._missing and isinstance(target, Mapping):
            raise UsageError(
                f"there is no topic '{next(iter(self._missing))}', so it has no offsets; leave --to out to recreate it"
            )
        self._topic_ids = {topic: topic_id for topic, topic_id in ids.items() if topic_id is not None}
        topics = list(self._topic_ids)
        available = {topic: topic_offsets(bootstrap, topic, options) for topic in topics}
        readings = self._tables.progress.readings(self._topic_ids.values())
        for topic, of in self._topic_ids.items():
            refuse_lost_data(topic, available[topic], readings[of])
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
        chosen = choose_offsets(available, target)
        self.moves = [
            plan_move(topic, partition, ends, chosen.get((topic, partition)), readings[self._topic_ids[topic]])
            for topic in topics
            for partition, ends in available[topic].items()
        ]
        for move in self.moves:
            if move.of in cut_off:
                refuse_unknown_records(source, self._last_records.pop(move.of), move, chosen.get(move.of))
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
            *((f"topic {topic}", "recreated, without records") for topic in self._missing),
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
        rows = count_rows(self._tables.rejected, ahead) if ahead else 0
        return (
            [
                (
                    f"rejected/{self._tables.source.name}",
                    f"{rows:,} record(s) are validated again, each when it is read again",
                )
            ]
            if rows
            else []
        )


def _leftover(checkpoints: Path) -> list[Touched]:
    return [(f"{checkpoints.name}/", "removed")] if checkpoints.exists() else []
