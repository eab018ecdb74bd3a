"""Notes the offsets of each partition that a micro-batch has read. Refuses offsets that were committed before, such as
those of a topic that was recreated.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from hourline_core.errors import SourceError
from hourline_core.ledger.progress_rows import OffsetsRead

Partition = tuple[str, int]
"""A partition of a topic, by the topic's id."""
Offsets = Mapping[Partition, tuple[int, int]]
"""The lowest and the highest offset of the records of each partition."""


class OffsetsReached:
    """How far each partition has been read, also where it had no record to read: after the marker of a transaction, or
    the records of an aborted one. ``next_offsets`` are those of progress.
    """

    def __init__(self, next_offsets: Mapping[Partition, int]) -> None:
        self._next = dict(next_offsets)

    def span_to(self, ends: Mapping[Partition, int]) -> dict[Partition, tuple[int, int]]:
        """By partition, the first offset that is not read yet, and ``ends``."""
        return {of: (min(self._next.get(of, 0), end), end) for of, end in ends.items()}

    def advance(self, offsets: Offsets, ends: Mapping[Partition, int]) -> dict[str, tuple[OffsetsRead, ...]]:
        """By topic id, what the next micro-batch has read: ``offsets``, and all up to ``ends``, one past the last
        offset that Spark has looked at (empty: it is not known). Empty: nothing.

        A partition that is not known yet is noted from its first micro-batch on, even if it has had no record. What is
        deleted there before it is read will then be missed.
        """
        read = {of: OffsetsRead(of[1], first, last) for of, (first, last) in offsets.items()}
        if not read and all(end <= self._next.get(partition, 0) for partition, end in ends.items()):
            return {}
        for (topic_id, number), end in ends.items():
            if known := read.get((topic_id, number)):
                read[topic_id, number] = replace(known, last=max(known.last, end - 1))
            elif end > self._next.get((topic_id, number), -1):
                read[topic_id, number] = OffsetsRead(number, end, end - 1)
        self._next |= {partition: of.last + 1 for partition, of in read.items()}
        by_topic: dict[str, list[OffsetsRead]] = {}
        for topic_id, number in sorted(read):
            by_topic.setdefault(topic_id, []).append(read[topic_id, number])
        return {topic_id: tuple(of) for topic_id, of in by_topic.items()}


class OffsetOrder:
    """The next offset of each partition that was read, by topic id and number. A partition that is not among
    ``next_offsets`` begins anywhere.
    """

    def __init__(self, next_offsets: Mapping[Partition, int]) -> None:
        self._next: dict[str, dict[int, int]] = {}
        for (topic_id, partition), offset in next_offsets.items():
            self._next.setdefault(topic_id, {})[partition] = offset

    def refuse_repeated(self, offsets: Offsets, topics: Mapping[str, str]) -> None:
        """Raise SourceError if ``offsets`` have one that was committed; ``topics`` are the names by topic id. Offsets
        may be missing: those of compacted records, and of markers of transactions.
        """
        for (topic_id, partition), (first, _) in offsets.items():
            following = self._next.get(topic_id, {}).get(partition, 0)
            if first < following:
                raise SourceError(
                    f"topic '{topics[topic_id]}' partition {partition} gave offset {first} after "
                    f"offset {following - 1} was read; was the topic deleted and recreated? None of its new "
                    "records was counted; start the speed layer again"
                )

    def note_committed(self, topic_id: str, offsets: Iterable[OffsetsRead]) -> None:
        """Refuse the ``offsets`` of a topic, which are committed, from now on."""
        self._next.setdefault(topic_id, {}).update({read.partition: read.last + 1 for read in offsets})

    def next_offsets(self, topic_id: str) -> dict[int, int]:
        """The next offset of each partition of a topic, after what is committed."""
        return dict(self._next.get(topic_id, {}))
