"""A connection attaches what a query needs, when it needs it. No answer depends on what was asked before."""

import gc
import random
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import serving_layer
from hourline.cli import shell
from hourline_core.errors import TableError, UsageError
from hourline_core.sql import merge
from hourline_core.sql.attach_on_demand import AttachedParts, Part
from hourline_core.sql.database import connect, cursor_of, open_database
from serving_layer import Connection
from tests.support.bare_tables import METRICS, SOURCE, BareTables, hour

Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> BareTables:
    """Of `totals`, hours 0 and 1 are final, 2 is blocked and 3 is revised. Both hours of `odd` are revised."""
    tables = BareTables(tmp_path_factory.mktemp("tables"), hours=[0, 1, 2, 3, 2, 1, 3, 0])
    tables.start()
    tables.micro_batch(4)
    tables.publish(0, 1, 2, 3)
    tables.publish(0, 1, 2, blocked=[2])
    tables.micro_batch(4)
    tables.publish(0, 1, metrics=["totals"])
    return tables


@pytest.fixture
def connection(tables: BareTables) -> Iterator[Connection]:
    tables.micro_batch(0)  # so that no earlier reader's snapshot is used again
    with serving_layer.connect(tables.project) as connection:
        yield connection


def made(connection: Connection) -> set[str]:
    """The tables and views that are there, without making the others."""
    names = "SELECT view_name FROM duckdb_views() WHERE NOT internal UNION SELECT table_name FROM duckdb_tables()"
    return {name for (name,) in connection._duckdb.execute(names).fetchall()}


def content(connection: Connection, view: str) -> Rows:
    return connection.sql(f"FROM {view} ORDER BY ALL").fetchall()


def test_every_view_alone_has_the_rows_that_it_has_beside_all_others(tables: BareTables) -> None:
    with serving_layer.connect(tables.project) as whole:
        assert whole.database
        views, token = [view for view in whole.views if view != "findings"], whole.token  # which no earlier time has
        expected = {view: content(whole, view) for view in views}
    assert {"totals", "odd_states", "odd_final", "totals_staged", "hours", "events_clicks", "drift"} < set(views)
    for view in views:
        with serving_layer.connect(tables.project, as_of=token) as alone:
            assert content(alone, view) == expected[view], view
    for _ in range(3):
        order = random.sample(views, len(views))
        with serving_layer.connect(tables.project, as_of=token) as connection:
            assert {view: content(connection, view) for view in order} == expected, order


def test_a_question_about_one_metric_attaches_nothing_of_others(connection: Connection) -> None:
    assert connection.sql("SELECT sum(n) FROM Totals WHERE hour > '2000-01-01'").fetchall()
    there = made(connection)
    assert {"totals", "totals_states"} < there
    assert not [name for name in there if "odd" in name or "events" in name or "drift" in name or "quality" in name]
    states = connection.states("FROM odd JOIN totals USING (hour)")
    assert {state.metric for state in states} == set(METRICS)
    assert "odd" in made(connection)
    assert "drift" not in made(connection)


def test_a_table_of_hourlines_own_schema_is_attached_like_a_view(connection: Connection) -> None:
    assert connection.sql("FROM hourline.metric_hours").fetchall()
    assert "metric_hours" in made(connection)
    assert made(connection).isdisjoint({"totals", "events_clicks", "drift"})


def test_the_batch_layer_attaches_what_a_step_needs_and_no_table_of_records(tables: BareTables) -> None:
    needed = {"hourline.metric_hours", "hourline.source_hours_unread"}
    with open_database(tables.project, needed=needed) as (database, snapshot):
        names = {name for (name,) in database.execute("SELECT view_name FROM duckdb_views()").fetchall()}
        assert {"metric_hours", "coverage", "progress_clicks"} < names
        assert names.isdisjoint({"events_clicks", "rejected_clicks", "drift", "quality"})
        metrics = database.execute("SELECT DISTINCT metric FROM hourline.metric_hours").fetchall()
    assert {metric for (metric,) in metrics} == {of.metric.name for of in snapshot.metrics} == set(METRICS)


def test_what_a_step_has_attached_stays_for_the_next_one_until_something_is_committed(tables: BareTables) -> None:
    def attached(needed: set[str]) -> set[str]:
        with open_database(tables.project, needed=needed) as (database, _):
            database.execute("CREATE TEMP TABLE scratch AS SELECT 1")  # which each step has for itself
            return {name for (name,) in database.execute("SELECT view_name FROM duckdb_views()").fetchall()}

    tables.micro_batch(0)
    assert "progress_clicks" not in attached(set())
    assert "progress_clicks" in attached({"hourline.progress_clicks"})
    assert "progress_clicks" in attached(set())
    tables.micro_batch(0)
    assert "progress_clicks" not in attached(set())


