"""Reads which hours the results of a metric lack."""

from collections.abc import Callable
from datetime import datetime

from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.ledger.missing_hours import MissingHours


def read_missing_hours(
    tables: MetricTables, execute: Callable[[str], list[tuple[datetime, bool]]]
) -> MissingHours | None:
    """The missing hours of a declaration. None: there are none. ``execute`` gives the rows of a query over
    ``hourline.hours_<metric>_<declaration>``.
    """
    if tables.complete_from <= 1:  # It is as old as its source, so no question is needed.
        return None
    rows = execute(f"SELECT hour, closed FROM hourline.hours_{tables.name} WHERE counted = 'missing' ORDER BY hour")
    return MissingHours.of(tables.metric.name, rows) if rows else None
