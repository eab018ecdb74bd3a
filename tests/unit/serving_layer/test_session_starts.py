"""A condition on the time of sessions spares hours, and never changes an answer."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.model import EventTime, Field, Measure, Metric, Source
from hourline_core.model.session_window import SessionWindow
from hourline_core.sql.database import connect
from hourline_core.sql.session_windows import session_rows_sql
from hourline_core.sql.windows import finished_windows_sql
from serving_layer.session_starts import narrow_sessions

BASE, MINUTE = datetime(2024, 3, 1, tzinfo=UTC), timedelta(minutes=1)
SOURCE = Source(
    name="clicks",
    topic="clicks",
    fields={"at": Field(type="timestamp"), "page": Field(type="string")},
    event_time=EventTime(expression="at"),
)
METRIC = Metric(
    name="visits",
    source="clicks",
    window=SessionWindow(gap=timedelta(minutes=30), max_length=timedelta(hours=2)),
    dimensions={"page": "page"},
    measures={"clicks": Measure(kind="count")},
)
TABLES = MetricTables(SOURCE, METRIC, provisional=1, complete_from=1)
STATES = pa.schema(
    {
        "hour": pa.timestamp("us", "UTC"),
        "page": pa.string(),
        "clicks": pa.int64(),
        "session_start": pa.timestamp("us", "UTC"),
        "session_end": pa.timestamp("us", "UTC"),
        "state": pa.string(),
    }
)
RUN = st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 900), st.integers(1, 30), st.integers(1, 31))
"""The page, the first minute, and the number of events with so many minutes between them."""
TIME = st.integers(0, 1_500).map(lambda minute: f"'{BASE + minute * MINUTE}'")
CONDITION = st.one_of(
    *(
        st.builds(template.format, st.sampled_from(["window_start", "window_end"]), *times)
        for template, times in (
            ("{0} {1} {2}", (st.sampled_from(["<", "<=", "=", ">=", ">"]), TIME)),
            ("{2} {1} {0}", (st.sampled_from(["<", "<=", ">=", ">"]), TIME)),
            ("{0} BETWEEN {1} AND {2}", (TIME, TIME)),
            ("{1} BETWEEN {0} AND window_end", (TIME,)),
        )
    )
)


@pytest.fixture
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with connect() as database:
        database.execute("CREATE SCHEMA hourline")
        yield database


def fill(database: duckdb.DuckDBPyConnection, runs: list[tuple[str | None, int, int, int]]) -> None:
    """The rows of these events in panes of half an hour, and the views over them."""
    panes: dict[tuple[str | None, int], list[datetime]] = {}
    for page, first, count, step in runs:
        for minute in range(first, first + count * step, step):
            panes.setdefault((page, minute // 30), []).append(BASE + minute * MINUTE)
    rows = [
        (min(times).replace(minute=0), page, len(times), min(times), max(times), "final")
        for (page, _), times in panes.items()
    ]
    stored = pa.Table.from_pylist([dict(zip(STATES.names, row, strict=True)) for row in rows], STATES)
    database.register("stored", stored)
    database.execute("CREATE OR REPLACE VIEW visits_states AS FROM stored")
    database.execute(f"CREATE OR REPLACE TABLE hourline.provisional_{TABLES.name} AS FROM stored")
    database.execute(
        f"CREATE OR REPLACE TABLE hourline.hours_{TABLES.name} AS SELECT DISTINCT hour, if(hour(hour) = 7, 'revised', "
        "'final') AS state FROM stored"
    )
    database.execute("CREATE OR REPLACE TABLE hourline.source_hours_clicks AS SELECT max(hour) AS clock FROM stored")
    database.execute(
        f"CREATE OR REPLACE TABLE hourline.revised_{TABLES.name} AS "
        "SELECT page, session_start AS window_start, hour FROM stored WHERE hour(hour) = 7"
    )
    view = finished_windows_sql(METRIC, {"clicks": "BIGINT"}, f"FROM ({session_rows_sql(TABLES)})")
    database.execute(f"CREATE OR REPLACE VIEW visits AS {view}")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs=st.lists(RUN, min_size=1, max_size=12), conditions=st.lists(CONDITION, min_size=1, max_size=3))
def test_the_sessions_are_those_of_all_hours(
    database: duckdb.DuckDBPyConnection, runs: list[tuple[str | None, int, int, int]], conditions: list[str]
) -> None:
    fill(database, runs)
    query = f"FROM visits WHERE {' AND '.join(conditions)} ORDER BY ALL"
    narrowed = narrow_sessions(database, query, [TABLES])
    assert narrowed != query
    assert database.sql(narrowed).fetchall() == database.sql(query).fetchall()


def test_the_last_piece_of_a_long_chain_is_found_alone(database: duckdb.DuckDBPyConnection) -> None:
    fill(database, [("a", 0, 32, 20)])  # to 10:20
    narrowed = narrow_sessions(database, "SELECT clicks FROM visits WHERE window_start >= '2024-03-01 10:00'", [TABLES])
    assert database.sql(narrowed).fetchall() == [(2,)]


DAY = "window_start >= '2024-03-02' AND window_start < '2024-03-03'"


@pytest.mark.parametrize(
    "query",
    [
        f"FROM visits WHERE {DAY}",
        "FROM visits WHERE window_start BETWEEN '2024-03-02' AND '2024-03-03'",
        "FROM visits WHERE window_start = TIMESTAMPTZ '2024-03-02 12:00:00Z'",
        "FROM visits WHERE '2024-03-02 12:00' BETWEEN window_start AND window_end",
        "FROM visits WHERE window_end > DATE '2024-03-02' AND window_start <= DATE '2024-03-02' + INTERVAL 1 DAY",
        "FROM visits WHERE window_start > TIMESTAMP '2024-03-02 00:00' AT TIME ZONE 'Europe/Berlin' AND "
        "window_end < '2024-03-03' AND (page = 'a' OR window_start = window_end)",
        "FROM visits WHERE window_start > now() - to_years(200) AND window_start > '2024-03-02' AND window_end <= '2024-03-03'",
        f"SELECT 'é', v.* FROM Visits AS v WHERE v.{DAY.replace('AND ', 'AND V.')}",
        f'SELECT visits.page, visits FROM "visits" WHERE {DAY}',
        f"FROM v: visits SELECT v.clicks WHERE {DAY}",
        f"SELECT (SELECT max(clicks) FROM visits WHERE {DAY}), count(*) FROM (FROM visits WHERE {DAY}) JOIN (SELECT 1) ON true",
        "SELECT count(*) FROM visits v JOIN visits w USING (page) WHERE v.window_start = '2024-03-02 12:00' AND "
        "w.window_start BETWEEN '2024-03-02' AND '2024-03-03'",
        f"FROM visits WHERE {DAY} UNION ALL FROM visits WHERE {DAY} -- visits",
    ],
)
def test_only_hours_around_the_sessions_are_read(database: duckdb.DuckDBPyConnection, query: str) -> None:
    fill(database, [(page, first, 9, 20) for page in ("a", "b") for first in range(0, 6_000, 240)])
    narrowed = narrow_sessions(database, query, [TABLES])
    answer = sorted(map(str, database.sql(query).fetchall()))
    database.execute(
        "CREATE OR REPLACE VIEW visits_states AS SELECT * REPLACE (if(hour BETWEEN '2024-03-01 18:00' AND "
        "'2024-03-03 05:00', session_start, error('too far')) AS session_start) FROM stored"
    )
    assert sorted(map(str, database.sql(narrowed).fetchall())) == answer
    with pytest.raises(duckdb.Error, match="too far"):
        database.sql(query).fetchall()


@pytest.mark.parametrize(
    "query",
    [
        "FROM visits",
        "FROM visits WHERE window_start >= '2024-03-02' OR clicks > 1",
        "FROM visits WHERE window_start <> '2024-03-02'",
        "FROM visits WHERE window_start NOT BETWEEN '2024-03-02' AND '2024-03-03'",
        "FROM visits WHERE window_start::DATE = '2024-03-02'",
        "FROM visits WHERE window_start > window_end - INTERVAL 1 HOUR",
        "FROM visits WHERE window_start > now() - random() * INTERVAL 1 HOUR",
        "FROM visits WHERE window_start > (SELECT max(hour) FROM visits_states)",
        f"FROM (FROM visits) WHERE {DAY}",
        f"FROM visits TABLESAMPLE 3 ROWS WHERE {DAY}",
        f"FROM visits_states s LEFT JOIN visits v USING (page) WHERE {DAY}",
        f"FROM visits AS v(window_end, window_start) WHERE {DAY}",
        f"SELECT main.visits.page FROM visits WHERE {DAY}",
        f"FROM main.visits WHERE {DAY}",
        f"WITH visits AS (SELECT now() AS window_start) FROM visits WHERE {DAY}",
        f"SELECT 'visits',\u00a0* FROM visits WHERE {DAY}",
    ],
)
def test_any_other_question_stays_as_it_is(database: duckdb.DuckDBPyConnection, query: str) -> None:
    fill(database, [("a", 0, 9, 20)])
    assert narrow_sessions(database, query, [TABLES]) == query
    database.sql(query).fetchall()
