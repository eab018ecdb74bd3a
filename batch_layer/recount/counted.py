"""Which events count in an hour, in plain Python."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from batch_layer.recount.equality import key_of
from batch_layer.recount.read_rows import Row


def keep_counted(rows: Iterable[Row], hour: datetime, cutoff: int) -> Iterator[Row]:
    """The events of ``hour`` that count: up to the cutoff, the first of each id, if it fulfils the source's ``where``.
    Each event without an id counts.

    The first event of each id is held in memory, since a later row may come before it.
    """
    first: dict[Any, Row] = {}
    for row in rows:
        if row.sequence > cutoff or row.at.replace(minute=0, second=0, microsecond=0) != hour:
            continue
        if row.identity is None:
            if row.fulfils:
                yield row
            continue
        identity = key_of(row.identity)
        known = first.get(identity)
        if known is None or _arrival(row) < _arrival(known):
            first[identity] = row
    yield from (row for row in first.values() if row.fulfils)


def _arrival(row: Row) -> tuple[int, str, int, int, int]:
    return row.sequence, row.topic_id or "", row.partition, row.offset, row.place
