"""Faults in the tasks that read and fold the archive themselves. Spark's Python workers import this module."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from functools import partial
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc

from batch_layer.folding import first, tasks
from batch_layer.folding.read import Reader
from batch_layer.folding.shares import Share
from batch_layer.folding.tasks import work_on_shares
from hourline_core.compute import fold_tiles
from hourline_core.model.scratch_columns import HOUR

Change = Callable[[pa.Table], pa.Table]


@contextmanager
def tasks_of_few_events() -> Iterator[None]:
    """Spark's tasks fold the archive, however few events there are, and the events of an hour are in several of them."""
    with (
        patch("batch_layer.read_archive.ROWS_OF_TASK", 0),
        patch.multiple("batch_layer.folding.shares", ROWS_OF_TASK=50, ROWS_WITH_IDS=50),
    ):
        yield


@contextmanager
def in_tasks(fault: Callable[[], AbstractContextManager[Any]]) -> Iterator[None]:
    """All tasks of ArchiveFold have ``fault``, which is found by its name in its module."""
    with patch("batch_layer.folding.run.work_on_shares", partial(work_with, fault)):
        yield


def work_with(
    fault: Callable[[], AbstractContextManager[Any]],
    plan: bytes,
    shares: Sequence[Share],
    numbers: Iterable[pa.RecordBatch],
) -> bytes:
    """``work_on_shares`` with ``fault``, which no later task of this worker has."""
    tasks._prepare.cache_clear()
    try:
        with fault():
            return work_on_shares(plan, shares, numbers)
    finally:
        tasks._prepare.cache_clear()


@contextmanager
def changed_sql(name: str, changes: Mapping[str, str]) -> Iterator[None]:
    """The SQL of a fold or a merge has other words. Raises AssertionError if it has none of ``changes``."""
    right = getattr(fold_tiles, name)

    def wrong(*of: Any) -> str:
        sql = str(right(*of))
        assert any(old in sql for old in changes), sql
        for old, new in changes.items():
            sql = sql.replace(old, new)
        return sql

    with patch.object(fold_tiles, name, wrong):
        yield


@contextmanager
def keep_last() -> Iterator[None]:
    """The last event of each id is kept."""
    with patch.object(first, "_FIRSTS", first._FIRSTS.replace("min(", "max(")):
        yield


@contextmanager
def changed_choice(change: Callable[[pa.Table, pa.Array], pa.Array]) -> Iterator[None]:
    """Other events are kept than the first of each id: ``change`` is given the events and which of them are first."""
    right = first.find_first

    def wrong(connection: Any, events: pa.Table, *hashes: Any, **how: Any) -> pa.Array:
        return change(events, right(connection, events, *hashes, **how))

    with patch.object(tasks, "find_first", wrong):
        yield


def all_of_them(events: pa.Table, is_first: pa.Array) -> pa.Array:
    """Every event is kept."""
    return pa.repeat(True, len(events))


def not_one(events: pa.Table, is_first: pa.Array) -> pa.Array:
    """One event of each hour is left out, which is the first of its id."""
    kept = is_first.to_pylist()
    for hour in pc.unique(events[HOUR]).to_pylist():
        kept[next(n for n, of in enumerate(events[HOUR].to_pylist()) if of == hour and kept[n])] = False
    return pa.array(kept)


@contextmanager
def changed_reading(change: Change) -> Iterator[None]:
    """The archive is read wrongly, so that tiles and totals agree."""
    right = Reader.read

    def wrong(reader: Reader, share: Share) -> Iterator[pa.Table]:
        return map(change, right(reader, share))

    with patch.object(Reader, "read", wrong):
        yield


def without(hour: datetime, depot: str, rows: pa.Table) -> pa.Table:
    """The events without those of ``hour`` and ``depot``."""
    here = pc.and_(pc.equal(rows[HOUR], pa.scalar(hour, rows[HOUR].type)), pc.equal(rows["depot"], depot))
    return rows.filter(pc.invert(pc.fill_null(here, False)))


def without_values(name: str, rows: pa.Table) -> pa.Table:
    """The events with null in a column."""
    place = rows.column_names.index(name)
    return rows.set_column(place, name, pa.nulls(len(rows), rows[name].type))
