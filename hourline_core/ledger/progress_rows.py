"""A row of progress as a type, and as an Arrow row.

There is one for each topic of each finished micro-batch of a source, and of each reset.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from hourline_core.ledger.last_records import LastRecord, later_of
from hourline_core.ledger.progress_columns import PROGRESS_SCHEMA
from hourline_core.ledger.source_clock import PartitionClock, SourceClock
from hourline_core.model.windows import HOURLY


@dataclass(frozen=True)
class OffsetsRead:
    """The lowest and the highest offset that were read of a partition."""

    partition: int
    first: int
    last: int
    """It is ``first`` - 1 where there was no record to read."""


@dataclass(frozen=True)
class Position:
    """Where reading goes on after a reset."""

    partition: int
    unread: int
    """One past the highest offset read before. The offsets from here up to ``offset`` are skipped."""
    offset: int


@dataclass(frozen=True)
class Gap:
    """Offsets of a partition that Kafka deleted before they were read. Times are in UTC."""

    partition: int
    first: int
    end: int
    """One past the last one."""
    sent_after: datetime | None
    """Kafka's timestamp of the last record before them that was read. None: it is not known."""
    sent_before: datetime | None
    """Kafka's timestamp of the first record behind them. None: there was none."""
    first_hour: datetime | None
    """The first hour in which their events may lie. None: no event of the source was known."""
    last_hour: datetime | None
    """The last hour in which their events may lie. None: that of the reset."""


@dataclass(frozen=True)
class HourEvents:
    """The events of one hour in a micro-batch."""

    hour: datetime
    events: int
    """Accepted events, without duplicates."""
    late: int
    """The number of them that came after the hour had closed."""


@dataclass(frozen=True)
class TakenBack:
    """The events of one hour that a micro-batch has taken back."""

    hour: datetime
    events: int


@dataclass(frozen=True)
class WrittenMetric:
    """A declaration of a metric whose tiles the speed layer writes."""

    metric: str
    declaration: str
    complete_from: int
    """The sequence from which on its provisional rows are complete."""

    @property
    def name(self) -> str:
        """The metric's name and the declaration, as in the names of tables."""
        return f"{self.metric}_{self.declaration}"


@dataclass(frozen=True)
class RecordCounts:
    """Accounting: records + exploded = accepted + rejected + duplicates + tombstones + empty + not_taken.

    A record that is read again after a reset is not counted again. What it counted as before is taken back, so a number
    may be negative.
    """

    records: int = 0
    accepted: int = 0
    rejected: int = 0
    duplicates: int = 0
    tombstones: int = 0
    not_taken: int = 0
    taken_by_none: int = 0
    exploded: int = 0
    empty: int = 0

    def __add__(self, other: "RecordCounts") -> "RecordCounts":
        return RecordCounts(*(getattr(self, name) + getattr(other, name) for name in _COUNTS))


_COUNTS = tuple(vars(RecordCounts()))


