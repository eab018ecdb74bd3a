"""Measures how long the morning's report takes over a year of hours with 500 problems, relative to a year with one.

    python -m benchmarks.problems

A year of 8,760 hours of four metrics with ten expectations each is kept as Parquet. Each problem is an expectation of
its own that fails in up to 48 hours. *Read* groups the findings into problems, *write* makes the overview page. Three
rounds of each; the problems and their hours are counted before a time counts.
"""

import random
import statistics
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from batch_layer.reports.overview import write_overview
from hourline_core.ledger.layout import QUALITY_SCHEMA
from hourline_core.ledger.report_pages import SHOWN
from hourline_core.model import Project, Settings
from hourline_core.model.hours import HOUR
from hourline_core.sql.hour_states import metric_hours_sql
from hourline_core.sql.problems import read_problems

FIRST = datetime(2025, 1, 1, tzinfo=UTC)
HOURS, METRICS, EXPECTATIONS = 365 * 24, 4, 10
ROUNDS = 3
Cell = tuple[str, datetime]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        (few_read, few_write), (read, write) = (measure(Path(folder), count) for count in (1, 500))
    table = Table("", "500 problems, s", "1 problem, s", "ratio")
    table.add_row("read", f"{read:.2f}", f"{few_read:.2f}", f"{read / few_read:.1f}")
    table.add_row("write", f"{write:.2f}", f"{few_write:.2f}", f"{write / few_write:.1f}")
    Console(width=120).print(table)


def measure(folder: Path, count: int) -> tuple[float, float]:
    """The median times in seconds of reading and of writing, with that number of problems."""
    failing, blocked = _fail(count)
    file = folder / f"{count}.parquet"
    pq.write_table(pa.concat_tables([_passing(), failing]), file)
    reads, writes = [], []
    for _ in range(ROUNDS):
        with duckdb.connect() as database:
            database.execute("SET TimeZone = 'UTC'; CREATE SCHEMA hourline")
            database.execute(f"CREATE VIEW hourline.metric_hours AS {metric_hours_sql([])}")
            database.execute(f"CREATE VIEW quality AS FROM '{file}'")
            start = time.perf_counter()
            problems = read_problems(database, blocked, "quality")
            reads.append(time.perf_counter() - start)
            assert len(problems.open) == count
            assert {(one.metric, one.hour) for problem in problems.open for one in problem.hours} == set(blocked)
            shown = FIRST + HOURS * HOUR - SHOWN
            rows = (
                database.execute(f"FROM quality WHERE hour > '{shown.isoformat()}'")
                .to_arrow_table()
                .cast(QUALITY_SCHEMA)
            )
            project = Project(folder, Settings(name="year"), {}, {})
            start = time.perf_counter()
            page = write_overview(folder, project, rows, problems, blocked, FIRST + HOURS * HOUR)
            writes.append(time.perf_counter() - start)
            assert f"{count} problem" in page.read_text()
    return statistics.median(reads), statistics.median(writes)


def _passing() -> pa.Table:
    """A year in which everything passes."""
    values = random.Random(1)  # noqa: S311
    rows = [
        _row(hour, f"metric{metric}", f"field{number}", observed=values.random())
        for hour in range(HOURS)
        for metric in range(METRICS)
        for number in range(EXPECTATIONS)
    ]
    return pa.Table.from_pylist(rows, QUALITY_SCHEMA)


def _fail(count: int) -> tuple[pa.Table, dict[Cell, str]]:
    """The findings of ``count`` problems, and the hours that they block."""
    chosen = random.Random(2)  # noqa: S311
    rows, blocked = [], {}
    for number in range(count):
        metric = f"metric{number % METRICS}"
        for hour in chosen.sample(range(HOURS), chosen.randint(1, 48)):
            rows.append(_row(hour, metric, f"rule{number}", success=False, unexpected=3, found="3 of 90 rows"))
            blocked[metric, FIRST + hour * HOUR] = "orders"
    return pa.Table.from_pylist(rows, QUALITY_SCHEMA), blocked


def _row(hour: int, metric: str, about: str, **fields: Any) -> dict[str, Any]:
    return {
        "publication": hour,
        "audited": FIRST + hour * HOUR + timedelta(hours=1),
        "source": "orders",
        "metric": metric,
        "hour": FIRST + hour * HOUR,
        "expectation": "expect_column_values_to_be_between",
        "about": about,
        "parameters": '{"min_value": 0}',
        "origin": "user",
        "severity": "fail",
        "success": True,
        "lower": 0.0,
        **fields,
    }


if __name__ == "__main__":
    main()
