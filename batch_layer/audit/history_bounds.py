"""Computes the bounds of an hour's results from the same hour of past days."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from statistics import median
from typing import Any

import duckdb

from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.model import History
from hourline_core.sql.coverage import covered_hours_sql
from hourline_core.sql.merge import values_sql

_TO_STANDARD_DEVIATION = 1.4826  # of a normal distribution, by its median absolute deviation
_LEAST = 0.1  # of the median: where past days hardly differ, a small change does not matter

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
    query = values_sql(tables.metric, stored, states, [])
    rows = (
        connection.execute(query, {"first": first - timedelta(days=history.days), "last": last})
        .to_arrow_table()
        .to_pylist()
    )
    return {row.pop("hour"): row for row in rows}


def bounds(known: Known, hour: datetime, measure: str, history: History) -> tuple[float, float] | None:
    """The lower and upper bound of ``measure`` in ``hour``, by History's formula. None while fewer days than
    ``learning`` are known.
    """
    past = [known.get(hour - timedelta(days=day), {}).get(measure) for day in range(1, history.days + 1)]
    values = [float(value) for value in past if value is not None]
    if len(values) < history.learning:
        return None
    middle = median(values)
    spread = _TO_STANDARD_DEVIATION * median(abs(value - middle) for value in values)
    distance = max(history.width * spread, _LEAST * abs(middle))
    return middle - distance, middle + distance


def is_number(value: object) -> bool:
    """Whether a measure's value can be compared with bounds."""
    return hasattr(value, "as_integer_ratio") and not isinstance(value, bool)  # int, float, Decimal
