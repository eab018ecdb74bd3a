"""Filters reach the files that hold the tables, and results leave in the types that people compute with."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import serving_layer
from batch_layer.aggregate import MetricTiles
from batch_layer.maintenance import Maintenance
from batch_layer.publication import MetricPublication, Publication
from batch_layer.stage import stage_metric
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.ledger.layout import QUALITY_SCHEMA, TIMESTAMP, Layout
from hourline_core.ledger.progress_rows import HourEvents, ProgressRow, RecordCounts
from hourline_core.model import EventTime, Field, Measure, Metric, Project, Settings, Source
from hourline_core.model.hours import sql_timestamp
from serving_layer import Connection
from speed_layer.commit.source_tables import open_source_tables

BASE = datetime(2024, 3, 1, tzinfo=UTC)
DAYS = 240
AT_ONCE = 20
"""So many days are published at once, each time into a file of its own."""
SHOPS = [f"shop {number:02}" for number in range(12)]
SOURCE = Source(
    name="sales",
    topic="sales",
    fields={"shop": Field(type="string"), "tags": Field(type="array<string>"), "price": Field(type="decimal(10,2)")},
    event_time=EventTime(expression="at"),
)
METRIC = Metric(
    name="turnover",
    source="sales",
    dimensions={"shop": "shop", "tags": "tags"},
    measures={
        "n": Measure(kind="count"),
        "total": Measure(kind="sum", argument="price"),
        "average": Measure(kind="mean", argument="price"),
    },
)
STATES = {
    "n": pa.int64(),
    "total": pa.decimal128(20, 2),
    "average__n": pa.int64(),
    "average__total": pa.decimal128(20, 2),
}
TILE_SCHEMA = pa.schema({"hour": TIMESTAMP, "shop": pa.string(), "tags": pa.list_(pa.string()), **STATES})
TILING = AggregationPlan(SOURCE, METRIC, TILE_SCHEMA)
ONE_DAY = "FROM turnover WHERE hour >= '2024-06-03 00:00:00Z' AND hour < '2024-06-04 00:00:00Z'"


def tiles(hours: list[datetime]) -> pa.Table:
    """Two sales in each shop and hour, for some amount."""
    shops = SHOPS * len(hours)
    rows = range(len(shops))
    amounts, counts = [Decimal(7919 * row % 1_000_003) / 100 + 1 for row in rows], [2 for _ in rows]
    columns = [
        [hour for hour in hours for _ in SHOPS],
        shops,
        [["a", shop] for shop in shops],
        counts,
        amounts,
        counts,
        amounts,
    ]
    return pa.table(
        [pa.array(values, kind) for values, kind in zip(columns, TILE_SCHEMA.types, strict=True)], TILE_SCHEMA
    )


def days(first: int, end: int) -> list[datetime]:
    return [BASE + timedelta(hours=number) for number in range(24 * first, 24 * end)]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """All days but the last are final."""
    project = Project(tmp_path_factory.mktemp("sales"), Settings(), {"sales": SOURCE}, {"turnover": METRIC})
    source_tables = open_source_tables(Layout.of(project), SOURCE, pa.schema({"shop": pa.string()}), [TILING])
    hours = days(0, DAYS)
    source_tables.append(
        source_tables.provisional[TILING.name], source_tables.provisional_schemas[TILING.name], tiles(hours), 1
    )
    counts = tuple(HourEvents(hour, 2 * len(SHOPS), late=0) for hour in hours)
    row = ProgressRow(
        1, "topic-id", "sales", (), RecordCounts(), counts, source_tables.written_metrics(), hours[-1], BASE, BASE
    )
    source_tables.finish(row)
    for first in range(0, DAYS, AT_ONCE):
        published = days(first, min(first + AT_ONCE, DAYS - 1))
        publication = Publication(project)
        staged = stage_metric(project, MetricTiles(TILING, published, 1, tiles(published)))
        publication.publish([MetricPublication(staged)], QUALITY_SCHEMA.empty_table(), BASE)
    return project


@pytest.fixture
def connection(project: Project) -> Iterator[Connection]:
    with serving_layer.connect(project) as connection:
        yield connection


def scans(connection: Connection, query: str) -> dict[str, list[dict[str, Any]]]:
    """What EXPLAIN ANALYZE tells of each scan: of the files of final, and of the rows of others that are kept in
    memory, by kind of table.
    """
    ((_, text),) = connection.database.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}").fetchall()
    found: dict[str, list[dict[str, Any]]] = {}

    def visit(node: dict[str, Any]) -> None:
        told = node.get("extra_info", {})
        kind = (
            "final"
            if told.get("Function") == "READ_PARQUET"
            else told.get("Table", "").removeprefix("memory.hourline.").partition("_")[0]
        )
        found.setdefault(kind, []).append(
            {"filters": str(told.get("Filters", "")), "rows": node.get("operator_cardinality")}
        )
        for child in node.get("children", []):
            visit(child)

    visit(json.loads(text))
    return found


def bytes_read(connection: Connection, query: str) -> dict[str, int]:
    """How much of each file of final the query reads."""
    database = connection.database
    database.execute("CALL truncate_duckdb_logs()")
    database.execute("CALL enable_logging('FileSystem')")
    database.execute(query).fetchall()
    database.execute("CALL disable_logging()")
    reads = "duckdb_logs_parsed('FileSystem') WHERE op = 'READ' AND contains(path, '/final/') AND path LIKE '%.parquet'"
    return dict(database.execute(f"SELECT path, sum(bytes)::BIGINT FROM {reads} GROUP BY path").fetchall())


def test_a_range_of_hours_and_a_dimension_reach_the_scan_of_final(connection: Connection) -> None:
    found = scans(connection, f"{ONE_DAY} AND shop = 'shop 07'")
    filtered = [scan["filters"] for scan in found["final"] if "shop" in scan["filters"]]
    parts = ("hour>='2024-06-03 00:00:00+00'", "hour<'2024-06-04 00:00:00+00'", "shop='shop 07'")
    assert filtered
    assert all(part in filters for filters in filtered for part in parts)
    assert max(scan["rows"] for scan in found["final"]) == 24, "no row of another hour or shop leaves the scan"


def test_hours_that_are_not_final_are_merged_once_and_only_read_when_they_are_asked_for(connection: Connection) -> None:
    assert "merged" not in scans(connection, ONE_DAY)
    last = scans(connection, f"FROM turnover WHERE hour >= '{sql_timestamp(days(DAYS - 1, DAYS)[0])}'")
    assert [scan["rows"] for scan in last["merged"]] == [24 * len(SHOPS)]
    assert "provisional" not in last


def test_of_files_that_lie_outside_of_the_range_only_the_ends_are_read(connection: Connection) -> None:
    day, everything = bytes_read(connection, ONE_DAY), bytes_read(connection, "FROM turnover")
    assert 1 < len(everything) < DAYS / AT_ONCE, "small files are merged when they are published"
    (most, *others) = sorted((day[path] / everything[path] for path in day), reverse=True)
    assert most > 0
    assert max(others, default=0) < 0.2


def test_of_one_large_file_only_the_rows_around_the_range_are_read(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("batch_layer.maintenance.SAVED_FILES", 1)  # so that the few files that are left become one
    list(Maintenance(project).run())
    with serving_layer.connect(project) as connection:
        (day,), (everything,) = (
            bytes_read(connection, ONE_DAY).values(),
            bytes_read(connection, "FROM turnover").values(),
        )
    assert day < 0.3 * everything


TYPED = "SELECT hour, shop, tags, n, total, average, state FROM turnover ORDER BY hour, shop LIMIT 2"


def test_results_as_arrow(connection: Connection) -> None:
    table = connection.sql(TYPED).to_arrow_table()
    kinds = [
        TIMESTAMP,
        pa.string(),
        pa.list_(pa.field("l", pa.string())),
        pa.int64(),
        pa.decimal128(38, 2),
        pa.float64(),
        pa.string(),
    ]
    assert table.schema.types == kinds
    first = {
        "hour": BASE,
        "shop": SHOPS[0],
        "tags": ["a", SHOPS[0]],
        "n": 2,
        "total": Decimal("1.00"),
        "average": 0.5,
        "state": "final",
    }
    assert table.to_pylist()[0] == first


def test_results_as_pandas(connection: Connection) -> None:
    frame = connection.sql(TYPED).df()
    assert frame.dtypes["hour"] == pd.DatetimeTZDtype("us", "UTC")
    assert [frame.dtypes[name] for name in ("n", "total", "average")] == [
        np.dtype("int64"),
        np.dtype("float64"),
        np.dtype("float64"),
    ]
    assert frame["hour"][0] == pd.Timestamp(BASE)
    assert list(frame["tags"][1]) == ["a", SHOPS[1]]
    assert frame["total"].tolist() == [1.0, 80.19]


def test_results_as_polars(connection: Connection) -> None:
    pl = pytest.importorskip("polars", reason="polars is not among the project's packages; it is its user's")
    frame = connection.sql(TYPED).pl()
    kinds = [
        pl.Datetime("us", "UTC"),
        pl.String,
        pl.List(pl.String),
        pl.Int64,
        pl.Decimal(38, 2),
        pl.Float64,
        pl.String,
    ]
    assert frame.dtypes == kinds
    assert frame.row(0) == (BASE, SHOPS[0], ["a", SHOPS[0]], 2, Decimal("1.00"), 0.5, "final")
