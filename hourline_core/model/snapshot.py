"""A snapshot: the events of a source are the rows that a table has at the end of each hour."""

from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator

from hourline_core.model.base import refuse
from hourline_core.model.table import Table
from hourline_core.model.times import Duration, duration_text

SNAPSHOT_TIME, SNAPSHOT_ROW = "snapshot_time", "snapshot_row"
"""The fields of a row, beside its key and its columns: the end of the hour or hours, and the address of the event that
is the row.
"""
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)


def _every(every: timedelta) -> timedelta:
    if every < _HOUR or every % _HOUR or _DAY % every:
        raise refuse(f"got {duration_text(every)}, allowed are 1h, 2h, 3h, 4h, 6h, 8h, 12h and 1d")
    return every


class Snapshot(Table):
    """The rows of a table at the end of each hour, or of each few hours. The newest event of a key is its row. The
    event time decides what is newest, and the arrival among events with the same one.
    """

    every: Annotated[Duration, AfterValidator(_every)] = _HOUR
    """The time from one snapshot to the next: whole hours that divide a day, from midnight on (UTC)."""
