"""The tables of the protocol's model: lists of versions, and what their rows mean. See protocol_model.py."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from tests.support.protocol_oracle import Address, Declaration

Rows = TypeVar("Rows")
Cut = tuple[int, int]
"""A row of coverage: the cutoff, and the version of final."""
Coverage = Mapping[tuple[Declaration, int], Cut]
"""By declaration and hour."""


class ConflictError(Exception):
    """The table has a version that the writer has not seen."""


class Table(Generic[Rows]):
    commits = 0
    """Those of all tables so far: whether there was one is asked after each step."""

    def __init__(self, rows: Rows) -> None:
        self.versions: list[Rows] = [rows]

    @property
    def rows(self) -> Rows:
        return self.versions[-1]


class Handle(Generic[Rows]):
    """A table opened for writing: it commits on the version that it knows, or not at all."""

    def __init__(self, table: Table[Rows], fenced: bool = True) -> None:
        self.table, self.fenced = table, fenced
        self.version = len(table.versions) - 1

    @property
    def rows(self) -> Rows:
        return self.table.versions[self.version]

    def commit(self, change: Callable[[Rows], Rows]) -> None:
        if self.fenced and self.version != len(self.table.versions) - 1:
            raise ConflictError
        self.table.versions.append(change(self.table.rows))
        Table.commits += 1
        self.version = len(self.table.versions) - 1


class Event(NamedTuple):
    sequence: int
    address: Address
    hour: int
    id: int | None
    duplicate: bool


class Rejected(NamedTuple):
    sequence: int
    address: Address


class Tile(NamedTuple):
    sequence: int
    hour: int
    value: int


class Finished(NamedTuple):
    """A row of progress: a finished micro-batch, or a reset."""

    sequence: int
    read: Mapping[int, tuple[int, int]]
    counts: Mapping[str, int]
    hours: frozenset[int]
    complete_from: Mapping[Declaration, int]
    """Of each declaration that is written, the sequence from which on its provisional rows are whole."""
    clock: int
    position: Mapping[int, int] | None = None
    """Of a reset: where reading goes on."""


Progress = tuple[Finished, ...]


@dataclass
class SourceTables:
    """What a process of the speed layer holds: its tables, and what it knows from them."""

    source: str
    mended: bool
    progress: Handle[Progress]
    events: Handle[tuple[Event, ...]]
    rejected: Handle[tuple[Rejected, ...]]
    provisional: dict[Declaration, Handle[tuple[Tile, ...]]] = field(default_factory=dict)
    next_sequence: int = 0
    next_offsets: dict[int, int] = field(default_factory=dict)
    complete_from: dict[Declaration, int] = field(default_factory=dict)
    clock: int = -1
    known: set[tuple[int, int | None]] = field(default_factory=set)

    def written(self) -> list[Handle[Any]]:
        """All tables but progress."""
        return [self.events, self.rejected, *self.provisional.values()]


def last_sequence(progress: Progress) -> int:
    return progress[-1].sequence if progress else 0


def next_offsets(progress: Progress, partitions: Iterable[int]) -> dict[int, int]:
    """Where reading goes on: at the position of the last reset, or after what was read since."""
    offsets = dict.fromkeys(partitions, 0)
    for row in progress:
        offsets |= row.position or {}
        offsets |= {partition: max(offsets[partition], end) for partition, (_, end) in row.read.items()}
    return offsets


def without_validated_again(
    rejected: tuple[Rejected, ...], events: Iterable[Event], sequence: int
) -> tuple[Rejected, ...]:
    """What is kept of ``rejected`` once micro-batch ``sequence`` has finished: its rows, in events and in rejected, say
    what it has validated.
    """
    validated = {event.address for event in events if event.sequence == sequence} | {
        row.address for row in rejected if row.sequence == sequence
    }
    return tuple(row for row in rejected if row.sequence >= sequence or row.address not in validated)


def pinned(declaration: Declaration, coverage: Coverage) -> int:
    """The version of final that counts; 0, the empty table, when nothing was published."""
    return max((version for (covered, _), (_, version) in coverage.items() if covered == declaration), default=0)


def missing_hours(
    declaration: Declaration, progress: Progress, coverage: Coverage, first_complete_from: int | None = None
) -> set[int]:
    """Hours with events from before the declaration was written (``first_complete_from``, unless progress says it) that
    no recompute has covered since.
    """
    complete_from = progress[-1].complete_from.get(declaration, last_sequence(progress) + 1) if progress else 0
    complete_from = complete_from if first_complete_from is None else first_complete_from
    unseen = {hour: row.sequence for row in progress if row.sequence < complete_from for hour in row.hours}
    return {hour for hour, last in unseen.items() if last > coverage.get((declaration, hour), (-1, 0))[0]}


def served(metric: str, progress: Progress, coverage: Coverage, patient: bool = True) -> Declaration | None:
    """Of the declarations that the speed layer writes: the newest one of which no hour is missing; until there is one,
    the oldest.
    """
    written = sorted(
        declaration for declaration in (progress[-1].complete_from if progress else ()) if declaration.metric == metric
    )
    whole = [
        declaration for declaration in written if not patient or not missing_hours(declaration, progress, coverage)
    ]
    return max(whole, default=min(written, default=None))


def tiles(declaration: Declaration, events: Iterable[Event]) -> list[Tile]:
    """Of the events of one sequence, or of a recompute: by hour, duplicates left out."""
    values: Counter[int] = Counter()
    sequence = 0
    for event in events:
        sequence = event.sequence
        if not event.duplicate:
            values[event.hour] += declaration.value(event.id)
    return [Tile(sequence, hour, value) for hour, value in values.items() if value]
