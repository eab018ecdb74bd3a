"""The work of a task: reads its share of the archive, or takes the events that Spark has read, keeps the first event of
each id, folds and counts. It tells the driver the tiles and totals alone.
"""

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batch_layer.folding.failures import keep_first
from batch_layer.folding.first import find_first
from batch_layer.folding.identities import count_kept, count_left_out
from batch_layer.folding.plan import FoldPlan, ReadPlan
from batch_layer.folding.read import Reader
from batch_layer.folding.shares import ROWS_WITH_IDS, Share
from batch_layer.folding.tables import hash_ids, join_chunks, split_table
from batch_layer.folding.totals import add_up_events, add_up_states
from hourline_core.compute.fold_tiles import Fold, connect_for_folds
from hourline_core.compute.tasks import keep_imports
from hourline_core.compute.worker_database import connect
from hourline_core.model.scratch_columns import (
    HOUR,
    IS_FIRST,
    SCRATCH_PREFIX,
)
from hourline_core.runtime.freed_memory import give_back_memory

_TILE_BYTES = 32 << 20
"""From this size of further tiles on, they are merged with the others. It grows with the size of all groups: a tile has
100 bytes without sketches, and up to 100,000 with them.
"""
READ, COUNTED, OF_METRIC, QUARANTINED = (
    f"{SCRATCH_PREFIX}{name}" for name in ("read", "counted", "of_metric", "quarantined")
)
"""bigint: the numbers of events of an hour: all, those that count, those that a metric counts, and those that it would
count if no class failed for them.
"""


@dataclass
class FoldedShare:
    """What a task tells. An hour may have several rows in each table."""

    read: list[pa.Table] = field(default_factory=list)
    """HOUR, READ, and the numbers of events without each required field, and of those that are true in each column of
    the lookups.
    """
    kept: list[pa.Table] = field(default_factory=list)
    """As ``count_kept`` gives them. There are none without an id."""
    left_out: list[pa.Table] = field(default_factory=list)
    """As ``count_left_out`` gives them."""
    metrics: dict[str, "FoldedEvents"] = field(default_factory=dict)
    """By name. There are none without events."""


@dataclass
class FoldedEvents:
    """What becomes of events in one metric."""

    tiles: list[pa.Table] = field(default_factory=list)
    totals: list[pa.Table] = field(default_factory=list)
    counts: list[pa.Table] = field(default_factory=list)
    """HOUR, COUNTED, OF_METRIC, QUARANTINED."""
    failures: list[pa.Table] = field(default_factory=list)
    """Of each hour, the first events in quarantine, as ``keep_first`` gives them."""
    absolute: list[pa.Table] = field(default_factory=list)
    """HOUR, and the sum of the absolute values of each measure that adds doubles."""


def work_on_shares(plan: bytes, shares: Sequence[Share], numbers: Iterable[pa.RecordBatch]) -> bytes:
    """Read and fold the ``shares`` with these ``numbers``. ``plan`` is a pickled pair of a FoldPlan and a ReadPlan.
    Gives a pickled FoldedShare.

    Raises OSError, ArrowInvalid or duckdb.Error if a file cannot be read.
    """
    (folder, reader), folded = _prepare(plan), FoldedShare()
    assert reader, "the plan has one"
    for number in [number for batch in numbers for number in batch.column(0).to_pylist()]:
        folder.fold_share(reader, shares[number], folded)
    return _tell(folded)


def fold_shares(plan: FoldPlan, read: ReadPlan, shares: Sequence[Share]) -> FoldedShare:
    """As ``work_on_shares``, of all ``shares`` and in this process."""
    folder, reader, folded = _Folder(plan), Reader(read), FoldedShare()
    for share in shares:
        folder.fold_share(reader, share, folded)
    return folded


