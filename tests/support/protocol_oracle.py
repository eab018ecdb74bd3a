"""What a read of the protocol's model must give: plain Python over the records that were sent, see protocol_model.py.

The facts that it takes are those a finished micro-batch makes known: its sequence and the offsets that it read. It
shares the vocabulary with the model, and no rule.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

HORIZON = 2
"""So many hours of event time back, a duplicate is recognised at once."""

Address = tuple[int, int]
"""Partition and offset."""


class Record(NamedTuple):
    """What lies in Kafka. Garbage is rejected, until the source is mended: then it would be accepted. The first event
    of an id and hour counts.
    """

    kind: str  # event, garbage, tombstone
    hour: int = 0
    id: int | None = None


class Declaration(NamedTuple):
    """A metric as it is, or was, declared; a changed one has a higher number, and other values."""

    metric: str
    source: str
    number: int = 0

    def value(self, identity: int | None) -> int:
        """What an event adds: 'visitors' counts only those with an id."""
        return 0 if self.metric == "visitors" and identity is None else 1 + self.number


class Accepted(NamedTuple):
    sequence: int
    address: Address
    hour: int
    id: int | None
    duplicate: bool


@dataclass
class Truth:
    """One source: its records by partition, and which of them were read, and in which sequence each was accepted first."""

    log: list[list[Record]]
    seen: set[Address] = field(default_factory=set)
    sequences: dict[Address, int] = field(default_factory=dict)
    clock: int = -1
    known: set[tuple[int, int | None]] = field(default_factory=set)
    accepted: list[Accepted] = field(default_factory=list)

    def finish(self, sequence: int, read: Mapping[int, tuple[int, int]], mended: bool) -> None:
        """A micro-batch has read these offsets (by partition: from, and up to before)."""
        for address in sorted(
            (partition, offset) for partition, (first, end) in read.items() for offset in range(first, end)
        ):
            record = self.record(address)
            self.seen.add(address)
            if address not in self.sequences and (record.kind == "event" or (record.kind == "garbage" and mended)):
                self.sequences[address] = sequence
                duplicate = record.id is not None and (record.hour, record.id) in self.known
                self.accepted.append(Accepted(sequence, address, record.hour, record.id, duplicate))
                self.known.add((record.hour, record.id))
                self.clock = max(self.clock, record.hour)
        self.known = {(hour, identity) for hour, identity in self.known if hour >= self.clock - HORIZON}

    def rejected(self) -> set[Address]:
        return {
            address for address in self.seen if self.record(address).kind == "garbage" and address not in self.sequences
        }

    def counts(self) -> dict[str, int]:
        """How many records each number of progress must add up to."""
        duplicates = sum(event.duplicate for event in self.accepted)
        tombstones = sum(self.record(address).kind == "tombstone" for address in self.seen)
        accepted = len(self.accepted) - duplicates
        of_each = {
            "accepted": accepted,
            "rejected": len(self.rejected()),
            "duplicates": duplicates,
            "tombstones": tombstones,
        }
        return {"records": len(self.seen), **of_each}

    def record(self, address: Address) -> Record:
        partition, offset = address
        return self.log[partition][offset]

    def answer(self, declaration: Declaration, progress: int, cutoffs: Mapping[int, int]) -> dict[int, int]:
        """By hour, of all events up to ``progress``: at or below the hour's cutoff the first of each id, above it those
        not recognised as duplicates.
        """
        total: dict[int, int] = {}
        firsts = set()
        for event in self.accepted:
            if event.sequence > progress:
                break
            if event.sequence <= cutoffs.get(event.hour, -1):
                if event.id is not None and (event.hour, event.id) in firsts:
                    continue
                firsts.add((event.hour, event.id))
            elif event.duplicate:
                continue
            total[event.hour] = total.get(event.hour, 0) + declaration.value(event.id)
        return {hour: value for hour, value in total.items() if value}

    def all_addresses(self) -> set[Address]:
        return {(partition, offset) for partition, records in enumerate(self.log) for offset in range(len(records))}


def naive(declaration: Declaration, records: Iterable[Record]) -> dict[int, int]:
    """By hour, one pass over accepted records in any order: of each id in an hour, one."""
    total: dict[int, int] = {}
    seen = set()
    for record in records:
        if record.id is None or (record.hour, record.id) not in seen:
            seen.add((record.hour, record.id))
            total[record.hour] = total.get(record.hour, 0) + declaration.value(record.id)
    return {hour: value for hour, value in total.items() if value}
