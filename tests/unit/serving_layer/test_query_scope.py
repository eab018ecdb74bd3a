"""Which hours an answer rests on is told from the query alone: what lies in other hours could be anything, and the
answer were the same.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import duckdb
import pytest

from hourline_core.errors import UnreliableResultError
from hourline_core.ledger.missing_hours import MissingHours
from serving_layer.query_scope import HourState, StateTables, find_hour_states, refuse_weak, summarize_states

BASE = datetime(2024, 3, 1, tzinfo=UTC)
HOURS = 48
METRICS = {
    name: StateTables(
        name, name, f"hours_{name}", [f"{name}{end}" for end in ("", "_states", "_final", "_provisional")]
    )
    for name in ("totals", "odd")
}

# Each with the number of hours told of `totals` and of `odd`, which has every other hour.
PLAIN = [
    ("FROM totals", 48, 0),
    ("FROM totals WHERE hour >= '2024-03-01 05:00:00Z' AND hour < '2024-03-01 08:00:00Z'", 3, 0),
    ("SELECT sum(n) FROM totals t WHERE t.hour = TIMESTAMPTZ '2024-03-01 05:00:00Z' AND n > 3", 1, 0),
    ("FROM main.\"totals\" WHERE HOUR BETWEEN '2024-03-01 05:00:00Z' AND '2024-03-01 06:00:00Z'", 2, 0),
    ("FROM totals WHERE hour::DATE = '2024-03-02' AND (n > 3 OR hour > '2024-03-01 05:00:00Z')", 24, 0),
    ("FROM totals WHERE hour IN ('2024-03-01 05:00:00Z', '2024-03-01 07:00:00Z')", 2, 0),
    ("FROM totals WHERE hour = '2024-03-01 05:00:00Z' OR n = 3", 48, 0),
    ("FROM totals WHERE NOT (hour > '2024-03-01 01:00:00Z')", 2, 0),
    ("SELECT hour + INTERVAL 1 HOUR AS hour, n FROM totals WHERE hour = '2024-03-01 05:00:00Z'", 1, 0),
    ("SELECT max(n) AS n FROM totals GROUP BY hour HAVING hour < '2024-03-01 05:00:00Z'", 48, 0),
    ("WITH t AS (FROM totals WHERE hour < '2024-03-01 05:00:00Z') SELECT sum(n) FROM t", 5, 0),
    ("WITH t AS (FROM totals) SELECT sum(n) FROM t WHERE hour < '2024-03-01 05:00:00Z'", 48, 0),
    ("SELECT sum(n) FROM (FROM totals) WHERE hour < '2024-03-01 05:00:00Z'", 48, 0),
    ("FROM totals t JOIN odd o USING (hour) WHERE hour < '2024-03-01 05:00:00Z'", 5, 2),
    ("FROM totals t, odd o WHERE t.hour < '2024-03-01 05:00:00Z' AND t.hour = o.hour", 5, 24),
    (
        "FROM totals t JOIN odd o ON t.n = o.n WHERE t.hour < '2024-03-01 05:00:00Z' AND o.hour < '2024-03-01 02:00:00Z'",
        5,
        1,
    ),
    ("FROM totals t LEFT JOIN odd o USING (hour) WHERE o.hour IS NULL", 48, 24),
    ("FROM totals t ANTI JOIN odd o USING (hour) WHERE hour < '2024-03-01 05:00:00Z'", 48, 24),
    ("FROM totals t WHERE hour = (SELECT max(hour) FROM odd)", 48, 24),
    (
        "SELECT n, (SELECT sum(n) FROM odd o WHERE o.hour < t.hour) FROM totals t WHERE hour < '2024-03-01 05:00:00Z'",
        5,
        24,
    ),
    (
        "SELECT n, (SELECT sum(n) FROM odd WHERE hour = totals.hour) FROM totals WHERE hour < '2024-03-01 05:00:00Z'",
        5,
        24,
    ),
    ("FROM totals AS t(moment, hour) WHERE hour < 7", 48, 0),
    ("FROM totals WHERE hour < '2024-03-01 02:00:00Z' UNION ALL FROM totals WHERE hour > '2024-03-02 20:00:00Z'", 5, 0),
    ("FROM query('FROM totals')", 48, 24),
    ("FROM query_table('odd')", 48, 24),
    ("SUMMARIZE totals", 48, 0),
    ("DESCRIBE totals", 0, 0),
    ("SELECT 1", 0, 0),
]


@pytest.fixture
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    """Two metrics, as plain tables."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        every = f"SELECT TIMESTAMPTZ '2024-03-01 00:00:00Z' + INTERVAL (i) HOURS AS hour, i % 7 AS n FROM range({HOURS}) t(i)"
        connection.execute(f"CREATE TABLE totals AS {every}")
        connection.execute(f"CREATE TABLE odd AS {every} WHERE i % 2 = 1")
        states = "CASE WHEN hour < '2024-03-01 10:00:00Z' THEN 'final' ELSE 'provisional' END"
        for name, metric in METRICS.items():
            connection.execute(f"CREATE TABLE {metric.hours} AS SELECT hour, {states} AS state FROM {name}")
        yield connection


