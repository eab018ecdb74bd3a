"""A window's answer is that of all events of its hours, whatever was recomputed, came late, came twice, or lies on
either side of a cutoff; its state is the weakest of its hours. A late event revises just the windows that contain it.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import serving_layer
from hourline_core.aggregates import aggregate_of
from hourline_core.errors import UnreliableResultError, UsageError
from hourline_core.model import Measure, Project
from hourline_core.model.hour_state import WEAKEST_FIRST
from serving_layer.connection import Connection
from serving_layer.reports.windows import explain_window
from tests.support.examples import examples
from tests.support.visit_strategies import micro_batches
from tests.support.visits import Visit, Visits, hour, values
from tests.support.window_oracle import DECLARED, HOUR, MINUTE, WITH_PANES, Declared, parse_window, windows_of

HOURLY = Declared("1h", "hour", 1, 1)
LONG = {"5m", "{size: 24h, every: 15m}", "{size: 1 day, zone: Asia/Kolkata}"}
SPRING = 220
"""The number of the hour, three before the clocks of New York change."""
HOURS = st.integers(SPRING, SPRING + 40)
VISITS = micro_batches(HOURS, most=5)
RECOMPUTES = st.tuples(st.sets(HOURS, min_size=1, max_size=12), st.sets(HOURS, max_size=2))
STEPS = st.lists(st.one_of(VISITS, RECOMPUTES), min_size=1, max_size=6)
PANES_OF_EACH_KIND = [
    # The others are longer panes, and another zone that is half an hour off.
    pytest.param(one, marks=pytest.mark.long) if one.yaml in LONG else one
    for one in WITH_PANES
]


def with_window(project: Project, window: str) -> Project:
    """The project with another window of its metric. Nothing is computed anew."""
    loads = project.metrics["loads"].model_copy(update={"window": parse_window(window), "expectations": []})
    return replace(project, metrics={**project.metrics, "loads": loads})


def with_rate(project: Project) -> Project:
    """The project with another measure of its metric. Nothing is computed anew."""
    loads = project.metrics["loads"]
    measures = {**loads.measures, "frequency": Measure.parse("rate(visits)")}
    return replace(project, metrics={**project.metrics, "loads": loads.model_copy(update={"measures": measures})})


def expected(visits: Visits, declared: Declared, states: Mapping[datetime, str], clock: datetime) -> dict[Any, Any]:
    """By start and end, page and slow: the measures and the state, counted visit by visit."""
    answer: dict[Any, Any] = {}
    for start, end in windows_of(declared, states).items():
        numbers = [
            number for number in range(SPRING - 50, SPRING + 100) if start < hour(number + 1) and hour(number) < end
        ]
        in_hours = [v for number in numbers for v in visits.final(number) + visits.provisional(number)]
        counted = [v for v in in_hours if start <= v.time < end]
        state, _ = expected_state(visits, (start, end), states, clock)
        for group in {(v.page, v.slow) for v in counted}:
            answer[start, end, *group] = (*values(v for v in counted if (v.page, v.slow) == group).values(), state)
    return answer


def expected_state(
    visits: Visits, window: tuple[datetime, datetime], states: Mapping[datetime, str], clock: datetime
) -> tuple[str, datetime | None]:
    """The state of a window, and the first of its hours in the weakest state; None: all of them are final."""
    start, end = window
    late = {
        v.hour
        for number in range(SPRING - 50, SPRING + 100)
        for v in visits.provisional(number)
        if start <= v.time < end
    }
    of_hours = {
        one: state if state != "revised" or (one - hour(0)) // HOUR in late else "final"
        for one, state in sorted(states.items())
        if start < one + HOUR and one < end
    }
    weakest = min(of_hours, key=lambda one: WEAKEST_FIRST.index(of_hours[one]))
    state = min([of_hours[weakest], *(["provisional"] if clock < end else [])], key=WEAKEST_FIRST.index)
    return state, None if of_hours[weakest] == "final" else weakest


def after(folder: Path, steps: list[Any], window: str = "1h") -> Visits:
    """A workspace after these micro-batches and recomputes."""
    visits = Visits(folder, window)
    visits.start()
    visits.micro_batch(Visit(SPRING, "a", 5))
    for step in steps:
        if isinstance(step, list):
            visits.micro_batch(Visit(SPRING, "a", 5), *step)
        else:
            visits.publish(*sorted(step[0] | step[1]), blocked=step[1])
    return visits


def answered(connection: serving_layer.Connection, condition: str = "true") -> dict[Any, Any]:
    rows = connection.sql(f"FROM loads WHERE {condition}").fetchall()
    assert len({row[:4] for row in rows}) == len(rows)
    return {row[:4]: row[4:] for row in rows}


def check_windows(
    connection: serving_layer.Connection, visits: Visits, declared: Declared, states: Mapping[datetime, str]
) -> None:
    """The view of windows lists each window, with its state and its weakest hour."""
    rows = connection.sql("SELECT window_start, window_end, state, weakest_hour FROM windows").fetchall()
    wanted = windows_of(declared, states)
    assert {row[:2] for row in rows} == set(wanted.items())
    assert {row[:2]: row[2:] for row in rows} == {
        window: expected_state(visits, window, states, visits.clock) for window in wanted.items()
    }


@settings(max_examples=examples(6))
@given(steps=STEPS, windows=st.lists(st.sampled_from(DECLARED), min_size=2, max_size=3, unique=True))
def test_a_window_is_all_events_of_its_hours(steps: list[Any], windows: list[Declared]) -> None:
    with TemporaryDirectory() as folder:
        visits = after(Path(folder), steps)
        for declared in windows:
            with serving_layer.connect(with_window(visits.project, declared.yaml)) as connection:
                states = dict(connection.sql("SELECT hour, state FROM hours WHERE name = 'loads'").fetchall())
                wanted = expected(visits, declared, states, visits.clock)
                assert answered(connection) == wanted
                check_windows(connection, visits, declared, states)
                # Any condition on the window gives the same rows, and tells the hours that they are made of.
                chosen = min(windows_of(declared, states), key=lambda start: abs(start - hour(SPRING + 9)))
                for condition in (f"window_start = '{chosen}'", f"window_end <= '{hour(SPRING + 30)}'"):
                    found = answered(connection, condition)
                    kept = connection.sql(f"FROM windows WHERE {condition}").fetchall()
                    bounds = {(start, end) for _, _, start, end, *_ in kept}
                    assert found == {key: row for key, row in wanted.items() if key[:2] in bounds}
                    rests_on = [
                        one.hour for one in connection.states(f"SELECT sum(visits) FROM loads WHERE {condition}")
                    ]
                    assert rests_on == [h for h in sorted(states) if any(start <= h < end for start, end in bounds)]


@pytest.mark.parametrize("declared", PANES_OF_EACH_KIND, ids=lambda declared: declared.yaml)
@settings(max_examples=examples(2))
@given(steps=STEPS)
def test_a_window_that_begins_within_an_hour_is_its_own_events(declared: Declared, steps: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        visits = after(Path(folder), steps, declared.yaml)
        with serving_layer.connect(visits.project) as connection:
            states = dict(connection.sql("SELECT hour, state FROM hours WHERE name = 'loads'").fetchall())
            wanted = expected(visits, declared, states, visits.clock)
            assert answered(connection) == wanted
            check_windows(connection, visits, declared, states)
            for condition in (f"window_start = '{chosen}'" for chosen in list({key[0] for key in wanted})[:2]):
                bounds = [key[:2] for key in wanted if f"'{key[0]}'" in condition]
                assert answered(connection, condition) == {key: row for key, row in wanted.items() if key[:2] in bounds}
                rests_on = [one.hour for one in connection.states(f"SELECT sum(visits) FROM loads WHERE {condition}")]
                assert rests_on == [
                    h for h in sorted(states) if any(start < h + HOUR and h < end for start, end in bounds)
                ]
            hourly = {row[:3]: row[3:] for row in connection.sql("FROM loads_hours").fetchall()}
            of_hours = {
                (start, *key): row for (start, _, *key), row in expected(visits, HOURLY, states, visits.clock).items()
            }
            layers = "FROM loads_final UNION ALL FROM loads_provisional"
            of_layers = f"SELECT page, slow, sum(visits) FROM ({layers}) GROUP BY ALL"
            by_group = "SELECT page, slow, sum(visits) FROM loads_hours GROUP BY ALL"
            assert (
                connection.sql(f"{of_layers} ORDER BY ALL").fetchall()
                == connection.sql(f"{by_group} ORDER BY ALL").fetchall()
            )
            # An hour is in its own state, also before the clock has passed its end.
            assert {key: row[:-1] for key, row in hourly.items()} == {key: row[:-1] for key, row in of_hours.items()}
            assert all(row[-1] == states[key[0]] for key, row in hourly.items())


@pytest.fixture
def visits(tmp_path: Path) -> Visits:
    """Hours 0 to 99 are final, and 100 is provisional. Each has a visit."""
    visits = Visits(tmp_path)
    visits.start()
    visits.micro_batch(*(Visit(number, "a", number) for number in range(101)))
    visits.publish(*range(100))
    return visits


def rows_read(connection: serving_layer.Connection, query: str) -> int:
    """The number of rows that DuckDB reads from files."""
    ((_, text),) = connection.database.execute(f"EXPLAIN (ANALYZE, FORMAT json) {query}").fetchall()
    read = 0

    def count(node: dict[str, Any]) -> None:
        nonlocal read
        read += node["operator_cardinality"] if "PARQUET" in node.get("operator_name", "") else 0
        for child in node["children"]:
            count(child)

    count(json.loads(text))
    return read


def test_a_question_about_one_day_reads_the_hours_that_its_windows_need(visits: Visits) -> None:
    with serving_layer.connect(with_window(visits.project, "{size: 24h, every: 1h}")) as connection:
        day = f"window_start >= '{hour(24)}' AND window_start < '{hour(48)}'"
        rows = connection.sql(f"SELECT visits, worst FROM loads WHERE slow IS NOT NULL AND {day} ORDER BY window_start")
        assert sum(visits for visits, _ in rows.fetchall()) == 24 * 24
        assert rows_read(connection, f"SELECT * FROM loads WHERE {day}") == 47
        assert rows_read(connection, f"SELECT * FROM loads WHERE window_end = '{hour(48)}' AND page = 'a'") == 24


def test_a_late_event_revises_the_windows_that_contain_its_hour(visits: Visits) -> None:
    visits.micro_batch(Visit(30, "a", 1))
    with serving_layer.connect(with_window(visits.project, "{size: 6h, every: 3h}")) as connection:
        revised = connection.sql("SELECT window_start FROM windows WHERE state = 'revised' ORDER BY ALL").fetchall()
        assert revised == [(hour(27),), (hour(30),)]
        weakest = dict(connection.sql("SELECT window_start, state FROM loads").fetchall())
        assert {start for start, state in weakest.items() if state == "revised"} == {hour(27), hour(30)}
    visits.publish(30)
    with serving_layer.connect(with_window(visits.project, "{size: 6h, every: 3h}")) as connection:
        assert connection.sql("SELECT count(*) FROM windows WHERE state = 'revised'").fetchall() == [(0,)]


def test_a_window_that_the_clock_has_not_passed_is_provisional_though_its_hours_are_final(visits: Visits) -> None:
    visits.publish(100)
    with serving_layer.connect(with_window(visits.project, "1 day")) as connection:
        assert connection.sql(
            "SELECT DISTINCT state FROM hours WHERE kind = 'metric' AND name = 'loads'"
        ).fetchall() == [("final",)]
        states = connection.sql("SELECT state, closed FROM windows ORDER BY window_start").fetchall()
    assert states == [("final", True)] * 4 + [("provisional", False)]


def test_a_window_with_a_missing_hour_has_no_row_and_a_strict_reader_is_refused(tmp_path: Path) -> None:
    visits = Visits(tmp_path)
    visits.start(knows_metric=False)
    visits.micro_batch(*(Visit(number, "a", 1) for number in range(5)))
    visits.start()
    visits.micro_batch(*(Visit(number, "a", 1) for number in range(5, 13)))
    project = with_window(visits.project, "3h")
    with serving_layer.connect(project, strict=True) as connection:
        states = connection.sql("SELECT state FROM windows ORDER BY window_start").fetchall()
        assert states == [("missing",), ("missing",), ("provisional",), ("provisional",), ("provisional",)]
        later = f"SELECT sum(visits) FROM loads WHERE window_start >= '{hour(6)}'"
        assert connection.sql(later).fetchall() == [(7,)]
        with pytest.raises(UnreliableResultError, match=f"{hour(0):%Y-%m-%dT%H}:00Z missing"):
            connection.sql("SELECT sum(visits) FROM loads")
    visits.publish(*range(5))
    with serving_layer.connect(project, strict=True) as connection:
        assert connection.sql("SELECT sum(visits) FROM loads").fetchall() == [(13,)]


def test_windows_of_hours_long_ago_do_not_fill_the_time_between(visits: Visits) -> None:
    far = -24 * 365 * 40
    visits.micro_batch(Visit(far, "b", 1))
    with serving_layer.connect(with_window(visits.project, "{size: 6h, every: 1h}")) as connection:
        ((count, first),) = connection.sql("SELECT count(*), min(window_start) FROM windows").fetchall()
        assert connection.sql("SELECT count(*) FROM loads WHERE page = 'b'").fetchall() == [(6,)]
    assert first == hour(far) - 5 * HOUR
    assert count < 101 + 5 + 32 * 24  # hours without events are listed for 31 days


def test_a_window_that_ends_in_a_long_silence_is_final_once_it_has_closed(tmp_path: Path) -> None:
    visits = Visits(tmp_path)
    visits.start()
    project = with_window(visits.project, "6h")

    def look() -> tuple[list[Any], list[Any]]:
        with serving_layer.connect(project) as connection:
            silences = connection.sql("SELECT silence_start, silence_end, state FROM long_silences ORDER BY ALL")
            window = f"SELECT state, closed FROM windows WHERE window_start = '{hour(744)}'"
            return silences.fetchall(), connection.sql(window).fetchall()

    visits.micro_batch(Visit(0, "a", 1), Visit(750, "a", 1, minute=30))
    visits.publish(*range(745))
    assert look() == ([(hour(745), hour(749), "final")], [("provisional", False)])
    visits.micro_batch(Visit(751, "a", 1))
    assert look() == ([(hour(745), hour(750), "final")], [("final", True)]), "nothing was published"
    visits.micro_batch(Visit(747, "a", 1))
    assert look() == ([(hour(745), hour(747), "final")], [("provisional", True)])
    visits.publish(747, 748, 749)
    assert look() == ([(hour(745), hour(747), "final")], [("final", True)])


def test_a_window_is_final_only_after_the_hour_that_it_ends_in_has_closed(tmp_path: Path) -> None:
    visits = Visits(tmp_path, "90m")
    visits.start()
    visits.micro_batch(Visit(0, "a", 1))
    visits.publish(0)
    source = visits.project.sources["visits"].model_copy(update={"clock": "wall", "grace": timedelta(minutes=5)})
    project = replace(visits.project, sources={"visits": source})

    def look(minutes: int) -> list[Any]:
        with Connection(project, clock=lambda: hour(0) + timedelta(minutes=minutes)) as connection:
            window = f"SELECT state, closed FROM windows WHERE window_start = '{hour(0)}'"
            return connection.sql(window).fetchall()

    assert look(100) == [("provisional", True)], "the second hour is not listed yet, and may still get events"
    assert look(130) == [("provisional", True)], "it is not published"
    visits.publish(1)
    assert look(130) == [("final", True)]


def test_the_hours_of_a_metric_with_windows_are_there_as_before(visits: Visits) -> None:
    with serving_layer.connect(visits.project) as connection:
        hourly = connection.sql("FROM loads ORDER BY ALL").fetchall()
        states = connection.sql("FROM loads_states ORDER BY ALL").fetchall()
        with pytest.raises(UsageError, match="no view 'loads_hours'"):
            connection.sql("FROM loads_hours")
    with serving_layer.connect(with_window(visits.project, "1 week")) as connection:
        assert connection.sql("FROM loads_hours ORDER BY ALL").fetchall() == hourly
        assert connection.sql("FROM loads_states ORDER BY ALL").fetchall() == states
        hour_24 = f"hour = '{hour(24)}'"
        assert [one.hour for one in connection.states(f"FROM loads_hours WHERE {hour_24}")] == [hour(24)]
        with pytest.raises(UsageError, match=r"no column 'hour'.*window_start"):
            connection.sql(f"FROM loads WHERE {hour_24}")


def test_any_duckdb_gives_the_same_windows_by_the_script(visits: Visits) -> None:
    from hourline_core.sql.database import connect

    project = with_window(visits.project, "{size: 2 days, every: 1 day, zone: America/New_York}")
    columns = "window_start, window_end, page, slow, visits, mean_ms, worst, state"
    with serving_layer.connect(project) as connection, connect() as plain:
        for statement in connection.statements:
            plain.execute(statement)
        wanted = connection.sql(f"SELECT {columns} FROM loads ORDER BY ALL").fetchall()
        assert plain.execute(f"SELECT {columns} FROM loads ORDER BY ALL").fetchall() == wanted
    assert wanted
    assert all(end - start == timedelta(days=2) for start, end, *_ in wanted)


@pytest.fixture
def minutes(tmp_path: Path) -> Visits:
    """Windows of 5 minutes. Hour 0 is final, and 1 is provisional. Each minute has a visit until 01:09."""
    visits = Visits(tmp_path, "5m")
    visits.start()
    visits.micro_batch(*(Visit(number // 60, "a", number, minute=number % 60) for number in range(70)))
    visits.publish(0)
    return visits


def test_a_window_of_minutes_is_explained_by_what_its_hours_contribute(minutes: Visits) -> None:
    with serving_layer.connect(minutes.project) as connection:
        explained = explain_window(connection, "loads", hour(0) + 55 * MINUTE)
        assert (explained.state, explained.measures["visits"], explained.measures["mean_ms"]) == ("final", 5, 57)
        assert [(one.hour, one.measures["visits"]) for one in explained.hours] == [(hour(0), 5)]
    with serving_layer.connect(with_window(minutes.project, "{size: 30m, every: 5m}")) as connection:
        explained = explain_window(connection, "loads", hour(0) + 45 * MINUTE)
        assert (explained.state, explained.measures["visits"]) == ("provisional", 25)
        assert [(one.hour, one.state, one.measures["visits"]) for one in explained.hours] == [
            (hour(0), "final", 15),
            (hour(1), "provisional", 10),
        ]


@pytest.mark.parametrize(
    ("panes", "window", "length"),
    [("5m", "{size: 30m, every: 5m}", 30 * MINUTE), ("1h", "{size: 1 day, zone: America/New_York}", 23 * HOUR)],
)
def test_a_rate_is_by_the_length_of_the_window(tmp_path: Path, panes: str, window: str, length: timedelta) -> None:
    visits = after(tmp_path, [[Visit(SPRING + number, "a", 5, minute=number) for number in range(48)]], panes)
    with serving_layer.connect(with_rate(with_window(visits.project, window))) as connection:
        rows = connection.sql("SELECT window_end - window_start, visits, frequency FROM loads").fetchall()
        assert length in {size for size, *_ in rows}
        assert all(rate == visits / size.total_seconds() for size, visits, rate in rows)
        assert connection.sql("SELECT bool_and(frequency = visits / 3600) FROM loads_hours").fetchall() == [(True,)]


def test_a_rate_of_an_hour_of_a_window_is_by_the_time_that_they_share(minutes: Visits) -> None:
    with serving_layer.connect(with_rate(with_window(minutes.project, "{size: 30m, every: 5m}"))) as connection:
        explained = explain_window(connection, "loads", hour(0) + 45 * MINUTE)
        assert explained.measures["frequency"] == 25 / 1800
        assert [one.measures["frequency"] for one in explained.hours] == [15 / 900, 10 / 900]


def test_a_late_event_revises_just_the_windows_that_contain_it(minutes: Visits) -> None:
    minutes.micro_batch(Visit(0, "a", 1, minute=12))
    revised = "SELECT window_start FROM windows WHERE state = 'revised' ORDER BY ALL"
    with serving_layer.connect(minutes.project) as connection:
        assert connection.sql("SELECT state FROM hours WHERE name = 'loads' ORDER BY hour").fetchone() == ("revised",)
        assert connection.sql(revised).fetchall() == [(hour(0) + 10 * MINUTE,)]
        assert connection.sql("SELECT visits, state FROM loads ORDER BY window_start LIMIT 3").fetchall() == [
            (5, "final"),
            (5, "final"),
            (6, "revised"),
        ]
    with serving_layer.connect(with_window(minutes.project, "{size: 20m, every: 5m}")) as connection:
        wanted = [(hour(0) + number * MINUTE,) for number in (-5, 0, 5, 10)]
        assert connection.sql(revised).fetchall() == wanted


def test_other_windows_of_the_same_panes_need_no_recompute_and_other_panes_do(minutes: Visits) -> None:
    with serving_layer.connect(with_window(minutes.project, "15 minutes")) as connection:
        # What is stored has panes of 5 minutes: its windows are served until hours of the new panes are recomputed.
        assert connection.sql("SELECT max(window_end - window_start) FROM loads").fetchall() == [(5 * MINUTE,)]
        assert connection.sql("SELECT sum(visits) FROM loads").fetchall() == [(70,)]
    with serving_layer.connect(with_window(minutes.project, "1h")) as connection:
        assert connection.sql("SELECT sum(visits) FROM loads").fetchall() == [(70,)]
    with serving_layer.connect(with_window(minutes.project, "{size: 1h, every: 5m}")) as connection:
        assert connection.sql("SELECT max(visits) FROM loads").fetchall() == [(60,)]


def test_a_metric_of_hours_is_served_by_the_hour_until_its_new_panes_are_computed(visits: Visits) -> None:
    with serving_layer.connect(with_window(visits.project, "5m")) as connection:
        assert connection.sql("SELECT sum(visits) FROM loads WHERE hour IS NOT NULL").fetchall() == [(101,)]
        with pytest.raises(UsageError, match="no column 'window_start' yet"):
            connection.sql("SELECT window_start FROM loads")


def test_estimates_tell_how_near_they_are(visits: Visits) -> None:
    with serving_layer.connect(visits.project) as connection:
        query = "SELECT hour, visits, pages FROM loads"
        assert connection.errors_of(query, ["hour", "visits", "pages"]) == {"pages": "within about 3 % above 4,096"}
        assert connection.errors_of(query, ["visits"]) == {}
        assert connection.errors_of("SELECT 1 AS pages FROM hours", ["pages"]) == {}
    assert aggregate_of(Measure.parse("median(x)")).error == "within 1 %"
