"""A ratio or a rate is finished from merged values: over more groups, it is that of the sums, and no mean of ratios."""

import duckdb

from hourline_core.model import Measure, Metric
from hourline_core.model.metric import WINDOW_COLUMNS
from hourline_core.sql.merge import finished_sql, values_sql
from hourline_core.sql.windows import WINDOW_SECONDS

MEASURES = {
    "late_share": "ratio(late, flights)",
    "per_flight": "ratio(delay, flights)",
    "per_second": "rate(flights)",
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


def test_the_rate_of_an_hour() -> None:
    found = duckdb.sql(f"SELECT hour, origin, per_second FROM ({finished_sql(METRIC, STORED, ROWS)})").fetchall()
    assert found == [(1, "JFK", 3 / 3600), (1, "LGA", 1 / 3600), (2, "JFK", 0.0)]


def test_the_rate_of_a_window_is_by_its_length() -> None:
    # In New York, a day of spring has 23 hours, and one of autumn 25.
    bounds = (
        "'2024-03-10 05:00:00+00'::TIMESTAMPTZ AS window_start, '2024-03-11 04:00:00+00'::TIMESTAMPTZ AS window_end"
    )
    values = values_sql(METRIC, STORED, f"SELECT *, {bounds} FROM {ROWS}", [], WINDOW_COLUMNS, WINDOW_SECONDS)
    assert duckdb.sql(f"SELECT per_second FROM ({values})").fetchall() == [(4 / (23 * 3600),)]
