"""The protocol that the promises rest on, as a small model: in memory, at random, and with each of its rules to be
broken on purpose.

Tables are lists of versions. A process is a generator: where it yields it may be overtaken by all others, be killed, or
sleep and wake as a zombie. No lease keeps processes apart here, so that any number of each kind runs at once: what
holds is held by the commits alone. A read compares what it got with the oracle. ``RULES`` names each rule and what
follows from breaking it; a model is made with the name of at most one that it breaks.
"""

import random
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from typing import Any

from tests.support.protocol_oracle import HORIZON, Declaration, Record, Truth
from tests.support.protocol_tables import (
    Coverage,
    Event,
    Finished,
    Handle,
    Progress,
    Rejected,
    Rows,
    SourceTables,
    Table,
    Tile,
    next_offsets,
    served,
    tiles,
    without_validated_again,
)

RULES = {
    # speed layer
    "progress is committed last": "what a crash leaves behind would count",
    "no micro-batch is committed after one that failed": "the records of the one that failed are lost",
    "a start clears what lies beyond progress": "its records are read again, and count twice",
    "a start goes on where progress ends": "the records of an unfinished micro-batch are lost",
    "a start fences every table": "a zombie slips its rows into a sequence that another process finishes",
    "deduplication is rebuilt at a start": "a duplicate counts in provisional",
    "compaction keeps sequences": "a sum over several sequences crosses a cutoff",
    "only a published cutoff is pruned": "an hour loses what its recompute has not yet counted",
    # batch layer
    "a cutoff is never beyond progress": "events of an unfinished micro-batch count",
    "a cutoff is what was counted": "events count in final and above the cutoff",
    "handles are opened before the cutoff is taken": "a sleeper takes a cutoff back, below what was pruned",
    "a commit is made on the version expected": "a zombie publishes what it knew long ago",
    "final is restored to what is published": "what a killed recompute left is published with an old cutoff",
    "each id counts once in final": "a duplicate beyond the horizon counts for ever",
    # reading
    "progress is read before provisional": "an unfinished or half-seen micro-batch counts",
    "provisional is read before coverage": "what was pruned between the two is missing",
    "a read begins again if a cutoff lies beyond its progress": "final is ahead of the rest",
    "final is read as pinned": "what is not published counts",
    "a read begins again if a metric was reset": "provisional was deleted under its feet",
    # changes
    "a new metric has hours that are missing": "hours with events from before it are partial",
    "a changed declaration serves once no hour of it is missing": "hours are missing that were there",
    "the old declaration is written until then": "its hours stand still, or go missing",
    "a reset skips what is archived": "events are archived, and count, twice",
    "a reset skips tombstones that were read": "they are accounted for twice",
    "a rejected record that is validated again takes its count back": "it is accounted for twice",
    "what is validated again is deleted once progress says so": "a crash before that loses a record that counts as rejected",
    "what was validated again is not kept": "it is there twice, or though it is accepted now",
    "a start deletes what the last micro-batch validated again": "a crash between its last two commits leaves a record there twice",
    "a reset of a metric raises complete_from first": "hours lose provisional rows and are not missing",
}

HOURS = range(4)
PARTITIONS = range(2)
DECLARED = (Declaration("visits", "web"), Declaration("visitors", "web"), Declaration("parcels", "depot"))
SOURCES = ("web", "depot")

Process = Generator[str, None, Any]
"""Yields what it is about to do."""


