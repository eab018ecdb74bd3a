"""The positions from which a source is read after a reset, and what they mean for each partition."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from hourline_core.errors import SourceError, UsageError, did_you_mean
from hourline_core.ledger.last_records import LastRecord
from hourline_core.ledger.read_offsets import Reading, offsets_in, without
from hourline_core.model import Source

Target = Literal["earliest", "latest"] | datetime | Mapping[tuple[str | None, int], int]
"""Where to go on: at an end of the topics, at their first record of a time (aware; Kafka's record timestamp), or at
offsets by topic and partition. The topic may be None if there is only one. A partition without an offset goes on at the
next record that Kafka still holds.
"""

Available = Mapping[str, Mapping[int, tuple[int, int]]]
"""By topic and partition, the earliest offset and the end of the committed records."""


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


def choose_offsets(available: Available, target: Target) -> dict[tuple[str, int], int]:
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


def plan_move(topic: str, partition: int, available: tuple[int, int], chosen: int | None, reading: Reading) -> Move:
    """The move of one partition to the offset that was ``chosen``. None: to the next record that Kafka still holds."""
    earliest, latest = available
    before = reading.next_offsets.get(partition, earliest)
    offset = max(before, earliest) if chosen is None else chosen
    read = reading.read.get(partition, [])
    unread = reading.end(partition) or min(before, earliest)
    again = offsets_in([(offset, latest)]) - offsets_in(without([(offset, latest)], read)) if offset < latest else 0
    return Move(topic, partition, before, offset, unread, again, max(0, offset - unread))


def refuse_lost_data(topic: str, available: Mapping[int, tuple[int, int]], reading: Reading) -> None:
    """Raise SourceError if Kafka holds fewer records of the topic than were read."""
    for partition, (_, latest) in available.items():
        if (reading.end(partition) or 0) > latest:
            raise SourceError(
                f"topic '{topic}' partition {partition}: read up to offset "
                f"{(reading.end(partition) or 0) - 1}, but Kafka's last one is {latest - 1}; it has lost data, and new "
                "records there could not be distinguished from archived ones: read from a recreated topic"
            )


def refuse_unknown_records(source: Source, last: LastRecord, move: Move, chosen: int | None) -> None:
    """Refuse to read a log that is another than the one that was read, unless a position behind that was ``chosen``.
    Raises SourceError.
    """
    if chosen is None or chosen <= last.offset:
        topic, partition = move.of
        raise SourceError(
            f"topic '{topic}' partition {partition}: the record at offset {last.offset} is not the one that was read, "
            "so the log was truncated, and new records up to there could not be distinguished from archived ones; send "
            f"them to a recreated topic, or continue after them: `hourline reset {source.name} --to "
            f"{topic}:{partition}={last.offset + 1}`"
        )
