"""A metric over another metric is that metric over all events: states are merged, never finished values."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import serving_layer
from hourline_core.errors import UnreliableResultError, UsageError
from hourline_core.model import Project
from hourline_core.model.hour_state import WEAKEST_FIRST
from hourline_core.model.metric_window import HOUR_WINDOW
from hourline_core.model.rollup import Rollup, resolve_rollups
from serving_layer.reports.lineage import explain_number
from tests.support.examples import examples
from tests.support.visit_strategies import micro_batches
from tests.support.visits import Visit, Visits, hour, values
from tests.support.window_oracle import DECLARED, HOUR, MINUTE, Declared, parse_window, windows_of

HOURS = st.integers(200, 230)
VISITS = micro_batches(HOURS, most=6)
RECOMPUTES = st.sets(HOURS, min_size=1, max_size=12)
STEPS = st.lists(st.one_of(VISITS, RECOMPUTES), min_size=1, max_size=5)
DIMENSIONS = st.sampled_from([[], ["page"], ["slow"], ["slow", "page"]])


def with_rollups(project: Project, **declared: Mapping[str, object]) -> Project:
    """The project with metrics over ``loads``, or over each other. Nothing is computed anew."""
    rollups = {name: Rollup(name=name, **{"from": "loads", **keys}) for name, keys in declared.items()}  # type: ignore[arg-type]
    resolved, mistakes = resolve_rollups(rollups, project.metrics, project.where_declared)
    assert not mistakes
    return replace(project, rollups=resolved)


def expected(
    visits: Visits, windows: Mapping[datetime, datetime], states: Mapping[datetime, str], dimensions: list[str]
) -> dict[Any, Any]:
    """By start and dimensions: the number of visits, their mean and distinct pages, and the state of the window."""
    answer: dict[Any, Any] = {}
    for start, end in windows.items():
        numbers = [number for number in range(100, 400) if start <= hour(number) < end]
        counted = [v for number in numbers for v in visits.final(number) + visits.provisional(number)]
        ahead = ["provisional"] if end - start > HOUR and visits.clock < end else []
        state = min([*(s for one, s in states.items() if start <= one < end), *ahead], key=WEAKEST_FIRST.index)
        for group in {tuple(getattr(v, name) for name in dimensions) for v in counted}:
            measures = values(v for v in counted if tuple(getattr(v, name) for name in dimensions) == group)
            answer[start, *group] = (measures["visits"], measures["mean_ms"], measures["pages"], state)
    return answer


@settings(max_examples=examples(8))
@given(steps=STEPS, declared=st.sampled_from(DECLARED), dimensions=DIMENSIONS)
def test_a_rollup_is_its_metric_over_all_events(steps: list[Any], declared: Declared, dimensions: list[str]) -> None:
    with TemporaryDirectory() as folder:
        visits = Visits(Path(folder))
        visits.start()
        for step in steps:
            visits.micro_batch(*step) if isinstance(step, list) else visits.publish(*sorted(step))
        keys = {"dimensions": dimensions, "measures": ["visits", "mean_ms", "pages"]}
        project = with_rollups(visits.project, by_hour=keys, by_window={**keys, "window": parse_window(declared.yaml)})
        with serving_layer.connect(project) as connection:
            states = dict(connection.sql("SELECT hour, state FROM hours WHERE name = 'loads'").fetchall())
            columns = ", ".join([*dimensions, "visits", "mean_ms", "pages", "state"])
            for name, start, windows in (
                ("by_hour", "hour", {one: one + HOUR for one in states}),
                ("by_window", "window_start", windows_of(declared, states)),
            ):
                rows = connection.sql(f"SELECT {start}, {columns} FROM {name}").fetchall()
                answered = {row[: len(dimensions) + 1]: row[len(dimensions) + 1 :] for row in rows}
                assert len(answered) == len(rows)
                assert answered == expected(visits, windows, states, dimensions)


def test_windows_over_panes_are_those_of_all_events(tmp_path: Path) -> None:
    visits = Visits(tmp_path, "5m", drift=True)
    visits.start()
    visits.micro_batch(*(Visit(number // 60, "ab"[number % 2], number, minute=number % 60) for number in range(150)))
    visits.publish(0, 1)
    visits.micro_batch(Visit(1, "a", 1000, minute=59))
    over = with_rollups(
        visits.project,
        quarters={"window": parse_window("15m"), "dimensions": []},
        halves={"from": "quarters", "window": parse_window("30m")},
        hours_of_it={"window": parse_window("1h"), "dimensions": ["page"]},
    )
    with serving_layer.connect(over) as connection:
        for name, minutes in (("quarters", 15), ("halves", 30)):
            rows = connection.sql(f"SELECT window_start, visits, mean_ms FROM {name}").fetchall()
            of_window: defaultdict[datetime, list[int]] = defaultdict(list)
            for visit in visits.visits:
                of_window[hour(visit.hour) + visit.minute // minutes * minutes * MINUTE].append(visit.ms)
            assert {start: tuple(values) for start, *values in rows} == {
                start: (len(times), sum(times) / len(times)) for start, times in of_window.items()
            }
        assert connection.sql("SELECT page, visits FROM hours_of_it ORDER BY hour, page").fetchall() == [
            ("a", 30),
            ("b", 30),
            ("a", 31),
            ("b", 30),
            ("a", 15),
            ("b", 15),
        ]
    # While the metric is still served by the hour, so are those over it.
    before = visits.metric.model_copy(update={"window": HOUR_WINDOW})
    assert over.rollups["halves"].over(before).window.is_hour
    visits.publish(1)
    with serving_layer.connect(visits.project) as connection:
        drift = "SELECT hour, at_close, final, cause FROM drift WHERE measure = 'visits' ORDER BY ALL"
        assert connection.sql(drift).fetchall() == [
            (hour(number), count, count, None) for number, count in ((0, 60), (1, 60), (1, 61))
        ]


@pytest.fixture
def visits(tmp_path: Path) -> Visits:
    """Hours 0 to 9: two visits each; 0 to 5 are final."""
    visits = Visits(tmp_path)
    visits.start()
    visits.micro_batch(*(Visit(number, page, number) for number in range(10) for page in "ab"))
    visits.publish(*range(6))
    return visits


def test_a_rollup_of_a_rollup_merges_the_states_of_the_first_metric(visits: Visits) -> None:
    project = with_rollups(
        visits.project, by_page={"dimensions": ["page"]}, total={"from": "by_page", "dimensions": [], "window": "1 day"}
    )
    with serving_layer.connect(project) as connection:
        assert connection.sql("SELECT visits, mean_ms, pages FROM total").fetchall() == [(20, 4.5, 2)]
        states = connection.states("FROM total")
        assert [(one.metric, one.hour) for one in states] == [("loads", hour(number)) for number in range(10)]


def test_a_strict_reader_of_a_rollup_is_refused_what_its_metric_is_refused(visits: Visits) -> None:
    visits.publish(7, blocked=[7])
    with serving_layer.connect(with_rollups(visits.project, total={"dimensions": []}), strict=True) as connection:
        assert connection.sql(f"SELECT visits FROM total WHERE hour < '{hour(7)}'").fetchall() == [(2,)] * 7
        with pytest.raises(UnreliableResultError, match=r"of 'loads' .*blocked"):
            connection.sql("FROM total")


def test_any_duckdb_gives_the_same_rollup_by_the_script(visits: Visits) -> None:
    from hourline_core.sql.database import connect

    project = with_rollups(visits.project, total={"dimensions": [], "measures": ["visits", "mean_ms"], "window": "3h"})
    with serving_layer.connect(project) as connection, connect() as plain:
        for statement in connection.statements:
            plain.execute(statement)
        wanted = connection.sql("FROM total ORDER BY ALL").fetchall()
        assert wanted and plain.execute("FROM total ORDER BY ALL").fetchall() == wanted


def test_a_rollup_says_what_it_lacks_and_who_explains_it(visits: Visits) -> None:
    with serving_layer.connect(with_rollups(visits.project, total={"dimensions": []})) as connection:
        with pytest.raises(UsageError, match=r"no column 'page' — did you mean 'pages'"):
            connection.sql("SELECT page FROM total")
        with pytest.raises(
            UsageError, match=r"'total' is merged from 'loads'.*`hourline explain loads 2024-03-01T01:00Z`"
        ):
            explain_number(connection, "total", hour(1), {})
