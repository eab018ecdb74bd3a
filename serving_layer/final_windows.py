"""Which windows are final, of those that some hours are in."""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime

from hourline_core.model.hours import HOUR
from hourline_core.sql.literals import literal
from serving_layer.snapshot_connection import SnapshotConnection


def final_windows(
    connection: SnapshotConnection, metric: str, hours: Sequence[datetime]
) -> list[tuple[datetime, datetime]]:
    """The start and end (exclusive, UTC) of each window of ``metric`` that shares time with one of ``hours`` (sorted),
    and is final. Raises TableError.
    """
    first, end = hours[0].isoformat(), (hours[-1] + HOUR).isoformat()
    among = f"metric = {literal(metric)} AND window_end > '{first}' AND window_start < '{end}'"
    query = f"SELECT window_start, window_end FROM windows WHERE {among} AND state = 'final' ORDER BY ALL"
    rows = connection.sql(query).fetchall()
    # The first hour that ends after the window's start is one of the window if it begins before the window's end.
    found = ((start, end, bisect_right(hours, start - HOUR)) for start, end in rows)
    return [(start, end) for start, end, at in found if at < len(hours) and hours[at] < end]
