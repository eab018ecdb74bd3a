"""Compacts progress, which gets a row for each micro-batch and topic. Once no repeatable answer needs the rows of an
hour, those of each topic become one. They share the sequence of the hour's last micro-batch, as the rows of one
micro-batch do.

All facts stay, with their times and sequences rounded to that hour: how many events each hour has, which of them were
late, which offsets were read, and from which sequence on a metric was written.
"""

from bisect import bisect_left
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from operator import attrgetter

from hourline_core.ledger.progress import Progress
from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.model.windows import HOURLY

_SEQUENCES_AT_ONCE = 50_000

MicroBatchRows = list[ProgressRow]
"""The rows of one micro-batch, one for each topic."""


def compact_progress(progress: Progress, before: datetime, cutoffs: Collection[int], dry_run: bool = False) -> int:
    """Replace the rows of micro-batches that finished in the same hour, ``before`` that (UTC), by one row for each
    topic. Returns the number of rows saved.

    ``cutoffs`` are those of all hours that were recomputed or blocked. Rows on both sides of a cutoff stay apart.
    Raises ConflictError when another process writes to the table.
    """
    done = progress.compacted_to
    sequences = progress.sequences_finished(HOURLY.assign(before), after=done)[:_SEQUENCES_AT_ONCE]
    if not sequences:
        return 0
    last = sequences[-1]
    rows = progress.rows(done, last)  # A clock may go back: whatever lies in between is compacted, too.
    compacted: list[MicroBatchRows] = []
    ends = sorted(set(cutoffs))
    for _, group in groupby(rows, key=attrgetter("sequence")):
        batch = list(group)
        apart = not compacted or bisect_left(ends, _sequence(compacted[-1])) < bisect_left(ends, _sequence(batch))
        if not apart and _belong_together(compacted[-1], batch):
            compacted[-1] = _merge(compacted[-1], batch)
        else:
            compacted.append(batch)
    left = [row for batch in compacted for row in batch]
    if not dry_run:
        progress.compact(done, last, left)
    return len(rows) - len(left)


def _sequence(batch: MicroBatchRows) -> int:
    return batch[0].sequence


def _belong_together(one: MicroBatchRows, later: MicroBatchRows) -> bool:
    """Whether nobody needs the two micro-batches apart. Late events are listed by micro-batch, a reset has its own
    rows, and a new metric, or a new version of a lookup, begins with its first row. Of a topic that was recreated, the
    newest row has the new id.
    """
    return (
        HOURLY.assign(one[0].finished) == HOURLY.assign(later[0].finished)
        and one[0].metrics == later[0].metrics
        and one[0].lookups == later[0].lookups
        and all(row.position is None for row in (*one, *later))
        and not _has_other_topic(one, later)
        and not any(arrived.late for row in (*one, *later) for arrived in row.hours)
    )


def _has_other_topic(one: MicroBatchRows, later: MicroBatchRows) -> bool:
    """Whether a topic's name has another id in ``later``."""
    ids = {row.topic: row.topic_id for row in one}
    return any(ids.get(row.topic, row.topic_id) != row.topic_id for row in later)


def _merge(one: MicroBatchRows, later: MicroBatchRows) -> MicroBatchRows:
    """The rows of both, one for each topic, as those of one micro-batch."""
    last = replace(later[0], clock=later[0].clock or one[0].clock, started=one[0].started)
    by_topic = {row.topic_id: row for row in one}
    for row in later:
        earlier = by_topic.get(row.topic_id)
        by_topic[row.topic_id] = earlier.followed_by(row) if earlier else row
    return [
        replace(
            row,
            sequence=last.sequence,
            clock=last.clock,
            started=last.started,
            finished=last.finished,
        )
        for row in by_topic.values()
    ]
