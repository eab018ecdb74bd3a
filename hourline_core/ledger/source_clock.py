"""The clock of a source: the least, over its live partitions, of the highest event time that each has shown.

So a partition that is read or fed slowly holds the hours of its source open. Flink calls such a clock a watermark.

One record cannot carry a clock away. A clock never passes the arrival of a record, and a leap of more than ``LEAP``
counts only once ``CONFIRMING`` further records confirm it. A record between the clock and ``LEAP`` beyond it refutes
the leap. Records behind the clock say nothing about it: they are late.

A partition without records for the source's ``idle`` time does not hold the clock. If all partitions are idle, the
clock goes on as fast as wall time. Only the speed layer decides that, between two micro-batches, since it can ask Kafka
whether something is unread. It commits each decision to progress, so all readers see the same clock.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt

Micros = npt.NDArray[np.int64]
"""Points in time: microseconds since 1970 in UTC."""
NO_TIMES: Micros = np.empty(0, dtype=np.int64)

LEAP = timedelta(hours=1)
CONFIRMING = 3
"""The number of further records that confirm a leap. They must not all have the same event time."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LEAP = LEAP // _MICROSECOND


@dataclass(frozen=True)
class PartitionClock:
    """What the records of one partition have shown. Times are in UTC."""

    topic_id: str
    partition: int
    clock: datetime | None
    """The highest event time that counts. None: no event was accepted yet."""
    arrived: datetime
    """When its last record arrived."""
    ahead: tuple[datetime, ...] = ()
    """Event times beyond a leap that is not confirmed yet."""
    held_back: int = 0
    """The number of records whose leap was refuted."""

    def advance(self, event_times: Micros, arrived: datetime, skew: timedelta) -> "PartitionClock":
        """The clock after records with these event times, in the order of their offsets, that arrived at ``arrived``.

        ``skew`` is how far producers' clocks may be ahead of arrival.
        """
        if not len(event_times):
            return replace(self, arrived=arrived)
        times = np.minimum(event_times, _micros(arrived + skew))
        # The first records have nothing to be compared with. The lowest of them is the safest to begin with.
        clock = _micros(self.clock) if self.clock else int(times[: CONFIRMING + 1].min())
        highest = np.maximum.accumulate(np.concatenate(([clock], times)))
        if not self.ahead and bool((times <= highest[:-1] + _LEAP).all()):
            return replace(self, clock=_moment(int(highest[-1])), arrived=arrived)
        ahead, held_back = [_micros(moment) for moment in self.ahead], self.held_back
        for time in times.tolist():
            if time > clock + _LEAP:
                clock, ahead = _confirm(clock, [*ahead, time])
            elif time >= clock:
                clock, ahead, held_back = time, [], held_back + len(ahead)
        return replace(
            self, clock=_moment(clock), arrived=arrived, ahead=tuple(map(_moment, ahead)), held_back=held_back
        )

    @property
    def address(self) -> tuple[str, int]:
        """Its topic id and number."""
        return self.topic_id, self.partition

    def is_idle(self, now: datetime, idle: timedelta | None) -> bool:
        """Whether it had no record for the time ``idle``. None: no partition is ever idle."""
        return idle is not None and now - self.arrived > idle


@dataclass(frozen=True)
class SourceClock:
    """The clock of a source after a micro-batch, and those of its partitions. It never goes back."""

    time: datetime | None = None
    """None: no event was accepted yet."""
    partitions: tuple[PartitionClock, ...] = ()
    """By topic id and partition. Imported files are not among them."""

    def of_topics(self, topic_ids: Collection[str]) -> "SourceClock":
        """The clock with the partitions of these topics alone. A topic that is read no more holds nothing."""
        return replace(self, partitions=tuple(known for known in self.partitions if known.topic_id in topic_ids))

    def of_partition(self, of: tuple[str, int], arrived: datetime) -> PartitionClock:
        """The clock of a partition, by topic id and number. One that is not known yet has no record but those of
        ``arrived``.
        """
        return next((clock for clock in self.partitions if clock.address == of), PartitionClock(*of, None, arrived))

    def with_partition(self, known: PartitionClock) -> "SourceClock":
        """The same time, with that clock of a partition in place of the one before."""
        others = (clock for clock in self.partitions if clock.address != known.address)
        return replace(self, partitions=tuple(sorted((*others, known), key=lambda clock: clock.address)))

    def after_records(
        self, read: Iterable[PartitionClock], *, behind: Collection[tuple[str, int]] = ()
    ) -> "SourceClock":
        """The clock after a micro-batch. ``read`` are the clocks of the partitions with records in it, after these.

        ``behind`` are the partitions of which Kafka may have unread records. One of them that has shown no event yet
        holds the clock.
        """
        known = {clock.address: clock for clock in (*self.partitions, *read)}
        partitions = tuple(known[of] for of in sorted(known))
        shown = {of: clock.clock for of, clock in known.items() if clock.clock is not None}
        if any(of not in shown for of in behind):
            return SourceClock(self.time, partitions)
        return SourceClock(_latest([self.time, min(shown.values(), default=None)]), partitions)

    def after_import(self, latest: datetime | None, arrived: datetime) -> "SourceClock":
        """The clock after rows of a file, of which ``latest`` is the highest event time. They count only while no
        partition has shown an event time: a file has no order, and no more of its rows will come.
        """
        if latest is None or any(known.clock for known in self.partitions):
            return self
        return replace(self, time=_latest([self.time, min(latest, arrived)]))

    def without_idle(self, now: datetime, idle: timedelta, unread: Collection[tuple[str, int]] = ()) -> "SourceClock":
        """The clock at ``now``, without the partitions that are idle. ``unread`` are those of which Kafka has unread
        records: none of them is idle.

        If all partitions are idle, it is the highest of their clocks, moved on by the time since the last record.
        """
        shown = [(known.clock, known) for known in self.partitions if known.clock is not None]
        if not shown or any(of not in {known.address for _, known in shown} for of in unread):
            return self
        live = [clock for clock, known in shown if known.address in unread or not known.is_idle(now, idle)]
        if live:
            return replace(self, time=_latest([self.time, min(live)]))
        silent = now - max(known.arrived for known in self.partitions)
        return replace(self, time=_latest([self.time, max(clock for clock, _ in shown) + silent]))


def _confirm(clock: int, ahead: list[int]) -> tuple[int, list[int]]:
    """The clock and the event times beyond a leap, after one more of these."""
    while len(ahead) > CONFIRMING and len(set(ahead)) > 1:
        clock = min(ahead)
        for time in sorted(ahead):
            clock = time if time <= clock + _LEAP else clock
        ahead = [time for time in ahead if time > clock]
    return clock, ahead[-CONFIRMING:]


def _latest(moments: Iterable[datetime | None]) -> datetime | None:
    return max((moment for moment in moments if moment is not None), default=None)


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def _moment(micros: int) -> datetime:
    return _EPOCH + micros * _MICROSECOND
