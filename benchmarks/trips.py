"""The project for benchmarks of the batch layer: trips of 500 hours, imported from a file."""

import json
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb

import serving_layer
from benchmarks.project_files import write_files
from hourline import Project, load_project
from hourline_core.model.hours import HOUR

HOURS = 500
FIRST = datetime(2024, 3, 1, tzinfo=UTC)

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


def imported(folder: Path, events: int) -> tuple[Project, Path]:
    """The project in ``folder``, with ``events`` an hour imported and nothing recomputed, and the file that they came
    from.
    """
    root = write_files(folder / "project", FILES)
    file = folder / "trips.jsonl"
    _fill(file, events)
    command = [
        sys.executable,
        "-m",
        "hourline",
        "import",
        str(file),
        "--source",
        "trips",
        "--no-backfill",
        "--project",
        str(root),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return load_project(root), file


def check(project: Project, file: Path) -> None:
    """Check that every cell of the metric takings equals DuckDB's over the file."""
    hour = "date_trunc('hour', \"at\"::TIMESTAMPTZ)"
    expected = duckdb.sql(
        f"SELECT {hour} h, city, count(*), max(price) FROM '{file}' GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    with serving_layer.connect(project) as connection:
        got = connection.sql(
            f"SELECT hour, city, trips, dearest FROM takings WHERE hour < '{FIRST + (HOURS - 1) * HOUR}' ORDER BY ALL"
        ).fetchall()
    expected = [row for row in expected if row[0] < FIRST + (HOURS - 1) * HOUR]
    assert got == expected, "the answers are wrong"


def _fill(file: Path, events: int) -> None:
    rand = random.Random(1)  # noqa: S311 (the same numbers each time)
    with file.open("w") as lines:
        for number in range(events * HOURS):
            at = FIRST + timedelta(hours=number % HOURS, seconds=rand.randrange(3600))
            event = {
                "trip": f"t{number}",
                "city": f"c{rand.randrange(10)}",
                "price": rand.uniform(1, 90),
                "at": f"{at:%Y-%m-%dT%H:%M:%SZ}",
            }
            lines.write(f"{json.dumps(event)}\n")
