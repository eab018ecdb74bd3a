"""Which hours a source has: those with events, and those without that its clock has passed. By a naive walk over the
hours, whatever has arrived in whatever order.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hourline_core.ledger.progress_rows import HourEvents, ProgressRow, RecordCounts, TakenBack, to_arrow
from hourline_core.model import EventTime, Field, Source
from hourline_core.model.join import Join, JoinSide, Within
from hourline_core.sql import arrivals
from hourline_core.sql.database import connect
from hourline_core.sql.long_silences import long_silences_sql
from hourline_core.sql.progress import last_taken_back_sql, source_hours_sql
from tests.support.examples import examples

HOUR = timedelta(hours=1)
BASE = datetime(2024, 3, 1, tzinfo=UTC)
SOURCE = Source(name="clicks", topic="clicks", fields={"n": Field(type="long")}, event_time=EventTime(expression="at"))
WALL = SOURCE.model_copy(update={"clock": "wall"})

NUMBERS = st.integers(0, 60) | st.sampled_from([743, 744, 745, 746, 1488, 1490, 400_000])
"""Hours after BASE: near ones, around the longest silence, and of a wrong year."""
BATCHES = st.lists(st.lists(NUMBERS, max_size=5), min_size=1, max_size=6)
MINUTES = st.integers(0, 59)


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with connect() as database:
        database.execute("CREATE SCHEMA hourline")
        yield database


def rows(batches: list[list[int]], minute: int) -> pa.Table:
    """Progress after micro-batches with events in these hours. Its clock stands at ``minute`` of the highest."""
    finished: list[ProgressRow] = []
    for sequence, batch in enumerate(batches, start=1):
        so_far = [number for one in batches[:sequence] for number in one]
        hours = tuple(HourEvents(BASE + number * HOUR, count, late=1) for number, count in Counter(batch).items())
        clock = BASE + max(so_far) * HOUR + timedelta(minutes=minute) if so_far else None
        finished.append(ProgressRow(sequence, "id", "clicks", (), RecordCounts(), hours, (), clock, BASE, BASE))
    return to_arrow(finished)


def found(
    database: duckdb.DuckDBPyConnection,
    progress: pa.Table,
    sequence: int,
    source: Source = SOURCE,
    now: datetime = BASE,
) -> dict[datetime, tuple[int, int, bool]]:
    """By hour: events, late, closed."""
    database.register("_progress", progress)
    database.execute("CREATE OR REPLACE VIEW hourline.progress_clicks AS FROM _progress")
    query = source_hours_sql(source, sequence, now)
    listed = database.execute(f"SELECT hour, events, late, closed FROM ({query})").fetchall()
    assert len({hour for hour, *_ in listed}) == len(listed), "an hour is listed twice"
    return {hour: (events, late, closed) for hour, events, late, closed in listed}


def found_silences(
    database: duckdb.DuckDBPyConnection, source: Source = SOURCE, now: datetime = BASE
) -> list[tuple[datetime, datetime, int, str]]:
    """The long silences in the progress that ``found`` has looked at last."""
    query = source_hours_sql(source, 1_000, now)
    database.execute(f"CREATE OR REPLACE TABLE hourline.source_hours_clicks AS {query}")
    return database.execute(f"FROM ({long_silences_sql(source, has_gaps=False)}) ORDER BY ALL").fetchall()


def naive_silences(batches: list[list[int]], clock: datetime | None) -> list[tuple[datetime, datetime, int, str]]:
    """What lies between the listed hours, and after them up to the last hour that has closed."""
    listed = sorted(naive(batches, clock))
    ends = [*listed[1:], clock - HOUR if clock else BASE]
    numbers = [((first - BASE) // HOUR + 1, (end - BASE) // HOUR) for first, end in zip(listed, ends, strict=False)]
    closed = (clock - BASE) // HOUR - 1 if clock else 0
    within = [(first, min(end, closed)) for first, end in numbers]
    return [(BASE + first * HOUR, BASE + end * HOUR, end - first, "final") for first, end in within if first < end]


def naive(batches: list[list[int]], clock: datetime | None) -> dict[datetime, tuple[int, int, bool]]:
    """Walk on from each hour with events, hour by hour."""
    events = Counter(number for batch in batches for number in batch)
    late = Counter(number for batch in batches for number in set(batch))
    listed = set(events)
    if clock is None:
        return {}
    for number in events:
        silent = number + 1
        while silent not in events and silent <= number + 31 * 24 and BASE + (silent + 1) * HOUR <= clock:
            listed.add(silent)
            silent += 1
    return {
        BASE + number * HOUR: (events[number], late[number], BASE + (number + 2) * HOUR <= clock) for number in listed
    }


@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=BATCHES, minute=MINUTES)
def test_the_hours_of_a_source_are_those_of_a_naive_walk(
    database: duckdb.DuckDBPyConnection, batches: list[list[int]], minute: int
) -> None:
    highest = max((number for batch in batches for number in batch), default=None)
    clock = None if highest is None else BASE + highest * HOUR + timedelta(minutes=minute)
    assert found(database, rows(batches, minute), len(batches)) == naive(batches, clock)
    assert found_silences(database) == naive_silences(batches, clock)


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=BATCHES, behind=st.integers(-3, 100), minute=MINUTES)
def test_by_wall_time_the_hours_go_on_up_to_now(
    database: duckdb.DuckDBPyConnection, batches: list[list[int]], behind: int, minute: int
) -> None:
    highest = max((number for batch in batches for number in batch), default=0)
    now = BASE + (highest + behind) * HOUR + timedelta(minutes=minute)
    assert found(database, rows(batches, minute), len(batches), WALL, now) == naive(batches, now)
    assert found_silences(database, WALL, now) == naive_silences(batches, now)


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=BATCHES, minute=MINUTES)
def test_an_hour_that_is_listed_once_is_listed_for_ever(
    database: duckdb.DuckDBPyConnection, batches: list[list[int]], minute: int
) -> None:
    progress = rows(batches, minute)
    listed: set[datetime] = set()
    for sequence in range(1, len(batches) + 1):
        now = found(database, progress, sequence)
        assert listed <= now.keys()
        assert {hour for hour, (events, *_) in now.items() if events} <= now.keys()
        listed = set(now)


def test_one_record_with_a_wrong_year_makes_a_month_of_hours_and_no_more(database: duckdb.DuckDBPyConnection) -> None:
    hours = found(database, rows([[0], [400_000]], minute=30), 2)
    assert len(hours) == 2 + 31 * 24
    assert max(hours) == BASE + 400_000 * HOUR
    assert found_silences(database) == [(BASE + 745 * HOUR, BASE + 399_999 * HOUR, 399_254, "final")]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.lists(st.integers(0, 5), max_size=3), min_size=1, max_size=6), sequence=st.integers(0, 7))
def test_the_last_micro_batch_that_took_events_of_an_hour_back(
    database: duckdb.DuckDBPyConnection, batches: list[list[int]], sequence: int
) -> None:
    join = Join(
        left=JoinSide(source="a"), right=JoinSide(source="b"), on={"n": "n"}, within=Within(after=HOUR), type="left"
    )
    source = SOURCE.model_copy(update={"topic": None, "join": join})
    taken = [tuple(TakenBack(BASE + number * HOUR, 1) for number in set(batch)) for batch in batches]
    finished = [
        ProgressRow(number, "id", "a", (), RecordCounts(), (), (), BASE, BASE, BASE, taken_back=back)
        for number, back in enumerate(taken, start=1)
    ]
    database.register("_progress", to_arrow(finished))
    database.execute("CREATE OR REPLACE VIEW hourline.progress_clicks AS FROM _progress")
    last = {BASE + n * HOUR: of for of, batch in enumerate(batches[:sequence], start=1) for n in batch}
    assert dict(database.execute(last_taken_back_sql(source, sequence)).fetchall()) == last
    assert not database.execute(last_taken_back_sql(SOURCE, sequence)).fetchall()


def test_a_stale_hour_waits_for_a_recompute_since_events_of_it_were_taken_back(
    database: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished = [
        ProgressRow(1, "id", "a", (), RecordCounts(), (), (), BASE + 9 * HOUR, BASE, BASE + HOUR),
        ProgressRow(
            2, "id", "a", (), RecordCounts(), (), (), BASE + 9 * HOUR, BASE, BASE + 5 * HOUR,
            taken_back=(TakenBack(BASE, 1),),
        ),
    ]  # fmt: skip
    database.register("_progress", to_arrow(finished))
    database.execute("CREATE OR REPLACE VIEW hourline.progress_clicks AS FROM _progress")
    database.execute("CREATE OR REPLACE VIEW all_progress AS SELECT 'clicks' AS source, * FROM _progress")
    hours = f"""
        SELECT 'm' AS metric, hour, true AS served, true AS closed, 'stale' AS counted, 1::BIGINT AS cutoff, changed_lookups
        FROM (VALUES (TIMESTAMPTZ '{BASE}', NULL), (TIMESTAMPTZ '{BASE + HOUR}', 'plane')) AS h(hour, changed_lookups)"""
    monkeypatch.setattr(arrivals, "metric_hours_sql", lambda served: hours)
    served = [SimpleNamespace(metric=SimpleNamespace(name="m"), complete_from=1)]
    sql = arrivals.waiting_hours_sql(SOURCE, 2, cast(Any, served))
    assert database.execute(sql).fetchall() == [(1, BASE + 5 * HOUR)]
