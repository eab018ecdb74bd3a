"""A metric as a DuckDB query that merges both layers: final where an hour is covered, and provisional above the cut.

merged(h) = final(h), if h is covered   ⊕   provisional(h) where cut(h) < sequence ≤ s
"""

from collections.abc import Mapping

from hourline.declarations import Metric
from hourline.measures import finished, merges, quoted
from hourline.snapshot import MetricTables


def merged_states_sql(tables: MetricTables, stored: Mapping[str, str], sequence: int) -> str:
    """A query: hour, the dimensions, merged state columns, state. ``stored`` gives the type of each stored column, ``sequence`` the progress read at.

    Reads the provisional and final tables of one declaration, as attached by database.py, and ``hourline.metric_hours``. Hours that are missing are
    left out: an answer for them would be a part of the truth.
    """
    metric = tables.metric
    aggregates: dict[str, str] = {}
    for name, measure in metric.measures.items():
        aggregates |= merges(name, measure, stored)
    columns = ", ".join(["t.hour", *(f"t.{quoted(name)}" for name in [*metric.dimensions, *aggregates])])
    parts = [
        f"SELECT {columns}, h.state FROM hourline.provisional_{tables.name} t JOIN hours h USING (hour) "
        f"WHERE t.sequence <= {sequence} AND t.sequence > coalesce(h.cut, -1)"
    ]
    if tables.final is not None:
        parts.append(f"SELECT {columns}, h.state FROM hourline.final_{tables.name} t JOIN hours h USING (hour) WHERE h.cut IS NOT NULL")
    keys = ", ".join(["hour", *map(quoted, metric.dimensions)])
    merged = ", ".join(f"{sql} AS {quoted(column)}" for column, sql in aggregates.items())
    return f"""
        WITH hours AS (SELECT hour, cut, state FROM hourline.metric_hours
            WHERE metric = '{metric.name}' AND declaration = '{tables.declaration}' AND state <> 'missing')
        SELECT {keys}, {merged}, any_value(state) AS state
        FROM ({" UNION ALL ".join(parts)})
        GROUP BY {keys}"""


def finished_sql(metric: Metric, states: str) -> str:
    """A query over the view ``states``: hour, the dimensions, the finished measures, state."""
    values = [f"{finished(name, measure)} AS {quoted(name)}" for name, measure in metric.measures.items()]
    return f"SELECT {', '.join(['hour', *map(quoted, metric.dimensions), *values, 'state'])} FROM {states}"
