"""A ratio is finished from merged values: over more groups, it is that of the sums, and no mean of ratios."""

import duckdb

from hourline_core.model import Measure, Metric
from hourline_core.sql.merge import finished_sql, values_sql

MEASURES = {
    "late_share": "ratio(late, flights)",
    "per_flight": "ratio(delay, flights)",
    "flights": "count",
    "late": "count where delay > 15",
    "delay": "mean(delay)",
}
METRIC = Metric(
    name="flights",
    source="flights",
    dimensions={"origin": "origin"},
    measures={name: Measure.parse(text) for name, text in MEASURES.items()},
)
STORED = {"flights": "BIGINT", "late": "BIGINT", "delay__n": "BIGINT", "delay__total": "DOUBLE"}
ROWS = """(VALUES (1, 'JFK', 3, 1, 3, 30.0, 'final'), (1, 'LGA', 1, 1, 1, 90.0, 'final'), (2, 'JFK', 0, 0, 0, NULL, 'final'))
    AS t(hour, origin, flights, late, delay__n, delay__total, state)"""


def test_the_ratio_of_each_row() -> None:
    found = duckdb.sql(
        f"SELECT hour, origin, late_share, per_flight FROM ({finished_sql(METRIC, STORED, ROWS)})"
    ).fetchall()
    assert found == [(1, "JFK", 1 / 3, 10 / 3), (1, "LGA", 1.0, 90.0), (2, "JFK", None, None)]


def test_the_ratio_of_fewer_dimensions() -> None:
    values = values_sql(METRIC, STORED, f"FROM {ROWS}", [])
    found = duckdb.sql(f"SELECT hour, late_share, per_flight FROM ({values}) ORDER BY hour").fetchall()
    assert found == [(1, 2 / 4, 30.0 / 4), (2, None, None)]