def work_on_events(plan: bytes, batches: Iterable[pa.RecordBatch]) -> bytes:
    """Fold the events ``batches``, which Spark has read. ``plan`` is a pickled pair of a FoldPlan and None. Gives a
    pickled FoldedShare.
    """
    (folder, _), folded = _prepare(plan), FoldedShare()
    folder.fold(join_chunks(pa.Table.from_batches([batch]) for batch in batches), folded)
    return _tell(folded)


def _tell(folded: FoldedShare) -> bytes:
    """``folded``, pickled. It is empty then, since the worker waits for further tasks while the results are audited."""
    told = pickle.dumps(folded)
    folded.read, folded.kept, folded.left_out, folded.metrics = [], [], [], {}
    give_back_memory()
    return told


@lru_cache(maxsize=10)  # one for each source, and each job
def _prepare(pickled: bytes) -> tuple["_Folder", Reader | None]:
    keep_imports()
    plan, read = pickle.loads(pickled)  # noqa: S301 (from the driver)
    return _Folder(plan), read and Reader(read)


class _Folder:
    """Folds events by ``plan``."""

    def __init__(self, plan: FoldPlan) -> None:
        self._plan = plan
        self._connection = connect()
        root = connect_for_folds(metric.tiles.aggregation.metric for metric in plan.metrics.values())
        self._tiles = {name: Fold(root, metric.tiles) for name, metric in plan.metrics.items()}

    def fold_share(self, reader: Reader, share: Share, folded: FoldedShare) -> None:
        """Add the events of ``share``. All events of an id and hour are among them."""
        queries = reader.query_files(share)
        if queries is None:
            self.fold(reader.read(share), folded)
            return
        for chunk in self._count_read(reader.read(share), folded):
            for name in self._plan.metrics:
                self._add_totals(name, chunk, folded.metrics.setdefault(name, FoldedEvents()), chunk, None)
        for query in queries:
            for name in self._plan.metrics:
                of_metric = folded.metrics.setdefault(name, FoldedEvents())
                self._add_tiles(name, self._tiles[name].fold_query(query), of_metric)
        self._merge(folded)

    def fold(self, tables: Iterable[pa.Table], folded: FoldedShare) -> None:
        """Add the events ``tables``. All events of an id and hour are among them."""
        events = self._count_read(tables, folded)
        for chunk in self._mark_first(events, folded) if self._plan.source.id else events:
            for name in self._plan.metrics:
                of_metric = folded.metrics.setdefault(name, FoldedEvents())
                of_chunk = self._tiles[name].fold(chunk)
                self._add_tiles(name, of_chunk.tiles, of_metric)
                self._add_totals(name, chunk, of_metric, of_chunk.kept, of_chunk.quarantined)
        self._merge(folded)

    def _merge(self, folded: FoldedShare) -> None:
        for name, events_of in folded.metrics.items():
            events_of.tiles = [self._tiles[name].merge(events_of.tiles)]
            events_of.totals = [add_up_states(self._plan.metrics[name].totals, events_of.totals)]

    def _count_read(self, tables: Iterable[pa.Table], folded: FoldedShare) -> Iterator[pa.Table]:
        for rows in filter(len, tables):
            required, flags = list(self._plan.required), list(chain(*self._plan.lookups.values()))
            nulls = [(name, "count", pc.CountOptions(mode="only_null")) for name in required]
            true = [(name, "sum", pc.ScalarAggregateOptions(min_count=0)) for name in flags]
            # Hours alone are counted in half the time of groups.
            counts = pa.Table.from_struct_array(pc.value_counts(rows[HOUR]))
            if required or flags:
                counts = rows.group_by(HOUR, use_threads=False).aggregate([([], "count_all"), *nulls, *true])
            folded.read.append(counts.rename_columns([HOUR, READ, *required, *flags]))
            yield rows

    def _add_tiles(self, name: str, tiles: pa.Table, folded: FoldedEvents) -> None:
        folded.tiles.append(tiles)
        if sum(tiles.nbytes for tiles in folded.tiles[1:]) > max(_TILE_BYTES, folded.tiles[0].nbytes):
            folded.tiles = [self._tiles[name].merge(folded.tiles)]

    def _add_totals(
        self, name: str, events: pa.Table, folded: FoldedEvents, kept: pa.Table, quarantined: pa.Table | None
    ) -> None:
        """Add the totals and counts of ``events``. Classes of the metric fail for all but those that are ``kept``."""
        metric, conditions = self._plan.metrics[name], self._plan.conditions
        needed = {HOUR, *metric.totals.conditions, *chain(*metric.totals.values.values())}
        counted = _filter(events.select(list(needed)), conditions)
        of_metric = counted if quarantined is None else kept.select(list(needed))
        of_metric = _filter(of_metric, metric.totals.conditions)
        folded.totals.append(add_up_events(metric.totals, of_metric))
        counts = {COUNTED: pc.value_counts(counted[HOUR])}
        counts[OF_METRIC] = counts[COUNTED] if of_metric is counted else pc.value_counts(of_metric[HOUR])
        if quarantined is not None:
            counts[QUARANTINED] = pc.value_counts(quarantined["hour"])
            folded.failures.append(keep_first(self._connection, quarantined))
        folded.counts.append(_align(counts))
        if metric.doubles:
            folded.absolute.append(_add_absolute(of_metric, metric.doubles))

    def _mark_first(self, events: Iterable[pa.Table], folded: FoldedShare) -> Iterator[pa.Table]:
        """The events with IS_FIRST. Those that are not the first of their id may be left out, so that an id that comes
        all the time takes little memory.
        """
        held: list[pa.Table] = []
        only = self._plan.source.takes_back
        rows, most = 0, ROWS_WITH_IDS * 5 // 4
        for chunk in events:
            held.append(chunk)
            rows += chunk.num_rows
            if rows > most:
                together = pa.concat_tables(held)
                # Which event was taken back is known once both are there.
                held = [together if only else together.filter(self._find_first(together, folded, are_last=False))]
                rows = held[0].num_rows
                most = max(most, 2 * rows)
        if held:
            together = pa.concat_tables(held)
            yield from split_table(together.append_column(IS_FIRST, self._find_first(together, folded, are_last=True)))

    def _find_first(self, events: pa.Table, folded: FoldedShare, *, are_last: bool) -> pa.Array:
        only = self._plan.source.takes_back
        hashes = hash_ids(self._connection, events)
        is_first = find_first(self._connection, events, hashes, only=only)
        if only:  # No event of an id that was taken back is kept, so there is none to compare with.
            return is_first
        folded.left_out.append(count_left_out(self._connection, events, is_first, hashes))
        if are_last:
            folded.kept.append(count_kept(self._connection, events, is_first, hashes))
        return is_first


