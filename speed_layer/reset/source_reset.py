"""Resets of a source: it is read from another position."""

import shutil
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import pyarrow.compute as pc

from hourline_core.errors import UsageError
from hourline_core.ledger.last_records import LastRecord
from hourline_core.ledger.progress_rows import Gap, Position, ProgressRow
from hourline_core.ledger.read_again import Where, is_verdict, rows_of_topic
from hourline_core.ledger.read_offsets import Reading
from hourline_core.model import Project, Source
from hourline_core.model.topics import topic_text
from hourline_core.runtime.kafka_facts import KafkaFacts
from hourline_core.runtime.kafka_records import Partition
from hourline_core.runtime.topics import ensure_topic, find_topics, offsets_at, topic_offsets
from speed_layer.kafka.continuity import differing_records
from speed_layer.recovery.lost_records import deleted_ranges, describe_gaps
from speed_layer.reset.positions import (
    Available,
    Move,
    Target,
    choose_offsets,
    plan_move,
    refuse_lost_data,
    refuse_unknown_records,
)
from speed_layer.reset.tables import ResetTables, Touched


class SourceReset:
    """A reset of ``source`` to ``target``: planned at construction, done by ``apply``. The caller holds the lease
    "speed".

    Raises BrokerError, TableError, SourceError when Kafka no longer has what was read, and UsageError when
    nothing was read yet, or the target is not in the topics.
    """

    def __init__(self, project: Project, source: Source, bootstrap: str, target: Target) -> None:
        self._tables = ResetTables(project, source)
        self._source, self._bootstrap, self._options = source, bootstrap, project.settings.kafka.options
        self._kafka = KafkaFacts(bootstrap, self._options, f"hourline.{project.name}.{source.name}")
        ids = self._kafka.ids(self._find_topics())
        self._topic_ids = {topic: topic_id for topic, topic_id in ids.items() if topic_id is not None}
        # Who only passes what is gone says nothing of a topic that is not there: the next start makes or refuses it.
        self._missing = [] if target == {} else [topic for topic, topic_id in ids.items() if topic_id is None]
        if self._missing and isinstance(target, Mapping):
            raise UsageError(
                f"there is no topic '{self._missing[0]}', so it has no offsets; leave --to out to recreate it"
            )
        self._cluster = self._kafka.cluster_id()
        available = {topic: topic_offsets(bootstrap, topic, self._options) for topic in self._topic_ids}
        of_ids = self._tables.progress.readings(self._topic_ids.values())
        readings = {topic: of_ids[topic_id] for topic, topic_id in self._topic_ids.items()}
        self._last_records = self._find_last_records()
        self.moves = self._plan_moves(available, readings, target)
        self.gaps = self._find_gaps(available, readings)
        self._checkpoints = project.workspace / "checkpoints"
        count = len(self._topic_ids) + len(self._missing)
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
        for topic in self._missing:
            self._topic_ids[topic] = ensure_topic(
                self._bootstrap, topic, self._source.partitions, self._options, self._source.retention
            )
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

    def _find_topics(self) -> list[str]:
        topics = find_topics(self._bootstrap, self._source, self._options)
        if not topics:
            raise UsageError(
                f"Kafka has no topic that matches {topic_text(self._source.topic)}, so there is nothing to reset"
            )
        return topics

    def _find_last_records(self) -> dict[Partition, LastRecord]:
        """The last records that were read of the topics that are there."""
        names = {topic_id: topic for topic, topic_id in self._topic_ids.items()}
        records = self._tables.progress.last_read().records
        return {(names[of], number): record for (of, number), record in records.items() if of in names}

    def _plan_moves(self, available: Available, readings: Mapping[str, Reading], target: Target) -> list[Move]:
        """The moves of all partitions to the ``target``. The last records of those whose logs were cut off are dropped
        from what Kafka still has.
        """
        for topic, reading in readings.items():
            refuse_lost_data(topic, available[topic], reading)
        cut_off = [of for of, _, _ in differing_records(self._kafka, self._last_records)]
        if isinstance(target, datetime):
            at = {topic: offsets_at(self._bootstrap, topic, target, self._options) for topic in available}
            target = {(topic, partition): offset for topic, of in at.items() for partition, offset in of.items()}
        chosen = choose_offsets(available, target)
        moves = [
            plan_move(topic, partition, ends, chosen.get((topic, partition)), readings[topic])
            for topic, partitions in available.items()
            for partition, ends in partitions.items()
        ]
        for move in moves:
            if move.of in cut_off:
                refuse_unknown_records(self._source, self._last_records.pop(move.of), move, chosen.get(move.of))
        return moves

    def _find_gaps(self, available: Available, readings: Mapping[str, Reading]) -> dict[str, tuple[Gap, ...]]:
        """By topic, what Kafka has deleted before it was read."""
        kept = (self._tables.events, self._tables.rejected)
        return {
            topic: describe_gaps(
                self._bootstrap, self._options, self._source, (topic, of), deleted, self._tables.progress, kept
            )
            for topic, of in self._topic_ids.items()
            if (deleted := deleted_ranges(readings[topic], available[topic]))
        }

    def _position(self, topic: str) -> tuple[Position, ...]:
        return tuple(Position(move.partition, move.unread, move.offset) for move in self.moves if move.topic == topic)

    def _reprocessed(self) -> list[Touched]:
        rows = 0
        for move in self.moves:
            ahead: Where = [[("partition", "=", move.partition), ("offset", ">=", move.offset)]]
            found = rows_of_topic(self._tables.rejected, self._topic_ids[move.topic], ahead, "decoding")
            rows += pc.sum(is_verdict(found["decoding"])).as_py() or 0
        again = f"{rows:,} record(s) are validated again, each when it is read again"
        return [(f"rejected/{self._source.name}", again)] if rows else []


def _leftover(checkpoints: Path) -> list[Touched]:
    return [(f"{checkpoints.name}/", "removed")] if checkpoints.exists() else []
