"""Compacts progress, which gets a row for each micro-batch. Once no repeatable answer needs the rows of an hour, they
become one.

All facts stay, with their times and sequences rounded to that hour: how many events each hour has, which of them were
late, which offsets were read, and from which sequence on a metric was written.
"""

from bisect import bisect_left
from collections.abc import Collection
from datetime import datetime

from hourline_core.ledger.progress import Progress
from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.model.windows import HOURLY

_ROWS_AT_ONCE = 50_000


def compact_progress(progress: Progress, before: datetime, cutoffs: Collection[int], dry_run: bool = False) -> int:
    """Replace the rows of micro-batches that finished in the same hour, ``before`` that (UTC), by one row. Returns the
    number of rows saved.

    ``cutoffs`` are those of all hours that were recomputed or blocked. Rows on both sides of a cutoff stay apart.
    Raises ConflictError when another process writes to the table.
    """
    done = progress.compacted_to
    sequences = progress.sequences_finished(HOURLY.assign(before), after=done)[:_ROWS_AT_ONCE]
    if not sequences:
        return 0
    last = sequences[-1]
    rows = progress.rows(done, last)  # A clock may go back: whatever lies in between is compacted, too.
    compacted: list[ProgressRow] = []
    ends = sorted(set(cutoffs))
    for row in rows:
        apart = not compacted or bisect_left(ends, compacted[-1].sequence) < bisect_left(ends, row.sequence)
        if not apart and _belong_together(compacted[-1], row):
            compacted[-1] = compacted[-1].followed_by(row)
        else:
            compacted.append(row)
    if not dry_run:
        progress.compact(done, last, compacted)
    return len(rows) - len(compacted)


def _belong_together(one: ProgressRow, later: ProgressRow) -> bool:
    """Whether nobody needs the two rows apart. Late events are listed by micro-batch, a reset has its own row, and a
    new metric begins with its first row.
    """
    return (
        HOURLY.assign(one.finished) == HOURLY.assign(later.finished)
        and (one.topic_id, one.topic, one.metrics) == (later.topic_id, later.topic, later.metrics)
        and one.position is None is later.position
        and not any(arrived.late for row in (one, later) for arrived in row.hours)
    )
