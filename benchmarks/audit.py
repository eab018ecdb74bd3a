"""What the audit and its reports cost beside the recompute itself, and whether a run costs more when there is more history.

    python -m benchmarks.audit [EVENTS_PER_HOUR]

Events of 500 hours are imported. One hour is recomputed when 3 hours have been audited and again when 500 have, both in one process and three times
each; between the two the other hours are recomputed, a week in one job. Times are of the wall, ratios within one job. The answers are checked
against DuckDB over the file before a time counts.
"""

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
from rich.console import Console
from rich.table import Table

import serving_layer
from batch_layer import job
from batch_layer.audit.auditing import Audit
from batch_layer.plan import Wanted, plan_range
from hourline.declarations import Project, load_project
from hourline.hours import HOUR, HourRange, wall_clock
from infra.spark import spark_session

HOURS = 500
FIRST = datetime(2024, 3, 1, tzinfo=UTC)
ROUNDS = 3

FILES = {
    "hourline.yaml": "name: audited\n",
    "sources/trips.yaml": """\
topic: trips
fields: {trip: string, city: {type: string, required: true}, price: double, at: string}
event_time: at
id: trip
expectations:
  - expect_column_values_to_be_in_set: {column: city, value_set: [c0, c1, c2, c3, c4, c5, c6, c7, c8, c9]}
""",
    "metrics/takings.yaml": """\
source: trips
dimensions: [city]
measures: {trips: count, takings: sum(price), mean_price: mean(price), dearest: max(price)}
expectations:
  - expect_column_values_to_be_between: {column: mean_price, min_value: 0, max_value: 1000}
  - expect_column_sum_to_be_between: {column: trips, min_value: 1}
""",
    "metrics/cities.yaml": "source: trips\nmeasures: {trips: count, cities: distinct(city)}\n",
}


def main(events: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        for name, text in FILES.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        file = Path(folder) / "trips.jsonl"
        fill(file, events)
        imported = [sys.executable, "-m", "hourline", "import", str(file), "--source", "trips", "--no-backfill", "--project", str(root)]
        subprocess.run(imported, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        project = load_project(root)
        rows = measure(project)
        check(project, file)
    table = Table("audited before", "hours in the job", "recompute s", "audit s", "reports s", "audit + reports / recompute")
    for row in rows:
        table.add_row(*row)
    Console(width=120).print(table)


def fill(file: Path, events: int) -> None:
    rand = random.Random(1)  # noqa: S311 (the same numbers each time)
    with file.open("w") as lines:
        for number in range(events * HOURS):
            at = FIRST + timedelta(hours=number % HOURS, seconds=rand.randrange(3600))
            event = {"trip": f"t{number}", "city": f"c{rand.randrange(10)}", "price": rand.uniform(1, 90), "at": f"{at:%Y-%m-%dT%H:%M:%SZ}"}
            lines.write(f"{json.dumps(event)}\n")


def measure(project: Project) -> list[list[str]]:
    spark = spark_session(project, "batch")
    try:
        run(spark, project, 2, 1)  # compiles
        rows = [["3", "1", *run(spark, project, 1, 1)]]
        run(spark, project, 0, 2)
        for first in range(3, HOURS - 1, 168):
            rows.append([str(first), str(min(168, HOURS - 1 - first)), *run(spark, project, first, min(168, HOURS - 1 - first))])
        rows.append([str(HOURS), "1", *run(spark, project, 1, 1)])
        return rows
    finally:
        spark.stop()


def run(spark: Any, project: Project, first: int, hours: int) -> list[str]:
    """Recompute ``hours`` from the ``first`` on; a short job as often as ROUNDS says, by its median."""
    taken = [one_run(spark, project, first, hours) for _ in range(ROUNDS if hours == 1 else 1)]
    whole, audit, reports = (statistics.median(column) for column in zip(*taken, strict=True))
    recompute = whole - audit - reports
    return [f"{recompute:.2f}", f"{audit:.2f}", f"{reports:.2f}", f"{(audit + reports) / recompute:.2f}"]


def one_run(spark: Any, project: Project, first: int, hours: int) -> tuple[float, float, float]:
    start = FIRST + first * HOUR
    wanted: list[Wanted] = plan_range(project, HourRange(start, start + hours * HOUR))
    spent: dict[str, float] = {"audit": 0.0, "reports": 0.0}
    with timed(spent, "audit", Audit, "of"), timed(spent, "reports", job, "write_pages"), timed(spent, "reports", job, "renew_overview"):
        began = time.monotonic()
        done = job.run_job(spark, project, wanted, wall_clock)
        whole = time.monotonic() - began
    assert not done.blocked, done.blocked
    return whole, spent["audit"], spent["reports"]


@contextmanager
def timed(spent: dict[str, float], what: str, owner: object, name: str) -> Iterator[None]:
    original: Callable[..., Any] = getattr(owner, name)

    def measured(*arguments: Any) -> Any:
        began = time.monotonic()
        try:
            return original(*arguments)
        finally:
            spent[what] += time.monotonic() - began

    with patch.object(owner, name, measured):
        yield


def check(project: Project, file: Path) -> None:
    """Every cell of the metric takings is what DuckDB makes of the file."""
    hour = "date_trunc('hour', \"at\"::TIMESTAMPTZ)"
    expected = duckdb.sql(f"SELECT {hour} h, city, count(*), max(price) FROM '{file}' GROUP BY ALL ORDER BY ALL").fetchall()
    with serving_layer.connect(project) as connection:
        got = connection.sql(f"SELECT hour, city, trips, dearest FROM takings WHERE hour < '{FIRST + (HOURS - 1) * HOUR}' ORDER BY ALL").fetchall()
    expected = [row for row in expected if row[0] < FIRST + (HOURS - 1) * HOUR]
    assert got == expected, "the answers are wrong"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
