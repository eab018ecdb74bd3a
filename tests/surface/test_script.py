"""The script of `hourline sql` in a plain DuckDB, which has nothing of Hourline's: each view is what
`serving_layer.connect` gives.
"""

import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_delta
import pyarrow as pa
import pytest
from datasketches import update_theta_sketch

import serving_layer
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.model import Measure, Metric, Settings
from serving_layer.script import script
from tests.support import bare_tables
from tests.support.bare_tables import SOURCE, BareTables, hour

VISITS = Metric(
    name="visits",
    source="clicks",
    dimensions={},
    measures={
        "people": Measure(kind="distinct", argument="n"),
        "n": Measure(kind="sum", argument="n"),
        "visits_of_each": Measure(kind="ratio", argument="n, people"),
        "same": Measure(kind="ratio", argument="n, n"),
    },
)
PEOPLE = Metric(
    name="people", source="clicks", dimensions={}, measures={"people": Measure(kind="distinct", argument="n")}
)


@pytest.fixture
def tables(tmp_path: Path) -> BareTables:
    """Hours that are final, revised, provisional and blocked."""
    tables = BareTables(tmp_path / "o'clock", hours=[0, 1, 2, 3, 1, 2, 4, 1])
    tables.start()
    tables.micro_batch(4)
    tables.publish(0, 1, 2)
    tables.micro_batch(2)
    tables.publish(2, 3, blocked=[3])
    tables.micro_batch(2)
    return tables


def plain_duckdb(statements: str) -> duckdb.DuckDBPyConnection:
    """As the command line does it, but for where the extension comes from."""
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true", "autoinstall_known_extensions": "false"})
    folder = Path(duckdb_extension_delta.__file__).parent
    extension = next(folder.glob(f"extensions/v{duckdb.__version__}/delta.duckdb_extension"))
    install, load = "INSTALL delta;\n", "LOAD delta;\n"
    assert install + load in statements
    connection.execute(statements.replace(install, "").replace(load, f"LOAD '{extension}';\n"))
    return connection


def test_without_a_network_the_extension_is_the_installed_one(tables: BareTables, tmp_path: Path) -> None:
    with serving_layer.connect(tables.project) as connection:
        statements = script(connection)
    [install] = re.findall(r"^--   (INSTALL '.*';)$", statements, re.MULTILINE)
    offline: dict[str, Any] = {
        "extension_directory": str(tmp_path / "extensions"),
        "custom_extension_repository": "http://127.0.0.1:1",
    }
    with duckdb.connect(config=offline) as plain, pytest.raises(duckdb.IOException):
        plain.execute(statements)
    with duckdb.connect(config=offline) as plain:
        plain.execute(install)
        plain.execute(statements)
        assert plain.execute("SELECT count(*) FROM totals").fetchone()


def views(connection: duckdb.DuckDBPyConnection) -> set[str]:
    rows = connection.execute(
        "SELECT view_name FROM duckdb_views() WHERE schema_name = 'main' AND NOT internal"
    ).fetchall()
    return {name for (name,) in rows}


def contents(
    connection: duckdb.DuckDBPyConnection, view: str, without: Collection[str] = ()
) -> list[tuple[object, ...]]:
    """Names and types of the columns, then the rows in an order of their own."""
    rows = connection.sql(f'FROM "{view}"')
    columns = [name for name in rows.columns if name not in without]
    rows = rows.select(*(f'"{name}"' for name in columns))
    return [tuple(rows.columns), tuple(map(str, rows.types)), *sorted(rows.fetchall(), key=repr)]