@dataclass(frozen=True)
class ProgressRow:
    """What one finished micro-batch did with one topic, or one reset. Times are in UTC."""

    sequence: int
    topic_id: str | None
    """None: the source was not read yet, or is made anew."""
    topic: str | None
    offsets: tuple[OffsetsRead, ...]
    """By partition."""
    counts: RecordCounts
    hours: tuple[HourEvents, ...]
    metrics: tuple[WrittenMetric, ...]
    """The metrics whose tiles it wrote."""
    clock: datetime | None
    """The source's clock after it. None: nothing was accepted yet."""
    started: datetime
    finished: datetime
    position: tuple[Position, ...] | None = None
    """Where reading goes on. None except for a reset of the source."""
    partitions: tuple[PartitionClock, ...] = ()
    """The clock of each partition after it."""
    gaps: tuple[Gap, ...] | None = None
    """What Kafka had deleted before it was read. None except for a reset of the source."""
    cluster: str | None = None
    """The id of the Kafka cluster that was read. None: it is not known."""
    last_records: tuple[LastRecord, ...] = ()
    """The last record that was read of each partition."""
    lookups: Mapping[str, int] = field(default_factory=dict)
    """By name, the versions of the source's lookups that it used."""
    taken_back: tuple[TakenBack, ...] = ()
    """By hour."""

    @property
    def touched_hours(self) -> set[datetime]:
        """The hours in which events came, or were taken back."""
        return {of.hour for of in self.hours if of.events} | {of.hour for of in self.taken_back}

    @property
    def source_clock(self) -> SourceClock:
        """The clock of the source after it, with those of its partitions."""
        return SourceClock(self.clock, self.partitions)

    @classmethod
    def of_source_reset(
        cls,
        last: "ProgressRow | None",
        sequence: int,
        topic: tuple[str, str],
        position: tuple[Position, ...],
        gaps: tuple[Gap, ...],
        moment: datetime,
        cluster: str | None,
        last_records: tuple[LastRecord, ...],
    ) -> "ProgressRow":
        """A reset after which ``topic`` (its id and name) is read from ``position``. ``gaps`` are among the offsets
        that it skips. ``last_records`` are those of the topic that Kafka still has. ``last`` is the row before it.
        """
        metrics, clock = (last.metrics, last.source_clock) if last else ((), SourceClock())
        dated = tuple(replace(gap, last_hour=gap.last_hour or HOURLY.assign(moment)) for gap in gaps)
        return cls(
            sequence,
            *topic,
            offsets=(),
            counts=RecordCounts(),
            hours=(),
            metrics=metrics,
            clock=clock.time,
            started=moment,
            finished=moment,
            position=position,
            partitions=clock.partitions,
            gaps=dated or None,
            cluster=cluster,
            last_records=last_records,
        )

    @classmethod
    def of_metric_reset(
        cls, last: "ProgressRow", sequence: int, reset: Collection[str], moment: datetime
    ) -> "ProgressRow":
        """A reset of some metrics, whose tiles count from the next sequence on. ``last`` is the row before it."""
        metrics = tuple(
            replace(written, complete_from=sequence + 1) if written.metric in reset else written
            for written in last.metrics
        )
        return replace(last.without_records(sequence, last.source_clock, moment), metrics=metrics)

    @classmethod
    def of_derived_reset(cls, last: "ProgressRow", sequence: int, moment: datetime) -> "ProgressRow":
        """The first row of a derived source that is made anew. ``last`` is the row before it."""
        begun = last.without_records(sequence, SourceClock(), moment)
        return replace(begun, topic_id=None, topic=None, metrics=(), cluster=None)

    def without_records(self, sequence: int, clock: SourceClock, moment: datetime) -> "ProgressRow":
        """A row after this one that reads nothing, at ``clock``."""
        return replace(
            self,
            sequence=sequence,
            offsets=(),
            counts=RecordCounts(),
            hours=(),
            clock=clock.time,
            partitions=clock.partitions,
            started=moment,
            finished=moment,
            position=None,
            gaps=None,
            last_records=(),
            lookups={},
            taken_back=(),
        )

    def followed_by(self, later: "ProgressRow") -> "ProgressRow":
        """One row for two successive ones of a topic, with the later one's sequence. Neither is a reset, or has late
        events. Both use the same versions of lookups.
        """
        events: Counter[datetime] = Counter()
        back: Counter[datetime] = Counter()
        read: dict[int, OffsetsRead] = {}
        for row in (self, later):
            for arrived in row.hours:
                events[arrived.hour] += arrived.events
            for taken in row.taken_back:
                back[taken.hour] += taken.events
            for part in row.offsets:
                known = read.get(part.partition, part)
                read[part.partition] = OffsetsRead(
                    part.partition, min(known.first, part.first), max(known.last, part.last)
                )
        return replace(
            later,
            offsets=tuple(read.values()),
            counts=self.counts + later.counts,
            hours=tuple(HourEvents(hour, count, 0) for hour, count in events.items()),
            clock=later.clock or self.clock,
            started=self.started,
            cluster=later.cluster or self.cluster,
            last_records=later_of(self.last_records, later.last_records),
            taken_back=tuple(TakenBack(hour, count) for hour, count in back.items()),
        )


def to_arrow(rows: Iterable[ProgressRow]) -> pa.Table:
    """The rows as an Arrow table (PROGRESS_SCHEMA)."""
    return pa.Table.from_pylist([_columns(row) for row in rows], PROGRESS_SCHEMA)


def from_arrow(rows: pa.Table) -> list[ProgressRow]:
    """The typed rows of a table of PROGRESS_SCHEMA."""
    return [_row(columns) for columns in rows.to_pylist()]


def _columns(row: ProgressRow) -> dict[str, Any]:
    return {
        **vars(row),
        **vars(row.counts),
        "offsets": [vars(read) for read in row.offsets],
        "position": None if row.position is None else [vars(position) for position in row.position],
        "gaps": None if row.gaps is None else [vars(gap) for gap in row.gaps],
        "hours": [vars(hour) for hour in row.hours],
        "metrics": [vars(metric) for metric in row.metrics],
        "partitions": [vars(known) for known in row.partitions],
        "last_records": [vars(record) for record in row.last_records],
        "lookups": [{"lookup": name, "version": version} for name, version in row.lookups.items()],
        "taken_back": [vars(hour) for hour in row.taken_back],
    }


def _row(columns: Mapping[str, Any]) -> ProgressRow:
    position = columns["position"]
    return ProgressRow(
        columns["sequence"],
        columns["topic_id"],
        columns["topic"],
        tuple(OffsetsRead(**read) for read in columns["offsets"] or ()),
        RecordCounts(*(columns[name] or 0 for name in _COUNTS)),
        tuple(HourEvents(**hour) for hour in columns["hours"] or ()),
        tuple(WrittenMetric(**metric) for metric in columns["metrics"] or ()),
        columns["clock"],
        columns["started"],
        columns["finished"],
        None if position is None else tuple(Position(**one) for one in position),
        tuple(PartitionClock(**{**known, "ahead": tuple(known["ahead"])}) for known in columns["partitions"] or ()),
        tuple(Gap(**gap) for gap in columns["gaps"] or ()) or None,
        columns["cluster"],
        tuple(LastRecord(**record) for record in columns["last_records"] or ()),
        {one["lookup"]: one["version"] for one in columns["lookups"] or ()},
        tuple(TakenBack(**hour) for hour in columns["taken_back"] or ()),
    )
