"""What one micro-batch of a snapshot reads: of the table's archive, the hours whose snapshots come or change, and of
the earlier snapshots, the last ones before these. Progress and the logs of the archives tell that. No event is read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.model.decoding import TOMBSTONE
from hourline_core.model.hours import HOUR
from hourline_core.storage.data_files import read_rows
from hourline_core.storage.file_ranges import file_ranges
from hourline_core.storage.file_slices import FileSlice
from speed_layer.derived.inputs import Input
from speed_layer.derived.passed import Passed
from speed_layer.derived.read_events import NO_FILES, Files, choose_files
from speed_layer.derived.spans import FIRST_HOUR, hour_at, spans_of
from speed_layer.snapshots.plan import SnapshotPlan

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Times:
    """The snapshots of a micro-batch (UTC)."""

    last: datetime | None = None
    """The last one that was taken before. None: there is none."""
    now: datetime | None = None
    """The last one that is taken now. None: there is none yet."""
    changed_after: datetime | None = None
    """The last one before that late events do not change. None: no event is late."""

    @property
    def takes_some(self) -> bool:
        """Whether one is taken that was not taken before."""
        return self.now is not None and self.now != self.last


@dataclass(frozen=True)
class SnapshotStep:
    """What a micro-batch reads."""

    after: int
    """The sequence up to which the table was read before."""
    up_to: int
    """The sequence up to which it is read now."""
    times: Times
    first: datetime = FIRST_HOUR
    """The time (UTC) from which events of the table are read."""
    table: Files = NO_FILES
    tombstones: Sequence[FileSlice] = ()
    snapshots: Files = NO_FILES

    @property
    def is_empty(self) -> bool:
        """Whether no snapshot is taken or changed."""
        return not (self.times.takes_some or self.times.changed_after)


def plan_step(
    plan: SnapshotPlan,
    table: Input,
    rejected: DeltaTable,
    snapshots: DeltaTable,
    rows: Sequence[ProgressRow],
    after: int,
    passed: Passed,
) -> SnapshotStep:
    """The step over the ``rows`` of progress of the ``table``, which was read up to the sequence ``after`` before.
    ``passed`` is what it makes of the clock, ``rejected`` are the rejected records of the table, and ``snapshots`` the
    earlier ones. Raises TableError.
    """
    up_to = rows[-1].sequence if rows else after
    last, now = (clock and floor(clock, plan.every) for clock in passed)
    times = [of.hour for row in rows for of in row.hours if of.events]
    times += first_tombstones(plan, rejected, after, up_to)
    late = min((time for time in times if last is not None and time < last), default=None)
    changed_after = late and floor(late, plan.every)
    step = SnapshotStep(after, up_to, Times(last, now, changed_after), changed_after or last or FIRST_HOUR)
    if step.is_empty:
        return step
    end = now if step.times.takes_some else last
    assert end, "it takes or changes a snapshot"
    known = file_ranges(table.events, "hour") if table.events.file_uris() else []
    sequences = {of.path: (of.first, of.last) for of in file_ranges(table.events, "sequence")} if known else {}
    last_old = plan.table.anew.up_to if plan.table.anew else 0
    old = frozenset(path for path, (lowest, _) in sequences.items() if lowest <= last_old)
    finished = [of for of in known if sequences[of.path][0] <= up_to]
    bases = [time for time in (last if step.times.takes_some else None, changed_after) if time]
    # The rows of a snapshot are events of the hour that it ends.
    base_hours = spans_of(hour_at(time, -HOUR) for time in bases)
    earlier = file_ranges(snapshots, "hour") if bases and snapshots.file_uris() else []
    return replace(
        step,
        table=choose_files(finished, [(step.first, hour_at(end, -HOUR))], old),
        tombstones=_tombstone_files(plan, rejected, step.first),
        snapshots=choose_files(earlier, base_hours, frozenset()),
    )


def floor(time: datetime, every: timedelta) -> datetime:
    """The last snapshot up to a ``time`` (UTC)."""
    return time - (time - _EPOCH) % every


def first_tombstones(plan: SnapshotPlan, rejected: DeltaTable, after: int, up_to: int) -> list[datetime]:
    """The earliest times (UTC) at which tombstones count, of the sequences above ``after``, up to ``up_to``. Empty:
    there are none, or the key of a record is not that of the table.
    """
    if plan.key_type is None or not rejected.file_uris():
        return []
    files = [of.path for of in file_ranges(rejected, "sequence") if of.last > after and of.first <= up_to]
    found = []
    for path in files:
        rows = read_rows(rejected, [path], ["sequence", "decoding", "timestamp", "arrived"])
        of_step = pc.and_(pc.greater(rows["sequence"], after), pc.less_equal(rows["sequence"], up_to))
        rows = rows.filter(pc.and_(of_step, pc.equal(rows["decoding"], TOMBSTONE)))
        found += [time] if (time := pc.min(times_of_tombstones(plan, rows)).as_py()) else []
    return found


def times_of_tombstones(plan: SnapshotPlan, rows: pa.Table) -> pa.ChunkedArray:
    """When each of ``rows``, with ``timestamp`` and ``arrived``, counts: a tombstone of next year would delete the row
    for ever.
    """
    latest = pc.add(rows["arrived"], plan.ahead)
    return pc.if_else(pc.less(rows["timestamp"], latest), rows["timestamp"], latest)


def _tombstone_files(plan: SnapshotPlan, rejected: DeltaTable, first: datetime) -> list[FileSlice]:
    """The files that may have tombstones which count from ``first`` on."""
    if plan.key_type is None or not rejected.file_uris():
        return []
    files = pa.table(rejected.get_add_actions(flatten=True))
    # An imported record has no timestamp, and is no tombstone.
    latest = files["max.timestamp"].to_pylist() if "max.timestamp" in files.column_names else [None] * len(files)
    there = zip(files["path"].to_pylist(), files["num_records"].to_pylist(), latest, strict=True)
    return [FileSlice(path, 0, rows) for path, rows, time in there if time is not None and time >= first]