class Model:
    def __init__(self, seed: int = 0, broken: str | None = None) -> None:
        assert broken is None or broken in RULES
        self.random, self.broken = random.Random(seed), broken  # noqa: S311 (the same numbers each time)
        self.kafka: dict[str, list[list[Record]]] = {source: [[] for _ in PARTITIONS] for source in SOURCES}
        self.refused = 0.0
        """The share of a speed layer's commits that its store refuses."""
        self.truth = {source: Truth(self.kafka[source]) for source in SOURCES}
        self.mended = dict.fromkeys(SOURCES, False)
        self.declared: dict[str, list[Declaration]] = {
            declaration.metric: [declaration] for declaration in DECLARED if declaration.metric != "visitors"
        }
        self.excused: set[str] = set()  # metrics that came late, or were reset: hours of them may be missing
        self.progress: dict[str, Table[Progress]] = {source: Table(()) for source in SOURCES}
        self.events: dict[str, Table[tuple[Event, ...]]] = {source: Table(()) for source in SOURCES}
        self.rejected: dict[str, Table[tuple[Rejected, ...]]] = {source: Table(()) for source in SOURCES}
        self.provisional: dict[Declaration, Table[tuple[Tile, ...]]] = defaultdict(lambda: Table(()))
        self.final: dict[Declaration, Table[Mapping[int, int]]] = defaultdict(lambda: Table({}))
        self.coverage: Table[Coverage] = Table({})

    def holds(self, rule: str) -> bool:
        return rule != self.broken

    def open(self, table: Table[Rows]) -> Handle[Rows]:
        return Handle(table, self.holds("a commit is made on the version expected"))

    # -- what people do
    # ----------------------------------------------------------------------------------------------------

    def produce(self, source: str, records: Iterable[tuple[int, Record]]) -> None:
        for partition, record in records:
            self.kafka[source][partition].append(record)

    def declare_another(self, metric: str) -> None:
        """A new metric, or a changed declaration of one; the speed layer learns of it at its next start."""
        known = self.declared.setdefault(metric, [])
        (first,) = (declaration for declaration in DECLARED if declaration.metric == metric)
        if not known:
            self.excused.add(metric)
        known.append(first._replace(number=len(known)))

    # -- the speed layer
    # ---------------------------------------------------------------------------------------------------

    def speed(self, source: str, most: int) -> Process:
        """The speed layer of one source until all is read; ``most`` is the size of a micro-batch, by partition."""
        source_tables = yield from self._start(source)
        yield from self._maintain(source_tables)
        while any(
            len(self.kafka[source][partition]) > source_tables.next_offsets[partition] for partition in PARTITIONS
        ):
            if not (yield from self._micro_batch(source_tables, most)):
                return
            if self.random.random() < 0.5:
                yield from self._maintain(source_tables)

    def _start(self, source: str) -> Generator[str, None, SourceTables]:
        """Open all tables, progress first; then fence out whoever wrote before, progress first; and clear what was left
        unfinished.

        The order matters between two starts: whoever is second to fence progress has opened every table after the first
        one did.
        """
        mended, declarations = (
            self.mended[source],
            [d for known in self.declared.values() for d in known if d.source == source],
        )
        progress = self.open(self.progress[source])
        yield "open tables"
        source_tables = SourceTables(
            source, mended, progress, self.open(self.events[source]), self.open(self.rejected[source])
        )
        source_tables.provisional = {
            declaration: self.open(self.provisional[declaration]) for declaration in declarations
        }
        rows = progress.rows
        finished = rows[-1] if rows else Finished(0, {}, {}, frozenset(), {}, -1)
        written = [
            row.sequence
            for handle in source_tables.written()
            for rows_then in handle.table.versions[: handle.version + 1]
            for row in rows_then
        ]
        source_tables.next_sequence = max([finished.sequence, *written]) + 1  # above any ever written
        yield "read coverage"
        written_again = self._written(source, rows, self.coverage.rows, declarations)
        source_tables.complete_from = {
            d: finished.complete_from.get(d, source_tables.next_sequence) for d in written_again
        }
        if self.holds("a start fences every table"):
            yield "fence progress"
            progress.commit(lambda there: there)
        for handle in source_tables.written():
            beyond = any(row.sequence > finished.sequence for row in handle.rows)
            if beyond or self.holds("a start fences every table"):
                yield "clear"
                kept = [
                    row
                    for row in handle.rows
                    if row.sequence <= finished.sequence or not self.holds("a start clears what lies beyond progress")
                ]
                handle.commit(lambda there, kept=tuple(kept): kept)  # type: ignore[misc]
        if self.holds("a start deletes what the last micro-batch validated again"):
            yield from self._delete_validated_again(source_tables, finished.sequence)
        source_tables.next_offsets = next_offsets(rows, PARTITIONS)
        if not self.holds("a start goes on where progress ends"):
            for row in source_tables.events.table.versions[-2] if len(source_tables.events.table.versions) > 1 else ():
                partition, offset = row.address
                source_tables.next_offsets[partition] = max(source_tables.next_offsets[partition], offset + 1)
        source_tables.clock = finished.clock
        if self.holds("deduplication is rebuilt at a start"):
            source_tables.known = {
                (row.hour, row.id)
                for row in source_tables.events.rows
                if row.id is not None and row.hour >= source_tables.clock - HORIZON
            }
        return source_tables

    def _written(
        self, source: str, rows: Progress, coverage: Coverage, declarations: list[Declaration]
    ) -> list[Declaration]:
        """Of each metric the newest declaration; and the one that is served, as long as it is another."""
        chosen = []
        for metric in sorted({declaration.metric for declaration in declarations}):
            newest = max(declaration for declaration in declarations if declaration.metric == metric)
            serving = served(metric, rows, coverage)
            keep = serving in declarations and self.holds("the old declaration is written until then")
            chosen += [serving, newest] if serving and serving != newest and keep else [newest]
        return chosen

    def _micro_batch(self, source_tables: SourceTables, most: int) -> Generator[str, None, bool]:
        """Commit the next micro-batch. Returns whether another one may be committed."""
        sequence, log = source_tables.next_sequence, self.kafka[source_tables.source]
        ends = {
            partition: min(first + most, len(log[partition])) for partition, first in source_tables.next_offsets.items()
        }
        read = {
            partition: (first, ends[partition])
            for partition, first in source_tables.next_offsets.items()
            if first < ends[partition]
        }
        events, rejected, tombstones = self._validate(source_tables, sequence, read)
        hours = frozenset(event.hour for event in events if not event.duplicate)
        clock = max([source_tables.clock, *hours])
        duplicates = sum(event.duplicate for event in events)
        validated = {event.address for event in events} | {row.address for row in rejected}
        again = len(validated & {row.address for row in source_tables.rejected.rows})
        refused = len(rejected) - again * self.holds("a rejected record that is validated again takes its count back")
        counts = {
            "accepted": len(events) - duplicates,
            "rejected": refused,
            "duplicates": duplicates,
            "tombstones": tombstones,
        }
        row = Finished(
            sequence, read, {"records": sum(counts.values()), **counts}, hours, dict(source_tables.complete_from), clock
        )
        appends: list[tuple[Handle[Any], list[Any]]] = [
            (source_tables.events, events),
            (source_tables.rejected, rejected),
        ]
        appends += [
            (source_tables.provisional[declaration], tiles(declaration, events))
            for declaration in source_tables.complete_from
        ]
        self.random.shuffle(appends)  # the order among its tables does not matter
        place = len(appends) if self.holds("progress is committed last") else 0
        for handle, rows in [*appends[:place], (source_tables.progress, [row]), *appends[place:]]:
            if handle is source_tables.progress and not self.holds(
                "what is validated again is deleted once progress says so"
            ):
                yield from self._delete_validated_again(source_tables, sequence)
            if rows:
                yield "append"
                if self.refused and self.random.random() < self.refused:
                    if self.holds("no micro-batch is committed after one that failed"):
                        return False
                    break  # the next one has been read ahead
                handle.commit(lambda there, rows=tuple(rows): there + rows)  # type: ignore[misc]
                if handle is source_tables.progress:
                    self.truth[source_tables.source].finish(sequence, read, source_tables.mended)
        yield from self._delete_validated_again(source_tables, sequence)
        source_tables.next_sequence, source_tables.next_offsets, source_tables.clock = (
            sequence + 1,
            source_tables.next_offsets | ends,
            clock,
        )
        known = source_tables.known | {(event.hour, event.id) for event in events if event.id is not None}
        source_tables.known = {(hour, identity) for hour, identity in known if hour >= clock - HORIZON}
        return True

    def _validate(
        self, source_tables: SourceTables, sequence: int, read: Mapping[int, tuple[int, int]]
    ) -> tuple[list[Event], list[Rejected], int]:
        archived = {event.address for event in source_tables.events.rows}
        before = {
            (p, o)
            for row in source_tables.progress.rows
            for p, (first, end) in row.read.items()
            for o in range(first, end)
        }
        known, events, rejected, tombstones = set(source_tables.known), [], [], 0
        for address in [
            (partition, offset) for partition, (first, end) in sorted(read.items()) for offset in range(first, end)
        ]:
            record = self.kafka[source_tables.source][address[0]][address[1]]
            if address in archived and self.holds("a reset skips what is archived"):
                continue
            if record.kind == "tombstone":
                tombstones += address not in before or not self.holds("a reset skips tombstones that were read")
            elif record.kind == "garbage" and not source_tables.mended:
                rejected.append(Rejected(sequence, address))
            else:
                duplicate = record.id is not None and (record.hour, record.id) in known
                events.append(Event(sequence, address, record.hour, record.id, duplicate))
                known.add((record.hour, record.id))
        return events, rejected, tombstones

    def _delete_validated_again(self, source_tables: SourceTables, sequence: int) -> Process:
        """What was said before of the records that a micro-batch has validated again."""
        kept = without_validated_again(source_tables.rejected.rows, source_tables.events.rows, sequence)
        if kept != source_tables.rejected.rows and self.holds("what was validated again is not kept"):
            yield "delete what was validated again"
            source_tables.rejected.commit(lambda there: kept)

    def _maintain(self, source_tables: SourceTables) -> Process:
        if not source_tables.progress.rows:
            return
        covered = {key: cutoff for key, (cutoff, _) in self.coverage.rows.items()}
        yield "prune and compact"
        for declaration, handle in source_tables.provisional.items():
            if not self.holds("only a published cutoff is pruned"):
                covered |= {
                    (declaration, hour): source_tables.progress.rows[-1].sequence
                    for hour in self.final[declaration].rows
                }
            kept = [row for row in handle.rows if row.sequence > covered.get((declaration, row.hour), -1)]
            if not self.holds("compaction keeps sequences"):
                kept = [
                    Tile(max(row.sequence for row in kept), hour, sum(r.value for r in kept if r.hour == hour))
                    for hour in {r.hour for r in kept}
                ]
            handle.commit(lambda there, kept=tuple(kept): kept)  # type: ignore[misc]
            yield "prune and compact"

    # -- resets, while no speed layer runs: they begin as its start does, and so fence one out that does
    # --------------------------

    def reset_source(self, source: str, position: Mapping[int, int]) -> Process:
        """Reading goes on at ``position``: one row of progress. What was rejected counts until a micro-batch validates
        it again.
        """
        source_tables = yield from self._start(source)
        yield "append reset"
        row = Finished(
            source_tables.next_sequence,
            {},
            {},
            frozenset(),
            dict(source_tables.complete_from),
            source_tables.clock,
            position,
        )
        source_tables.progress.commit(lambda there: (*there, row))

    def reset_metric(self, source: str, metric: str) -> Process:
        """All that was computed of a metric goes; a recompute computes it again. Killed in between: hours are final or
        missing.
        """
        source_tables = yield from self._start(source)
        complete_from = {
            d: source_tables.next_sequence if d.metric == metric else first
            for d, first in source_tables.complete_from.items()
        }
        row = Finished(source_tables.next_sequence, {}, {}, frozenset(), complete_from, source_tables.clock)
        self.excused.add(metric)
        if self.holds("a reset of a metric raises complete_from first"):
            yield "append reset"
            source_tables.progress.commit(lambda there: (*there, row))
        for declaration in source_tables.complete_from:
            if declaration.metric == metric:
                yield "delete provisional"
                source_tables.provisional[declaration].commit(lambda there: ())
        coverage = self.open(self.coverage)
        yield "take out of coverage"
        coverage.commit(lambda there: {key: cutoff for key, cutoff in there.items() if key[0].metric != metric})
        if not self.holds("a reset of a metric raises complete_from first"):
            yield "append reset"
            source_tables.progress.commit(lambda there: (*there, row))
