"""`hourline export`: files that hold what the views give, written as a whole or not at all, and over nothing that
somebody wants to keep.
"""

import os
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path

import duckdb
import pytest

import serving_layer
from hourline_core.errors import SetupError, TableError, UsageError
from serving_layer import export as exporting
from serving_layer.export import Format, check_target, export
from tests.support.bare_tables import BareTables
from tests.support.speed_process import wait_until
from tests.support.visits_tables import grouped, some_visits, visit_tables

FORMATS: list[Format] = ["duckdb", "parquet"]
RESULTS = {"totals", "odd", "hours", "drift", "late_events", "quality", "windows"}


@pytest.fixture
def tables(tmp_path: Path) -> BareTables:
    tables = BareTables(tmp_path / "project", hours=[0, 1, 2, 1, 3, 1])
    tables.start()
    tables.micro_batch(3)
    tables.publish(0, 1, 2, blocked=[2])
    tables.micro_batch(3)
    (tmp_path / "exports").mkdir()
    return tables


def write(tables: BareTables, target: Path, form: Format, events: bool = False) -> None:
    with serving_layer.connect(tables.project) as connection:
        export(connection, target, form, events, move=lambda done: None)


def exported(target: Path) -> dict[str, duckdb.DuckDBPyRelation]:
    """By table, read with nothing of Hourline's."""
    if target.is_dir():
        return {file.stem: duckdb.read_parquet(str(file)) for file in target.iterdir()}
    database = duckdb.connect(str(target), read_only=True)
    database.execute("SET TimeZone = 'UTC'")
    names = database.execute("SELECT table_name FROM duckdb_tables() WHERE NOT internal").fetchall()
    return {name: database.table(name) for (name,) in names}


def rows(relation: duckdb.DuckDBPyRelation) -> list[object]:
    return [relation.columns, [str(kind) for kind in relation.types], sorted(relation.fetchall(), key=repr)]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("events", [False, True])
def test_an_export_holds_what_the_views_give_and_says_of_when_it_is(
    form: Format, events: bool, tables: BareTables, tmp_path: Path
) -> None:
    target = tmp_path / "exports" / f"o'clock.{form}"
    done: list[int] = []
    with serving_layer.connect(tables.project) as connection:
        tables.publish(2)  # meanwhile, which it does not see
        export(connection, target, form, events, move=done.append)
        found = exported(target)
        assert set(found) == RESULTS | {"hourline_snapshot"} | (
            {"events_clicks", "rejected_clicks"} if events else set()
        )
        for name in set(found) - {"hourline_snapshot"}:
            assert rows(found[name]) == rows(connection.database.sql(f'FROM "{name}"')), name
        assert connection.sql("SELECT count(*) FROM totals").fetchall() == [(4,)], "the connection is as it was"
    assert found["totals"].filter("state = 'blocked'").count("*").fetchone() == (1,)
    said = found["hourline_snapshot"].select("project, publication, source, sequence").fetchall()
    assert said == [("project", 1, "clicks", 2)]
    assert done == list(range(1, len(found) + 1))
    assert list(target.parent.iterdir()) == [target], "nothing is left beside it"


@pytest.mark.parametrize("form", FORMATS)
def test_the_most_frequent_values_are_exported_as_lists(
    form: Format, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    visits = some_visits(300)
    tables = visit_tables(tmp_path / "project", visits, monkeypatch)
    tables.start()
    tables.micro_batch(len(visits))
    tables.publish(0, 1)
    target = tmp_path / "x"
    write(tables, target, form)
    found = exported(target)["visits"]
    rows_found = found.select("hour, page, size, often").fetchall()
    wanted = {key: values["often"] for key, values in grouped(visits, "hour", "page", "size").items()}
    assert {(moment.astimezone(UTC), page, size): often for moment, page, size, often in rows_found} == wanted
    assert any(len(often) == 2 for often in wanted.values())


def test_nothing_is_overwritten_unasked_and_a_folder_only_if_it_is_an_export(
    tables: BareTables, tmp_path: Path
) -> None:
    file, folder, other = (tmp_path / "exports" / name for name in ("x.duckdb", "x", "photos"))
    other.mkdir()
    check_target(other, "parquet", overwrite=False)  # empty
    (other / "cat.jpeg").touch()
    write(tables, file, "duckdb")
    write(tables, folder, "parquet")
    for target, form in ((file, FORMATS[0]), (folder, FORMATS[1])):
        with pytest.raises(UsageError, match="--overwrite replaces it"):
            check_target(target, form, overwrite=False)
        check_target(target, form, overwrite=True)
        write(tables, target, form, events=True)
        assert "events_clicks" in exported(target)
        write(tables, target, form)
        assert set(exported(target)) == RESULTS | {"hourline_snapshot"}, "nothing of the one before"
    for target, form, said in (
        (other, FORMATS[1], "something else than an export"),
        (folder, FORMATS[0], "is a folder"),
        (file, FORMATS[1], "is a file"),
        (tmp_path / "nowhere" / "x", FORMATS[1], "is not there"),
    ):
        with pytest.raises(UsageError, match=said):
            check_target(target, form, overwrite=True)
    (folder / "notes.txt").touch()
    with pytest.raises(UsageError, match="something else than an export"):
        check_target(folder, "parquet", overwrite=True)


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C does what it does in a terminal, also where tests run in the background, which ignores it."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


@pytest.mark.parametrize("form", FORMATS)
def test_ctrl_c_leaves_what_was_there_and_nothing_else(
    form: Format, tables: BareTables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "exports" / "x"
    write(tables, target, form)
    before = {name: rows(table) for name, table in exported(target).items()}
    monkeypatch.setattr(
        exporting,
        "_rows_sql",
        lambda view, time: "SELECT count(*) AS n FROM range(1_000_000_000_000) a WHERE range % 7 = 3",
    )

    def press() -> None:
        wait_until(lambda: any(target.parent.glob(".x-*/new*")), "it has not begun")
        os.kill(os.getpid(), signal.SIGINT)

    with interruptible(), serving_layer.connect(tables.project) as connection:
        pressing = threading.Thread(target=press)
        pressing.start()
        with pytest.raises((KeyboardInterrupt, RuntimeError)):
            export(connection, target, form, False, move=lambda done: None)
        pressing.join()
        assert connection.sql("SELECT count(*) FROM totals").fetchall() == [(4,)]
    assert {name: rows(table) for name, table in exported(target).items()} == before
    assert list(target.parent.iterdir()) == [target]


def test_a_full_disk_gets_one_sentence_and_leaves_what_was_there(tables: BareTables, tmp_path: Path) -> None:
    target = tmp_path / "exports" / "x.duckdb"
    write(tables, target, "duckdb")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with serving_layer.connect(tables.project) as connection:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
        try:
            with pytest.raises(SetupError, match="has failed, nothing was changed there") as failed:
                export(connection, target, "duckdb", False, move=lambda done: None)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert "\n" not in str(failed.value)
        assert set(exported(target)) == RESULTS | {"hourline_snapshot"}
        assert list(target.parent.iterdir()) == [target]
        export(connection, target, "duckdb", False, move=lambda done: None)  # now there is room


def test_a_folder_that_cannot_be_written_and_a_project_without_results_get_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = BareTables(tmp_path, hours=[])
    with pytest.raises(TableError, match="no results to export yet"):
        write(tables, tmp_path / "x.duckdb", "duckdb")
    tables.start()

    def refuse(**_: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(exporting, "mkdtemp", refuse)
    with pytest.raises(UsageError, match=r"x\.duckdb cannot be written: Permission denied"):
        write(tables, tmp_path / "x.duckdb", "duckdb")
