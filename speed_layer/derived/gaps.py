"""Passes the gaps of an input on to the derived source. Nobody knows what would have come of the lost records."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from hourline_core.ledger.progress_rows import Gap, Position, ProgressRow
from speed_layer.derived.spans import hour_at


def rows_before_gap(rows: Sequence[ProgressRow]) -> Sequence[ProgressRow]:
    """The rows of progress up to the first sequence with gaps, exclusive."""
    first = next((row.sequence for row in rows if row.gaps), None)
    return rows if first is None else [row for row in rows if row.sequence < first]


def gap_row(
    last: ProgressRow | None,
    sequence: int,
    topic: tuple[str, str],
    rows: Sequence[ProgressRow],
    reach: tuple[timedelta, timedelta],
    moment: datetime,
) -> ProgressRow:
    """The row of the derived source's progress that passes the first sequence of an input's ``rows``, which has gaps.

    That sequence is the offset of the input that is gone. ``topic`` are the id and the name of the input. ``reach`` is
    how much earlier, and later, than the hours of the gaps events may be missing.
    """
    passed = rows[0].sequence
    gaps = tuple(_widen(gap, passed, reach) for row in rows if row.sequence == passed for gap in row.gaps or ())
    position = (Position(0, passed, passed + 1),)
    return ProgressRow.of_source_reset(last, sequence, topic, position, gaps, moment, None, ())


def _widen(gap: Gap, passed: int, reach: tuple[timedelta, timedelta]) -> Gap:
    earlier, later = reach
    first = gap.first_hour and hour_at(gap.first_hour, -earlier)
    last = gap.last_hour and hour_at(gap.last_hour, timedelta(hours=1) - timedelta.resolution + later)
    return replace(gap, partition=0, first=passed, end=passed + 1, first_hour=first, last_hour=last)