def _filter(events: pa.Table, conditions: Sequence[str]) -> pa.Table:
    """The events of which all ``conditions`` are true."""
    for condition in conditions:
        if not pc.all(events[condition], skip_nulls=False).as_py():
            events = events.filter(events[condition])
    return events


def _align(counts: Mapping[str, pa.StructArray]) -> pa.Table:
    """The numbers of values of HOUR, each in a column. An hour may have several rows."""
    names = np.repeat(list(counts), [len(of) for of in counts.values()])
    numbers = pa.concat_arrays([of.field(1) for of in counts.values()]).to_numpy()
    columns = {name: np.where(names == name, numbers, 0) for name in (COUNTED, OF_METRIC, QUARANTINED)}
    return pa.table({HOUR: pa.concat_arrays([of.field(0) for of in counts.values()]), **columns})


def _add_absolute(events: pa.Table, doubles: Mapping[str, str]) -> pa.Table:
    absolute = {name: pc.abs(events[column]) for name, column in doubles.items()}
    rows = pa.table({HOUR: events[HOUR], **absolute})
    sums = rows.group_by(HOUR, use_threads=False).aggregate([(name, "sum") for name in doubles])
    return sums.select([HOUR, *(f"{name}_sum" for name in doubles)]).rename_columns([HOUR, *doubles])