@pytest.mark.parametrize(
    "query",
    [
        "SHOW TABLES",
        "SELECT view_name FROM duckdb_views()",
        "SELECT table_name FROM information_schema.tables",
        "SELECT table_name FROM information_schema.tables JOIN totals ON true",
        "FROM query_table('od' || 'd')",
        "FROM query('FROM odd')",
        "FROM main.odd",
        "FROM duckdb_views WHERE NOT internal",
        "FROM duckdb_columns",
        "FROM sqlite_master",
        "FROM pg_tables",
        "WITH t AS (FROM totals) FROM t, pg_views",
    ],
)
def test_a_query_that_may_read_anything_finds_everything(connection: Connection, query: str) -> None:
    assert connection.sql(query).fetchall()
    assert set(connection.views) < made(connection)


def test_a_name_that_does_not_exist_is_refused_as_before(connection: Connection) -> None:
    with pytest.raises(UsageError, match="there is no view 'totls' — did you mean 'totals'"):
        connection.sql("FROM totls")


def test_the_methods_of_a_relation_may_name_any_view(connection: Connection) -> None:
    odd = None  # A variable is never taken for a view.
    totals = connection.sql("FROM totals")
    assert totals.df().shape == totals.shape
    assert "odd" not in made(connection)
    both = totals.filter("hour IN (SELECT hour FROM odd)").order("hour").fetchall()
    assert both == connection.sql("FROM totals SEMI JOIN odd USING (hour) ORDER BY hour").fetchall() != []
    assert odd is None


def test_a_variable_of_the_program_is_never_a_table(connection: Connection) -> None:
    somewhere = pa.table({"n": [1]})
    totals = connection.sql("FROM totals")
    with pytest.raises(UsageError, match="there is no view 'somewhere'"):
        totals.filter("n IN (SELECT n FROM somewhere)").fetchall()
    assert somewhere.num_rows == 1


def test_a_result_is_copied_whatever_views_there_are(connection: Connection, tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    connection.copy("FROM odd ORDER BY ALL; -- all of it", str(path), "FORMAT csv, HEADER false")
    assert len(path.read_text().splitlines()) == len(content(connection, "odd"))
    assert "drift" not in made(connection)


def test_a_nan_has_no_sign_in_csv(connection: Connection, tmp_path: Path) -> None:
    path = tmp_path / "nan.csv"
    query = "SELECT '-nan'::DOUBLE AS n, 'nan'::FLOAT AS n, '-nan'::FLOAT AS f, -1.5::DOUBLE AS d, NULL::DOUBLE AS e"
    connection.copy(query, str(path), "FORMAT csv, HEADER false")
    assert path.read_text() == "nan,nan,nan,-1.5,\n"


def test_a_shell_attaches_nothing_to_split_its_input_to_complete_a_name_or_to_stop(connection: Connection) -> None:
    assert connection.split("FROM odd; SELECT ';' -- of totals") == ["FROM odd", " SELECT ';' -- of totals"]
    assert {"totals", "odd_states", "late_events", "hour", "n", "state"} < set(shell._names(connection))
    connection.interrupt()
    assert not made(connection)


def test_threads_that_share_a_snapshot_make_it_once(connection: Connection) -> None:
    views = [view for view in connection.views for _ in range(4)]

    def ask(view: str) -> tuple[str, Rows]:
        with connection.twin() as twin:
            return view, content(twin, view)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, random.sample(views, len(views))))
    assert all(rows == content(connection, view) for view, rows in answers)


def test_a_twin_still_attaches_tables_when_its_original_is_closed(tables: BareTables) -> None:
    with serving_layer.connect(tables.project) as newest:
        token = newest.token
    original = serving_layer.connect(tables.project, as_of=token)
    with original.twin() as twin:
        original.close()
        assert content(twin, "totals")


def test_the_tables_of_an_earlier_time_are_freed_with_the_last_connection_on_them(tables: BareTables) -> None:
    with serving_layer.connect(tables.project) as newest:
        token = newest.token
    original = serving_layer.connect(tables.project, as_of=token)
    database = weakref.ref(original._root)
    twin = original.twin()
    original.close()
    assert content(twin, "totals")
    twin.close()
    gc.collect()
    assert database() is None


