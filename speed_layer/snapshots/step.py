"""What one micro-batch of a snapshot reads: of the table's archive, the hours whose snapshots come or change, and of
the earlier snapshots, the last ones before these. Progress and the logs of the archives tell that. Of all records, only
new tombstones are read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from hourline_core.ledger.layout import REJECTED_SCHEMA
from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.model.decoding import TOMBSTONE
from hourline_core.model.hours import HOUR
from hourline_core.storage.data_files import file_system
from hourline_core.storage.file_ranges import file_ranges
from hourline_core.storage.file_slices import FileSlice, read_slices
from speed_layer.derived.inputs import Input
from speed_layer.derived.passed import Passed
from speed_layer.derived.read_events import NO_FILES, Files, choose_files
from speed_layer.derived.spans import FIRST_HOUR, hour_at, spans_of
from speed_layer.snapshots.plan import SnapshotPlan

TOMBSTONES = pa.schema(
    [
        REJECTED_SCHEMA.field(name)
        for name in ("sequence", "topic_id", "partition", "offset", "key", "decoding", "timestamp", "arrived")
    ]
)
"""The columns of rejected records that are read."""
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

    @property
    def are_none(self) -> bool:
        """Whether none is taken or changed."""
        return not self.takes_some and self.changed_after is None


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


def find_times(
    plan: SnapshotPlan, rejected: DeltaTable | None, rows: Sequence[ProgressRow], after: int, passed: Passed
) -> Times:
    """The snapshots of the micro-batch over the ``rows`` of progress of the table, which was read up to the sequence
    ``after`` before. ``passed`` is what it makes of the clock. ``rejected`` has the tombstones. None: there are none.
    """
    last, now = (clock and floor(clock, plan.every) for clock in passed)
    if last is None:
        return Times(None, now)
    times = [of.hour for row in rows for of in row.hours if of.events]
    times += first_tombstones(plan, rejected, after, rows[-1].sequence) if rejected and rows else []
    late = min((time for time in times if time < last), default=None)
    return Times(last, now, late and floor(late, plan.every))


def plan_step(
    plan: SnapshotPlan,
    table: Input,
    rejected: DeltaTable | None,
    snapshots: DeltaTable,
    times: Times,
    sequences: tuple[int, int],
) -> SnapshotStep:
    """The step that takes and changes the snapshots of ``times``. The ``table`` was read up to the first of two
    ``sequences``, and is read now up to the second. ``snapshots`` are the earlier ones.
    """
    first, end = times.changed_after or times.last or FIRST_HOUR, times.now if times.takes_some else times.last
    assert end, "it takes or changes a snapshot"
    known = file_ranges(table.events, "hour") if table.events.file_uris() else []
    read = {of.path: (of.first, of.last) for of in file_ranges(table.events, "sequence")} if known else {}
    last_old = plan.table.anew.up_to if plan.table.anew else 0
    old = frozenset(path for path, (lowest, _) in read.items() if lowest <= last_old)
    finished = [of for of in known if read[of.path][0] <= sequences[1]]
    bases = [time for time in (times.last if times.takes_some else None, times.changed_after) if time]
    # The rows of a snapshot are events of the hour that it ends.
    base_hours = spans_of(hour_at(time, -HOUR) for time in bases)
    earlier = file_ranges(snapshots, "hour") if bases and snapshots.file_uris() else []
    return SnapshotStep(
        *sequences,
        times,
        first,
        choose_files(finished, [(first, hour_at(end, -HOUR))], old),
        _tombstone_files(rejected, first) if rejected else [],
        choose_files(earlier, base_hours, frozenset()),
    )


def floor(time: datetime, every: timedelta) -> datetime:
    """The last snapshot up to a ``time`` (UTC)."""
    return time - (time - _EPOCH) % every


def first_tombstones(plan: SnapshotPlan, rejected: DeltaTable, after: int, up_to: int) -> list[datetime]:
    """The earliest times (UTC) at which tombstones count, of the sequences above ``after``, up to ``up_to``. Those
    before the earliest event that is allowed delete nothing. Raises OSError and ArrowInvalid.
    """
    if not rejected.file_uris():
        return []
    files = [of for of in file_ranges(rejected, "sequence") if of.last > after and of.first <= up_to]
    slices = [FileSlice(of.path, 0, of.rows) for of in files]
    found = []
    for rows in read_slices(
        file_system(plan.rejected, plan.table.storage_options), slices, TOMBSTONES, "sequence", after + 1, up_to
    ):
        of_step = pc.and_(pc.greater(rows["sequence"], after), pc.less_equal(rows["sequence"], up_to))
        times = times_of_tombstones(plan, rows.filter(pc.and_(of_step, pc.equal(rows["decoding"], TOMBSTONE))))
        if plan.earliest:
            times = times.filter(pc.greater_equal(times, plan.earliest))
        found += [time] if (time := pc.min(times).as_py()) else []
    return found


def times_of_tombstones(plan: SnapshotPlan, rows: pa.Table) -> pa.ChunkedArray:
    """When each of ``rows``, with ``timestamp`` and ``arrived``, counts: a tombstone of next year would delete the row
    for ever.
    """
    latest = pc.add(rows["arrived"], plan.ahead)
    return pc.if_else(pc.less(rows["timestamp"], latest), rows["timestamp"], latest)


def _tombstone_files(rejected: DeltaTable, first: datetime) -> list[FileSlice]:
    """The files that may have tombstones which count from ``first`` on."""
    if not rejected.file_uris():
        return []
    files = pa.table(rejected.get_add_actions(flatten=True))
    # An imported record has no timestamp, and is no tombstone.
    latest = files["max.timestamp"].to_pylist() if "max.timestamp" in files.column_names else [None] * len(files)
    there = zip(files["path"].to_pylist(), files["num_records"].to_pylist(), latest, strict=True)
    return [FileSlice(path, 0, rows) for path, rows, time in there if time is not None and time >= first]
