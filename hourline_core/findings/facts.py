"""What findings are decided by: facts that are in the tables, or that the speed layer has noted in the workspace."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hourline_core.model import Source
from hourline_core.runtime.kafka_absence import KafkaAbsence
from hourline_core.runtime.registry_absence import RegistryAbsence
from hourline_core.runtime.sink_state import SinkProblem
from hourline_core.runtime.speed_end import SpeedEnd
from hourline_core.runtime.unread_files import HeldFile
from hourline_core.runtime.unwritten_reports import UnwrittenReports


@dataclass(frozen=True)
class Reason:
    """A reason for which records were rejected."""

    words: str
    records: int
    example: str
    """The address of the first of them."""
    arrived: datetime | None = None
    """When it came first (UTC). None: it was not asked for."""


@dataclass(frozen=True)
class Recent:
    """What arrived in the hour up to the last record. Counts are of events, whatever became of them."""

    first: datetime
    last: datetime
    events: int = 0
    accepted: int = 0
    rejected: int = 0
    """Without those that were decoded anew as events since."""
    duplicates: int = 0
    late: int = 0
    taken_by_none: int = 0


@dataclass(frozen=True)
class RejectedRun:
    """The records since the last accepted one: all of them were rejected."""

    first: datetime
    last: datetime
    records: int
    """Without those that were decoded anew as events since."""


@dataclass(frozen=True)
class Silence:
    """For how long there was no record, where that is known. ``usual``: the second longest such time in 28 days."""

    last: datetime
    """When the last record had been read (UTC)."""
    usual: timedelta = timedelta(0)
    begun: datetime | None = None
    """When the first record of the last 28 days was read."""

    def is_known(self) -> bool:
        """Whether records have come for a day, so that one knows what is usual."""
        return self.begun is not None and self.last - self.begun >= timedelta(days=1)

    def exceeds(self, after: timedelta, now: datetime) -> bool:
        """Whether it is longer than ``after``, and than twice what is usual."""
        return now - self.last > max(after, 2 * self.usual)


@dataclass(frozen=True)
class PartitionFacts:
    """One partition of a topic."""

    name: str
    """Such as ``orders[3]``."""
    clock: datetime | None
    silence: Silence


@dataclass(frozen=True)
class SourceClockFacts:
    """The clock of a source."""

    time: datetime
    since: datetime
    """Since when (UTC) it stands there."""
    delay: timedelta | None = None
    """How far it usually is behind wall time. None: it has not moved yet."""


@dataclass(frozen=True)
class Waiting:
    """Closed hours that a recompute would take."""

    hours: int
    since: datetime
    """When the first of them had closed, or was revised (UTC)."""


@dataclass(frozen=True)
class Quarantine:
    """The events that classes of served metrics fail for."""

    events: int
    file: str
    message: str
    first: datetime
    """When the first of them arrived (UTC)."""


@dataclass(frozen=True)
class GapFacts:
    """A gap that nobody has confirmed."""

    name: str
    records: int
    found: datetime
    """When it was found (UTC)."""


@dataclass(frozen=True)
class RefusedLookup:
    """A lookup whose table cannot be used as it is now."""

    name: str
    problem: str
    since: datetime | None
    """When it could be used last (UTC). None: it is not known."""


@dataclass(frozen=True)
class ChangedLookup:
    """A lookup with more stale hours than it allows."""

    name: str
    hours: int
    most: int
    since: datetime
    """When its newest version was committed (UTC)."""


@dataclass(frozen=True)
class SourceFacts:
    """What is known of one source. None: there is none, or nothing of it matters."""

    source: Source
    place: str
    """The file and line of its declaration."""
    recent: Recent | None = None
    run: RejectedRun | None = None
    reasons: tuple[Reason, ...] = ()
    """Of the recent records, the most frequent ones first."""
    new_reasons: tuple[Reason, ...] = ()
    """Those that came within the last day, and not in the 28 days before."""
    silence: Silence | None = None
    """Imported files are no records here."""
    clock: SourceClockFacts | None = None
    partitions: tuple[PartitionFacts, ...] = ()
    quarantine: Quarantine | None = None
    gaps: tuple[GapFacts, ...] = ()
    gone: Mapping[str, datetime] = field(default_factory=dict)
    """By topic, since when (UTC) the speed layer waits for it."""
    registry: RegistryAbsence | None = None
    """What it waits for the schema registry for."""
    unread_files: tuple[HeldFile, ...] = ()
    """Those that the running speed layer does not read as they are, the first ones."""
    all_unread_files: int = 0
    """The number of all of these."""
    waiting: Waiting | None = None
    refused_lookups: tuple[RefusedLookup, ...] = ()
    changed_lookups: tuple[ChangedLookup, ...] = ()
    failing_sinks: tuple[SinkProblem, ...] = ()
    """Those of its metrics."""
    ids: int = 0
    """The number of events within the horizon of ids."""


@dataclass(frozen=True)
class SpeedFacts:
    """What is known of the speed layer, and of what belongs to no source."""

    runs: bool
    ended: SpeedEnd | None = None
    away: KafkaAbsence | None = None
    seen: datetime | None = None
    """When a micro-batch was finished last (UTC)."""
    unwritten: UnwrittenReports | None = None
    """The reports that could not be written."""