@pytest.mark.parametrize("most", [1, 8 << 20])
def test_few_revised_hours_with_many_rows_in_final_are_not_kept_in_memory(
    tables: BareTables, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    with serving_layer.connect(tables.project) as newest:
        token = newest.token
        expected = content(newest, "totals")
    monkeypatch.setattr("serving_layer.views.KEPT_BYTES", most)
    with serving_layer.connect(tables.project, as_of=token) as connection:
        assert content(connection, "totals") == expected
        kept = {name for (name,) in connection._duckdb.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
        assert any(name.startswith("provisional_totals_") for name in kept)
        assert any(name.startswith("merged_totals_") for name in kept) == (most > 1)


def test_a_snapshot_whose_files_are_no_longer_kept_is_not_called_damaged(tables: BareTables, tmp_path: Path) -> None:
    tables.micro_batch(0)
    moment = [datetime(2026, 1, 1, tzinfo=UTC)]
    with Connection(tables.project, lambda: moment[0]) as connection:
        name = next(name for name in connection.snapshot.files if "provisional/odd" in name[0])
        path = connection.snapshot.files[name].paths[0]
        file, aside = Path(path), tmp_path / "aside.parquet"
        file.rename(aside)
        moment[0] += timedelta(hours=1, minutes=59)
        with pytest.raises(TableError, match=r"is damaged: its file .* is missing"):
            connection.sql("FROM odd")
        moment[0] += timedelta(minutes=1)
        with pytest.raises(
            UsageError, match=r"files of this snapshot have been deleted: .* kept for 2 hours; .*refresh"
        ):
            connection.sql("FROM odd")
        aside.rename(file)
        assert content(connection, "odd")


def test_an_asker_who_is_interrupted_stops_attaching_and_keeps_nobody_else_waiting() -> None:
    database = connect()
    endless = "CREATE TABLE endless AS SELECT count(*) AS n FROM range(1_000_000_000_000_000) WHERE range % 7 = 8"
    statements, begun = [endless], threading.Event()

    def told(_: duckdb.DuckDBPyConnection) -> list[str]:
        begun.set()
        return statements

    quick = Part(("quick",), (), lambda _: ["CREATE VIEW quick AS SELECT 1 AS n"])
    parts = AttachedParts(database, [Part(("endless",), (), told), quick])
    patient, other = cursor_of(database), cursor_of(database)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(parts.attach_for, patient, "FROM endless")
        assert begun.wait(600)
        parts.attach_for(other, "FROM quick")
        assert other.sql("FROM quick").fetchall() == [(1,)]
        while not asked.done():
            patient.interrupt()
            wait([asked], timeout=0.05)
        assert isinstance(asked.exception(), duckdb.InterruptException)
    statements[:] = ["CREATE VIEW endless AS SELECT 2 AS n"]
    parts.attach_for(patient, "FROM endless")
    assert patient.sql("FROM endless").fetchall() == [(2,)]


def test_a_table_that_could_not_be_attached_is_tried_again(tables: BareTables, tmp_path: Path) -> None:
    with serving_layer.connect(tables.project) as connection:
        (path,) = [
            path
            for (name, _), of in connection.snapshot.files.items()
            if "provisional/odd" in name
            for path in of.paths
        ][:1]
        token = connection.token
    file, aside = Path(path), tmp_path / "aside.parquet"
    with serving_layer.connect(tables.project, as_of=token) as connection:
        file.rename(aside)
        for _ in range(2):
            with pytest.raises(TableError, match=r"provisional/odd/.* is damaged: its file .* is missing"):
                connection.sql("FROM odd")
        assert content(connection, "totals")
        aside.rename(file)
        assert content(connection, "odd")
        assert connection.states("FROM odd")[0].hour == hour(0)
    assert SOURCE.name in connection.snapshot.progress


def test_each_query_merges_for_itself_when_many_hours_are_revised(
    tables: BareTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = [f"{metric}{end}" for metric in METRICS for end in ("", "_states", "_final", "_provisional")]
    with serving_layer.connect(tables.project) as few:
        token = few.token
        expected = {view: content(few, view) for view in views}
        assert {state for *_, state in expected["totals"]} == {"final", "revised", "blocked"}
    monkeypatch.setattr(merge, "_FEW_HOURS", 0)
    with serving_layer.connect(tables.project, as_of=token) as many:
        assert {view: content(many, view) for view in views} == expected
        kept = many.database.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        assert not [name for (name,) in kept if name.startswith("merged_")]
