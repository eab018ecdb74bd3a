"""What one micro-batch of an upsert reads: the next sequences of the table, and the files of its archive that may have
other versions of the same keys. Progress and the logs of the archives tell that. Of all records, only new tombstones
are read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from deltalake import DeltaTable

from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.storage.file_slices import FileSlice
from speed_layer.derived.archive_files import ArchiveFiles
from speed_layer.derived.inputs import Input
from speed_layer.derived.read_events import NO_FILES, Files
from speed_layer.derived.spans import FIRST_HOUR, spans_near, spans_of
from speed_layer.tables.tombstones import choose_tombstones, find_hours
from speed_layer.upserts.plan import UpsertPlan


@dataclass(frozen=True)
class UpsertFiles:
    """What a micro-batch reads of the table."""

    after: int
    """The sequence up to which it was read before."""
    up_to: int
    """The sequence up to which it is read now."""
    new: Files = NO_FILES
    """The files with the events in between."""
    earlier: Files = NO_FILES
    """The files with earlier events, as far as they decide which versions count."""
    tombstones: Sequence[FileSlice] = ()
    first: datetime = FIRST_HOUR
    """The time (UTC) from which tombstones are read."""

    @property
    def rows(self) -> int:
        """The number of events in the files, of any hour."""
        return self.new.rows + self.earlier.rows


def plan_step(
    plan: UpsertPlan, table: Input, rejected: DeltaTable | None, rows: Sequence[ProgressRow], after: int
) -> UpsertFiles:
    """The step over the ``rows`` of progress of the ``table``, which was read up to the sequence ``after`` before.
    ``rejected`` has the tombstones. None: there are none.
    """
    if not rows:
        return UpsertFiles(after, after)
    up_to = rows[-1].sequence
    of_events = {of.hour for row in rows for of in row.hours if of.events}
    own, hours = spans_of(of_events), spans_of(of_events | find_hours(plan, rejected, after, up_to))
    if not hours:
        return UpsertFiles(after, up_to)
    # A new version replaces one within the distance, and this one may have been replaced within the distance of itself.
    near = spans_near(hours, 2 * plan.within, 2 * plan.within)
    files, first = ArchiveFiles.of(table.events, plan.table.anew), near[0][0]
    return UpsertFiles(
        after,
        up_to,
        files.choose(own, after, up_to),
        files.choose(near, 0, after),
        choose_tombstones(rejected, first),
        first,
    )
