"""Which events count in an hour, in plain Python."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from batch_layer.recount.equality import key_of
from batch_layer.recount.read_rows import Row


def keep_counted(rows: Iterable[Row], hour: datetime, cutoff: int, *, takes_back: bool = False) -> Iterator[Row]:
    """The events of ``hour`` that count: up to the cutoff, the first of each id, if it fulfils the source's ``where``.
    Each event without an id counts. If the source ``takes_back`` events, one whose id comes again does not count.

    The first event of each id is held in memory, since a later row may come before it.
    """
    first: dict[Any, Row] = {}
    again: set[Any] = set()
    for row in rows:
        if row.sequence > cutoff or row.at.replace(minute=0, second=0, microsecond=0) != hour:
            continue
        if row.identity is None:
            if row.fulfils:
                yield row
            continue
        identity = key_of(row.identity)
        known = first.get(identity)
        if known is not None and takes_back:
            again.add(identity)
        if known is None or _arrival(row) < _arrival(known):
            first[identity] = row
    yield from (row for identity, row in first.items() if row.fulfils and identity not in again)


def _arrival(row: Row) -> tuple[int, str, int, int, int]:
    return row.sequence, row.topic_id or "", row.partition, row.offset, row.place