@pytest.mark.parametrize(("query", "of_totals", "of_odd"), PLAIN)
def test_what_lies_in_other_hours_does_not_matter(
    database: duckdb.DuckDBPyConnection, query: str, of_totals: int, of_odd: int
) -> None:
    told = find_hour_states(database, query, METRICS.values())
    assert [sum(state.metric == metric for state in told) for metric in ("totals", "odd")] == [of_totals, of_odd]
    answer = sorted(map(str, database.sql(query).fetchall()))
    for metric in ("totals", "odd"):
        hours = [state.hour for state in told if state.metric == metric]
        database.execute(f"DELETE FROM {metric} WHERE NOT list_contains(?::TIMESTAMPTZ[], hour)", [hours])
    assert sorted(map(str, database.sql(query).fetchall())) == answer


def test_the_views_of_a_metric_are_the_metric(database: duckdb.DuckDBPyConnection) -> None:
    hour = "'2024-03-01 11:00:00Z'"
    for view in ("odd", "odd_states", "odd_final", "Odd_Provisional"):
        assert find_hour_states(database, f"FROM {view} WHERE hour = {hour}", METRICS.values()) == [
            ("odd", BASE + timedelta(hours=11), "provisional")
        ]
    for view in ("hours", "odd_staged", "drift"):
        assert find_hour_states(database, f"FROM {view}", METRICS.values()) == []


def test_an_hour_is_counted_in_the_weakest_state_of_its_metrics() -> None:
    states = [
        HourState("a", BASE, "final"),
        HourState("b", BASE, "revised"),
        HourState("b", BASE + timedelta(hours=1), "final"),
    ]
    assert summarize_states(states) == "1 final, 1 revised"
    assert summarize_states([]) == ""


def test_a_strict_answer_names_the_hours_that_it_cannot_rest_on() -> None:
    reliable = [HourState("a", BASE, state) for state in ("final", "revised", "provisional")]
    refuse_weak(reliable, [])
    weak = [HourState("a", BASE + timedelta(hours=number), "missing") for number in range(5)] + [
        HourState("b", BASE, "blocked")
    ]
    with pytest.raises(UnreliableResultError) as refused:
        refuse_weak([*reliable, *weak], [MissingHours("a", (BASE,), (BASE + timedelta(hours=4),))])
    hours = "2024-03-01T00:00Z missing, 2024-03-01T01:00Z missing, 2024-03-01T02:00Z missing and 2 more"
    assert f"of 'a' {hours}; of 'b' 2024-03-01T00:00Z blocked" in str(refused.value)
    for command in (
        "hourline recompute",
        "hourline recompute --metric a --from 2024-03-01T04:00Z --to 2024-03-01T05:00Z --include-open",
        "hourline quality --blocked",
    ):
        assert f"`{command}`" in str(refused.value)
    assert "gaps" not in str(refused.value)
