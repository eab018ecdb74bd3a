"""Computes the bounds of an hour's results from the same hour of past days.

Values are compared by their square roots. Twice the root of a count that is left to chance (a Poisson count) has a
standard deviation of 1, whatever the count: Bartlett, "The square root transformation in analysis of variance", 1936.
The bounds of few events are therefore wide, and those of an amount are never below zero. The root of a negative value
is that of its distance from zero, with its sign.

Middle and spread are the median and the median absolute deviation, which outliers do not move. 3.5 standard deviations
are the distance of an outlier: Iglewicz and Hoaglin, "How to Detect and Handle Outliers", 1993.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from math import copysign, isfinite, sqrt
from statistics import median
from typing import Any

import duckdb

from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.model import History
from hourline_core.sql.coverage import covered_hours_sql
from hourline_core.sql.merge import values_sql, without_lists

_TO_STANDARD_DEVIATION = 1.4826  # of a normal distribution, by its median absolute deviation
_CHANCE = 3.5
"""The minimum distance of the bounds of a count, in standard deviations of what is left to chance."""
_LEAST = 0.05
"""The minimum distance as a share of the middle root: a change of a tenth does not matter."""
_ROWS = 10
"""The minimum number of rows in the usual hour: of fewer, chance makes a half, a double or nothing."""
_WEEKS = 3
"""The minimum number of days of the same weekday that say what is usual on it: one outlier does not move their median.
"""

Known = Mapping[datetime, Mapping[str, Any]]
"""By hour, the value of each measure over all dimensions."""


def read_past_values(
    connection: duckdb.DuckDBPyConnection, tables: MetricTables, history: History, first: datetime, last: datetime
) -> dict[datetime, dict[str, Any]]:
    """The values of published hours that the bounds of the hours from ``first`` to ``last`` may use."""
    if tables.final is None:
        return {}
    name = f"hourline.final_{tables.name}"
    stored = {column: kind for column, kind, *_ in connection.execute(f"DESCRIBE {name}").fetchall()}
    covered = f"SELECT hour FROM ({covered_hours_sql([tables])})"
    states = f"FROM {name} WHERE hour >= $first AND hour < $last AND hour IN ({covered})"
    query = values_sql(without_lists(tables.metric), stored, states, [])
    rows = (
        connection.execute(query, {"first": first - timedelta(days=history.days), "last": last})
        .to_arrow_table()
        .to_pylist()
    )
    return {row.pop("hour"): row for row in rows}


def compute_bounds(
    known: Known, events: Mapping[datetime, int], hour: datetime, measure: str, history: History, adds_up: bool
) -> tuple[float, float] | None:
    """The lower and upper bound of ``measure`` in ``hour``, by History's formula.

    ``events`` are the numbers of events of the source's hours. ``adds_up`` says whether the values of parts add up to
    that of the whole, as for a count, a sum or a distinct count. None: fewer days than ``learning`` are known, or the
    usual hour has too few rows.
    """
    days = [hour - timedelta(days=day) for day in range(1, history.days + 1)]
    past = {day: float(value) for day in days if (value := known.get(day, {}).get(measure)) is not None}
    past = {day: value for day, value in past.items() if isfinite(value)}
    if len(past) < min(history.learning, history.days):
        return None
    middle, is_amount = median(past.values()), adds_up and min(past.values()) >= 0
    rows = median(events.get(day, 0) for day in past)
    if is_amount and all(value.is_integer() for value in past.values()):
        rows = min(rows, middle)  # A row counts at least one, so a count of few among many events has few rows.
    if rows < _ROWS:
        return None
    roots = {day: _root(value) for day, value in past.items()}
    usual = median(roots.values())
    spread = _TO_STANDARD_DEVIATION * median(abs(root - usual) for root in roots.values())
    distance = max(history.width * spread, _CHANCE * sqrt(abs(middle) / rows), _LEAST * abs(usual))
    if not is_amount:
        distance *= 2  # Means and extremes have heavy tails. Tukey's outer fences are twice as far as his inner ones.
    weekly = [root for day, root in roots.items() if (hour - day).days % 7 == 0]
    levels = [usual, median(weekly)] if len(weekly) >= _WEEKS else [usual]
    lower, upper = _squared(min(levels) - distance), _squared(max(levels) + distance)
    return (max(lower, 0.0) if min(past.values()) >= 0 else lower), upper


def is_number(value: object) -> bool:
    """Whether a measure's value can be compared with bounds."""
    return hasattr(value, "as_integer_ratio") and not isinstance(value, bool)  # int, float, Decimal


def _root(value: float) -> float:
    """Twice the square root."""
    return copysign(2 * sqrt(abs(value)), value)


def _squared(root: float) -> float:
    """The value of ``root``."""
    return copysign((root / 2) ** 2, root)
