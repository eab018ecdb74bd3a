"""How many records a micro-batch gets, so that it is bounded in bytes and events as well.

The offsets of Kafka do not tell the sizes of records. So a micro-batch is planned by those before. Its time is bounded
by that if the records stay as they are; its memory always is, since tasks work in chunks.
"""

from dataclasses import dataclass

_RECORDS_OF_FIRST = 1_000
"""So many are read without knowing their sizes. If each has a megabyte, they take seconds."""

_RECORDS_OF_TASK, _BYTES_OF_TASK = 10_000, 16 << 20
"""With less than both, a further task costs more than it saves: some 50 ms for its Python worker."""

_BYTES_OF_SMALL_ROW = 4096


@dataclass(frozen=True)
class TaskBounds:
    """What bounds the tasks of a micro-batch."""

    tasks: int
    """The maximum number of tasks."""
    small_rows: bool
    """Whether the rows read before were small. Then a batch for a task is bounded by its number of rows alone."""


class MicroBatchSize:
    """The size of the micro-batches of one source: at most ``most_records`` each, and on average at most
    ``most_bytes`` and ``most_records`` events.
    """

    def __init__(self, most_records: int, most_bytes: int) -> None:
        self._most_records, self._most_bytes = most_records, most_bytes
        self._records = self._events = self._bytes = 0.0
        """Of the micro-batches so far, each of which counts half as much as the next one."""
        self.records = min(_RECORDS_OF_FIRST, most_records)
        """The maximum number of records of the next micro-batch."""

    def learn(self, records: int, events: int, size: int) -> None:
        """Plan by a micro-batch of so many records, with so many events, and ``size`` bytes of values."""
        if not records:
            return
        self._records = self._records / 2 + records
        self._events = self._events / 2 + events
        self._bytes = self._bytes / 2 + size
        by_bytes = self._most_bytes / max(self._bytes / self._records, 1)
        by_events = self._most_records / max(self._events / self._records, 1)
        self.records = _rounded(min(by_bytes, by_events, self._most_records))

    def bounds(self, records: int) -> TaskBounds:
        """What bounds the tasks of so many records."""
        size = records * self._bytes / self._records if self._records else 0
        tasks = max(1, -(-records // _RECORDS_OF_TASK), int(-(-size // _BYTES_OF_TASK)))
        return TaskBounds(tasks, small_rows=0 < self._bytes < _BYTES_OF_SMALL_ROW * self._events)


def _rounded(records: float) -> int:
    """About ``records``, not more, and at least 1. So a limit seldom changes while records stay as they are."""
    digits = len(str(int(records)))
    step: int = 10 ** max(0, digits - 2)
    return max(1, int(records) // step * step)
