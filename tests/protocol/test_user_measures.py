"""A user-defined measure where answers are read: by hour, over groups, hours and windows, in both layers at once."""

import statistics
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import duckdb
import pyarrow as pa
import pytest

import serving_layer
from hourline_core.aggregates.user_classes.code import UnusableClassError, function_of
from hourline_core.aggregates.user_classes.measure_class import load_class
from hourline_core.errors import SetupError
from hourline_core.model import Metric, UserMeasure
from hourline_core.sql import user_functions
from hourline_core.sql.database import FUNCTIONS, open_database
from hourline_core.sql.shared_snapshot import SharedSnapshot
from serving_layer.export import export
from serving_layer.reports.lineage import explain_number
from serving_layer.script import script
from tests.protocol.test_rollups import with_rollups
from tests.support import visits as support
from tests.support.user_classes import SPREAD
from tests.support.visits import Visit, Visits, hour
from tests.support.window_oracle import parse_window

STATE = load_class(UserMeasure(name="spread", code=SPREAD)).state_type
plain_tiles = support.tiles


def tiles_with_states(visits: Iterable[Visit], metric: Metric) -> pa.Table:
    """The tiles with the states of ``spread(ms)``, which are not computed by its class."""
    seen = list(visits)
    states = []
    tiles = plain_tiles(seen, metric)
    for row in tiles.to_pylist():
        first, length = row.get("pane", row["hour"]), metric.pane or timedelta(hours=1)
        of_group = [v for v in seen if (v.page, v.slow) == (row["page"], row["slow"])]
        values = [v.ms for v in of_group if first <= v.time < first + length]
        mean = statistics.fmean(values)
        states.append({"n": len(values), "mean": mean, "m2": sum((value - mean) ** 2 for value in values)})
    counts = pa.array([state["n"] for state in states], pa.int64())
    for name, column in (("spread", pa.array(states, STATE)), ("spread__n", counts)):
        tiles = tiles.set_column(tiles.schema.get_field_index(name), name, column)
    return tiles


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """``loads`` has the measure ``spread(ms)``."""
    metric = support.FILES["metrics/loads.yaml"].replace(
        "pages: distinct(page)", "pages: distinct(page), spread: spread(ms)"
    )
    monkeypatch.setattr(support, "FILES", {**support.FILES, "metrics/loads.yaml": metric, "measures/spread.py": SPREAD})
    monkeypatch.setattr(
        support, "TILES", support.TILES.append(pa.field("spread", STATE)).append(pa.field("spread__n", pa.int64()))
    )
    monkeypatch.setattr(support, "tiles", tiles_with_states)


@pytest.fixture
def visits(tmp_path: Path) -> Visits:
    """Hours 0 to 3, of which 0 and 1 are final and 1 is revised."""
    visits = Visits(tmp_path)
    visits.start()
    visits.micro_batch(*(Visit(number % 4, "ab"[number % 2], number * 37 % 300) for number in range(60)))
    visits.publish(0, 1)
    visits.micro_batch(*(Visit(1, "a", number) for number in (5, 500, 50)), Visit(2, None, 7))
    return visits


def test_a_class_that_cannot_be_used_is_told_each_time(visits: Visits, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(measure: UserMeasure) -> NoReturn:
        raise UnusableClassError("its package is not installed")

    newest = SharedSnapshot()
    with monkeypatch.context() as patch:
        patch.setattr(user_functions, "load_class", refuse)
        for _ in range(2):
            with (
                pytest.raises(SetupError, match="the measure 'spread' cannot be used here: its package is not"),
                open_database(visits.project, needed={FUNCTIONS}, newest=newest),
            ):
                pass
    with open_database(visits.project, needed={FUNCTIONS}, newest=newest) as (database, _):
        made = database.execute("SELECT function_name FROM duckdb_functions()").fetchall()
    assert (function_of("merge", UserMeasure(name="spread", code=SPREAD)),) in made


def spread(visits: Visits, *hours: int, **cell: Any) -> Any:
    """The variance over the visits of some hours and groups."""
    times = [
        visit.ms
        for number in hours
        for visit in (*visits.final(number), *visits.provisional(number))
        if all(getattr(visit, name) == value for name, value in cell.items())
    ]
    return pytest.approx(statistics.variance(times)) if len(times) > 1 else None


def test_states_of_both_layers_merge(visits: Visits) -> None:
    with serving_layer.connect(visits.project) as connection:
        rows = connection.sql("SELECT hour, page, slow, spread FROM loads").fetchall()
    assert len(rows) > 10
    for moment, page, slow, value in rows:
        assert value == spread(visits, (moment - hour(0)) // timedelta(hours=1), page=page, slow=slow)


def test_it_is_rolled_up_to_groups_and_windows(visits: Visits) -> None:
    project = with_rollups(
        visits.project,
        by_page={"dimensions": ["page"], "measures": ["spread"]},
        whole={"dimensions": [], "window": parse_window("1 day")},
    )
    with serving_layer.connect(project) as connection:
        by_page = connection.sql("SELECT hour, page, spread FROM by_page").fetchall()
        assert {(moment, page): value for moment, page, value in by_page} == {
            (hour(n), page): spread(visits, n, page=page)
            for n in range(4)
            for page in ("ab"[n % 2], *([None] * (n == 2)))
        } | {(hour(1), "a"): spread(visits, 1, page="a")}
        assert connection.sql("SELECT spread FROM whole").fetchall() == [(spread(visits, 0, 1, 2, 3),)]


def test_it_is_merged_over_the_hours_and_layers_of_a_session(tmp_path: Path) -> None:
    visits = Visits(tmp_path, "{gap: 30m}")
    visits.start()
    early, late = {10: 3, 50: 8, 70: 21, 95: 40, 110: 2, 200: 7}, {65: 90, 125: 11}  # by minute, the ms
    visits.micro_batch(*(Visit(at // 60, "a", ms, minute=at % 60) for at, ms in early.items()))
    visits.publish(0, 1)
    visits.micro_batch(
        Visit(1, "b", 60, minute=55), *(Visit(at // 60, "a", ms, minute=at % 60) for at, ms in late.items())
    )
    together = [8, 90, 21, 40, 2, 11]
    with serving_layer.connect(with_rollups(visits.project, of_all={"dimensions": []})) as connection:
        of_a = connection.sql("SELECT spread FROM loads WHERE page = 'a' ORDER BY window_start").fetchall()
        assert of_a == [(None,), (pytest.approx(statistics.variance(together)),), (None,)]
        of_all = connection.sql("SELECT spread FROM of_all ORDER BY window_start").fetchall()
        assert of_all == [(None,), (pytest.approx(statistics.variance([*together, 60])),), (None,)]


def test_it_is_explained_and_exported_and_left_out_of_a_script(visits: Visits, tmp_path: Path) -> None:
    with serving_layer.connect(visits.project) as connection:
        explained = explain_number(connection, "loads", hour(1), {"page": "a"})
        (answer,) = [one for one in explained.answer if one.measure == "spread"]
        assert answer.value == spread(visits, 1, page="a")
        export(connection, tmp_path / "all.duckdb", "duckdb", False, lambda _: None)
        assert "-- loads is without pages, spread:" in script(connection)
    with duckdb.connect(str(tmp_path / "all.duckdb")) as exported:
        rows = exported.sql("SELECT hour, page, slow, spread FROM loads").fetchall()
    for moment, page, slow, value in rows:
        assert value == spread(visits, (moment - hour(0)) // timedelta(hours=1), page=page, slow=slow)
