"""Lets the clock of a source go on without its idle partitions, so that the last hour before a quiet night closes.

A micro-batch moves the clock by its records, and does not know that others are missing. Between two of them, the speed
layer asks Kafka whether an idle partition has unread records: one that has is behind, and not idle. If the clock
without the idle ones enters another hour, or closes one, the speed layer commits a row of progress that reads nothing
and has this clock. So nobody else needs to know the time, and all readers see the same clock.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from hourline_core.errors import BrokerError
from hourline_core.ledger.source_clock import SourceClock
from hourline_core.model.hours import Clock, time_before
from hourline_core.model.windows import HOURLY
from speed_layer.commit.source_tables import SourceTables

Offsets = Mapping[tuple[str, int], int]
"""By topic id and partition, one past the last offset."""

_ASKED_AGAIN = timedelta(seconds=15)
"""The minimum time between two requests to Kafka."""


class IdlePartitions:
    """Watches one source, whose tables are ``source_tables``, for partitions without records.

    ``ends`` asks Kafka for the ends of the committed records, and raises BrokerError. ``read`` says how far Spark has
    read. ``clock`` is the wall's (UTC).
    """

    def __init__(
        self,
        source_tables: SourceTables,
        ends: Callable[[], Offsets],
        read: Callable[[], Offsets],
        clock: Clock,
    ) -> None:
        self._source_tables = source_tables
        self._ends = ends
        self._read = read
        self._clock = clock
        self._since = clock()
        """Since when it watches, with Kafka there. Nothing was idle before that, as far as it knows."""
        self._asked: datetime | None = None

    def moves_clock(self, ends: Offsets | None = None) -> bool:
        """Whether the clock without idle partitions is in another hour, or past the close of one. ``ends`` are those of
        the committed records in Kafka. None: as if all were read.
        """
        idle = self._source_tables.source.idle
        clock, now = self._source_tables.clock, self._clock()
        if idle is None or clock.time is None or now - self._since <= idle:
            return False
        unread = self._unread(ends) if ends else ()
        return self._passed(clock) != self._passed(clock.without_idle(now, idle, unread))

    def ask_ends(self) -> Offsets | None:
        """The ends of the committed records in Kafka. None: it does not answer, or was asked a moment ago."""
        now = self._clock()
        if self._asked is not None and now - self._asked < _ASKED_AGAIN:
            return None
        self._asked = now
        try:
            return self._ends()
        except BrokerError:
            self._since = now  # Producers may have been unable to send.
            return None

    def commit(self, sequence: int, ends: Offsets) -> None:
        """Commit the clock without idle partitions to progress, under ``sequence``. Raises ConflictError when another
        process writes there.
        """
        tables, now = self._source_tables, self._clock()
        idle = tables.source.idle
        assert idle is not None
        tables.finish_clock(sequence, tables.clock.without_idle(now, idle, self._unread(ends)), now)

    def _unread(self, ends: Offsets) -> list[tuple[str, int]]:
        """The partitions of which Kafka has unread records. Spark has also passed offsets without a record, such as the
        markers of transactions.
        """
        readings, read = self._source_tables.progress.readings({topic_id for topic_id, _ in ends}), self._read()
        return [
            (topic_id, partition)
            for (topic_id, partition), end in ends.items()
            if end > max(readings[topic_id].next_offsets.get(partition, 0), read.get((topic_id, partition), 0))
        ]

    def _passed(self, clock: SourceClock) -> list[datetime]:
        """The hours in which the clock is, and in which it was ``grace`` ago: all that results depend on."""
        assert clock.time is not None
        return [HOURLY.assign(clock.time), HOURLY.assign(time_before(clock.time, self._source_tables.source.grace))]
