"""Measures the memory of a recompute of hours that are large in one way or another.

    python -m benchmarks.large_hours [--full] [case …]

An hour has 5 million events (full: 50 million), and nine of ten are in one of its 100 groups. Another hour has 2
million events with ids (full: 20 million), and half of them have one id. A third has 100,000 groups (full: a million)
of ten events each. The last archive has 6.4 million events with ids in eight days (full: 64 million), of which one in
100 is repeated. The metric counts and adds up, and has a sketch of the distinct visitors and one of the most frequent
pages for each group. It was declared after the events had come, so it has no provisional tiles of them.

`hourline recompute` runs with the default settings. Memory is the proportional set size (PSS) of its process and all
descendants, read several times per second. DuckDB computes the expected answer from the generated events, not from the
archive. Counts, sums and maxima are equal. The number of distinct visitors is exact up to 4,096, and within 8 % above
(five standard errors of a sketch). The frequent pages have their true counts within the errors that the answer names,
and no page that is more frequent is left out.
"""

import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import serving_layer
from benchmarks.archive import FIRST, Numbers, archived_events, progress_row
from benchmarks.figures import Figure
from benchmarks.memory import most, started
from benchmarks.processes import hourline
from benchmarks.project_files import write_files
from benchmarks.running import run
from hourline import Project, load_project
from hourline_core.compute.aggregation import plan_native_aggregation
from hourline_core.ledger.layout import TIMESTAMP, Layout
from hourline_core.model.hours import HOUR, hour_text
from speed_layer.commit.maintenance import MICRO_BATCHES, maintain_source
from speed_layer.commit.source_tables import open_source_tables

BATCH = 400_000
"""The number of events of a micro-batch."""
GOAL_MB = 3000
FILES = {
    "hourline.yaml": "name: large\n",
    "metrics/usage.yaml": "source: views\ndimensions: [area]\nmeasures: {number: count, seconds: sum(lasted), "
    "longest: max(lasted), visitors: distinct(visitor), pages: 'top(page, 5)'}\n",
}
SOURCE = (
    "topic: views\nfields: {view: long, area: long, lasted: int, visitor: long, page: long, at: long}\n"
    "event_time: {expression: at, encoding: epoch_seconds}\n"
)
FIELDS = pa.schema(
    {
        name: pa.int32() if name == "lasted" else pa.int64()
        for name in ("view", "area", "lasted", "visitor", "page", "at")
    }
)


@dataclass(frozen=True)
class Case:
    """An archive of this number of ``hours``, with ``per_hour`` events each."""

    what: str
    per_hour: int
    hours: int = 1
    groups: int = 100
    most_in_one: bool = False
    """Whether nine of ten events are in one group."""
    identify: Callable[[Numbers], Numbers] | None = None
    """The ids of the events with these numbers within their hour: their numbers, or those of earlier ones. None: no
    event has an id.
    """


def measure(full: bool, named: Collection[str] = ()) -> Iterator[Figure | str]:
    for name, case in cases(full).items():
        if name in named or not named:
            with tempfile.TemporaryDirectory() as folder:
                what = case.what.format(events=case.per_hour * case.hours, groups=case.groups)
                highest = recompute(Path(folder), case)
                yield Figure(what=f"a recompute of {what}", unit="MB", ours=[highest], peer=[], goal=GOAL_MB)