def test_every_view_of_the_script_is_what_connect_gives(tables: BareTables) -> None:
    with serving_layer.connect(tables.project) as connection:
        printed = script(connection)
        tables.publish(3)  # meanwhile, which neither sees
        plain = plain_duckdb(printed)
        assert (
            views(plain)
            == views(connection.database)
            >= {"totals", "totals_states", "totals_staged", "hours", "events_clicks", "late_events"}
        )
        for view in views(plain):
            assert contents(plain, view) == contents(connection.database, view), view
        found = dict(plain.execute("SELECT hour, state FROM totals").fetchall())
    assert found == {hour(0): "final", hour(1): "revised", hour(2): "final", hour(3): "blocked", hour(4): "provisional"}
    assert plain.execute("SELECT count(*) FROM totals_staged").fetchone() == (1,)
    assert plain.execute("SELECT count(DISTINCT publication), max(publication) FROM publications").fetchone() == (
        2,
        2,
    ), "not the third"
    assert "publication 2; clicks up to sequence 3" in printed


@pytest.mark.parametrize("started", [False, True])
def test_before_the_first_publication_or_event_the_views_are_there_and_empty(started: bool, tmp_path: Path) -> None:
    tables = BareTables(tmp_path, hours=[])
    if started:
        tables.start()
    with serving_layer.connect(tables.project) as connection:
        plain = plain_duckdb(script(connection))
        assert views(plain) == views(connection.database)
        assert ("totals" in views(plain)) == started
        for view in views(plain):
            assert contents(plain, view) == contents(connection.database, view)
            assert len(contents(plain, view)) == 2


def test_what_needs_sketches_is_left_out_and_a_comment_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = bare_tables.TILE_SCHEMA.append(pa.field("people", pa.binary()))
    monkeypatch.setattr(bare_tables, "METRICS", {"visits": VISITS, "people": PEOPLE})
    monkeypatch.setattr(
        bare_tables,
        "TILINGS",
        [AggregationPlan(SOURCE, VISITS, schema), AggregationPlan(SOURCE, PEOPLE, schema)],
    )
    monkeypatch.setattr(bare_tables, "tiles", sketched_tiles)
    tables = BareTables(tmp_path, hours=[0, 1, 1, 0, 1])
    tables.start()
    tables.micro_batch(3)
    tables.publish(0, 1, metrics=("visits", "people"))
    tables.micro_batch(2)
    with serving_layer.connect(tables.project) as connection:
        assert connection.sql("SELECT n, people FROM visits ORDER BY hour").fetchall() == [(2, 2), (3, 3)]
        printed = script(connection)
        plain = plain_duckdb(printed)
        assert views(connection.database) - views(plain) == {
            "people",
            "people_states",
            "people_final",
            "people_provisional",
            "people_staged",
        }
        for view in views(plain):
            without = ["people", "visits_of_each"] if view.startswith("visits") else []
            assert contents(plain, view) == contents(connection.database, view, without), view
    assert "-- visits is without people, visits_of_each: " in printed
    assert "-- people is without people: " in printed


def sketched_tiles(metric: str, events: list[int]) -> pa.Table:
    """An event is somebody of its own, since it is the n-th of its hour in a micro-batch of some size."""
    plain = {number: events.count(number) for number in set(events)}
    rows = []
    for number, count in plain.items():
        sketch = update_theta_sketch(12)
        for person in range(count):
            sketch.update(f"{number} {len(events)} {person}")
        rows.append({"hour": hour(number), "n": count, "people": bytes(sketch.compact().serialize())})
    return pa.Table.from_pylist(rows, bare_tables.TILE_SCHEMA.append(pa.field("people", pa.binary())))


def test_secrets_never_appear_but_what_to_set_does(tables: BareTables) -> None:
    with serving_layer.connect(tables.project) as connection:
        assert "SECRET" not in script(connection)
        options = {"aws_access_key_id": "AKIA-hidden", "aws_secret_access_key": "hidden-too"}
        settings = Settings(tables="s3://bucket/shop", storage_options=options)
        connection.project = replace(tables.project, settings=settings)
        printed = script(connection)
    assert "hidden" not in printed
    assert "CREATE SECRET (TYPE s3, …, SCOPE 's3://bucket/shop')" in printed
    assert "aws_access_key_id, aws_secret_access_key" in printed
