"""What one micro-batch of a snapshot reads: of the table's archive, the hours whose snapshots come or change, and of
the earlier snapshots, the last ones before these. Progress and the logs of the archives tell that. Of all records, only
new tombstones are read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from deltalake import DeltaTable

from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.model.hours import HOUR
from hourline_core.storage.file_ranges import file_ranges
from hourline_core.storage.file_slices import FileSlice
from speed_layer.derived.archive_files import ArchiveFiles
from speed_layer.derived.inputs import Input
from speed_layer.derived.passed import Passed
from speed_layer.derived.read_events import NO_FILES, Files, choose_files
from speed_layer.derived.spans import FIRST_HOUR, hour_at, spans_of
from speed_layer.snapshots.plan import SnapshotPlan
from speed_layer.tables.tombstones import choose_tombstones, find_hours

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
    hours = {of.hour for row in rows for of in row.hours if of.events}
    hours |= find_hours(plan, rejected, after, rows[-1].sequence) if rows else set()
    late = min((hour for hour in hours if hour < last), default=None)
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
    bases = [time for time in (times.last if times.takes_some else None, times.changed_after) if time]
    # The rows of a snapshot are events of the hour that it ends.
    base_hours = spans_of(hour_at(time, -HOUR) for time in bases)
    earlier = file_ranges(snapshots, "hour") if bases and snapshots.file_uris() else []
    return SnapshotStep(
        *sequences,
        times,
        first,
        ArchiveFiles.of(table.events, plan.table.anew).choose([(first, hour_at(end, -HOUR))], 0, sequences[1]),
        choose_tombstones(rejected, first),
        choose_files(earlier, base_hours, frozenset()),
    )


def floor(time: datetime, every: timedelta) -> datetime:
    """The last snapshot up to a ``time`` (UTC)."""
    return time - (time - _EPOCH) % every
