"""Rows of the quality table as audits write them, and the problems that are read from them, without any tables."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from hourline_core.ledger.layout import QUALITY_SCHEMA
from hourline_core.ledger.problems import Problems
from hourline_core.model import Project, Settings
from hourline_core.sql.hour_states import metric_hours_sql
from hourline_core.sql.problems import read_problems

START = datetime(2026, 3, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)


def row(
    hour: int, metric: str | None = "views", expectation: str = "expect_column_values_to_be_between", **fields: Any
) -> dict[str, Any]:
    """A row of the quality table; ``hour`` counts from START, and is audited by the publication after it."""
    return {
        "publication": hour + 1,
        "audited": START + (hour + 2) * HOUR,
        "source": "pages",
        "metric": metric,
        "declaration": "d",
        "hour": START + hour * HOUR,
        "cutoff": 1,
        "expectation": expectation,
        "about": "visits",
        "parameters": "{}",
        "origin": "user",
        "severity": "fail",
        "success": True,
        "rows": [],
        **fields,
    }


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=QUALITY_SCHEMA)


def problems_of(rows: list[dict[str, Any]], blocked: Collection[tuple[str, int]] = ()) -> Problems:
    """The problems of these rows, while the hours in ``blocked`` are blocked."""
    database = _database()
    database.register("rows", table_of(rows))
    marks = {(metric, START + hour * HOUR): "pages" for metric, hour in blocked}
    return read_problems(database, marks, "rows")


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """One for all examples of a property: to open it takes longer than to ask it."""
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    database.execute("CREATE SCHEMA hourline")
    database.execute(f"CREATE VIEW hourline.metric_hours AS {metric_hours_sql([])}")
    return database


def shop() -> Project:
    """A project that declares nothing."""
    return Project(Path("shop"), Settings(name="shop"), {}, {})