def cases(full: bool) -> dict[str, Case]:
    """By name, what is measured."""
    of = 1 if full else 10
    return {
        "group": Case("an hour of {events:,} events, nine of ten in one group", 50_000_000 // of, most_in_one=True),
        "id": Case(
            "an hour of {events:,} events, half of them with one id",
            20_000_000 // of,
            identify=lambda numbers: np.where(numbers % 2 == 0, 0, numbers),
        ),
        "groups": Case("an hour of {events:,} events in {groups:,} groups", 10_000_000 // of, groups=1_000_000 // of),
        "ids": Case(
            "eight days of {events:,} events with ids",
            64_000_000 // of // 192,
            hours=192,
            identify=lambda numbers: numbers - 5 * (numbers % 100 == 7),
        ),
    }


def recompute(folder: Path, case: Case) -> float:
    """The highest memory in MB. Raises AssertionError when the answer is wrong."""
    identity = "id: view\n" if case.identify else ""
    project = load_project(write_files(folder / "project", {**FILES, "sources/views.yaml": SOURCE + identity}))
    generated = folder / "generated.parquet"
    write(project, case, generated)
    span = ("--from", hour_text(FIRST), "--to", hour_text(FIRST + case.hours * HOUR))
    with started(hourline(project.root, "recompute", *span, "--include-open")) as process, most(process.pid) as looked:
        assert process.wait() == 0, "the recompute has failed"
    with serving_layer.connect(project) as connection:
        answer = connection.sql("SELECT * FROM usage_final").to_arrow_table()
    check(answer, generated)
    return max(looked)


def write(project: Project, case: Case, generated: Path) -> None:
    """Archive the events of ``case``, and write those that count to the file ``generated``, too."""
    layout, source = Layout.of(project), project.sources["views"]
    source_tables, total = open_source_tables(layout, source, FIELDS, []), case.per_hour * case.hours
    with pq.ParquetWriter(generated, pa.schema([*FIELDS, ("hour", TIMESTAMP)])) as counted:
        for sequence, first in enumerate(range(0, total, BATCH), 1):
            numbers = np.arange(first, min(first + BATCH, total))
            fields = draw(case, numbers)
            repeated = fields["view"] != numbers
            rows = archived_events("views", numbers, fields["at"], repeated, fields)
            source_tables.append(source_tables.events, source_tables.events_schema, rows, sequence)
            first_ones = rows.filter(pc.invert(rows["duplicate"])).select(counted.schema.names).cast(counted.schema)
            counted.write_table(first_ones)
            hours = {of["values"]: of["counts"] for of in pc.value_counts(first_ones["hour"]).to_pylist()}
            source_tables.finish(progress_row(source_tables, sequence, first, int(repeated.sum()), hours))
            if sequence % MICRO_BATCHES == 0:
                maintain_source(project, source_tables)
    # The metric is new.
    plan = plan_native_aggregation(source, project.metrics["usage"])
    assert plan, "DuckDB evaluates all expressions"
    maintain_source(project, open_source_tables(layout, source, FIELDS, [plan]))


def draw(case: Case, numbers: Numbers) -> dict[str, Numbers]:
    """By field, the values of the events with these ``numbers``."""
    random, count, within = np.random.default_rng(numbers[0]), len(numbers), numbers % case.per_hour
    areas = numbers % case.groups
    return {
        "view": case.identify(within) + numbers - within if case.identify else numbers,
        "area": np.where(random.random(count) < 0.9, 0, areas) if case.most_in_one else areas,
        "lasted": random.integers(1, 1000, count, np.int32),
        "visitor": random.integers(0, case.per_hour, count),
        "page": np.minimum(random.zipf(1.3, count), 1_000_000),
        "at": numbers * 3600 // case.per_hour + int(FIRST.timestamp()),
    }


def check(answer: pa.Table, generated: Path) -> None:
    """Raise AssertionError unless ``answer`` is that of the ``generated`` events."""
    with duckdb.connect(config={"memory_limit": "4GB", "temp_directory": str(generated.with_name("spilled"))}) as plain:
        plain.register("answer", answer)
        plain.read_parquet(str(generated)).create_view("events")
        ((wrong,),) = plain.execute(
            "SELECT count(*) FROM answer FULL JOIN (SELECT hour, area, count(*) AS n, sum(lasted) AS total, "
            "max(lasted) AS most, count(DISTINCT visitor) AS people FROM events GROUP BY ALL) USING (hour, area) "
            "WHERE (number, seconds, longest) IS DISTINCT FROM (n, total, most) "
            "OR abs(visitors - people) > CASE WHEN people > 4096 THEN 0.08 * people ELSE 0 END"
        ).fetchall()
        assert not wrong, f"{wrong} groups have another number, sum or maximum, or are wrong about their visitors"
        ((wrong,),) = plain.execute(
            "WITH frequent AS (SELECT hour, area, page, count(*) AS n FROM events GROUP BY ALL), "
            "listed AS (SELECT hour, area, unnest(pages) AS found FROM answer) "
            "SELECT count(*) FROM frequent JOIN answer USING (hour, area) LEFT JOIN listed "
            "ON (frequent.hour, frequent.area, page) = (listed.hour, listed.area, found.value::BIGINT) "
            "WHERE CASE WHEN found IS NULL THEN n > pages[len(pages)].count + pages[len(pages)].error "
            "AND len(pages) = 5 ELSE n NOT BETWEEN found.count AND found.count + found.error END"
        ).fetchall()
        assert not wrong, f"{wrong} pages have another count, or are left out"


if __name__ == "__main__":
    run("large_hours", measure, cases(full=False))
