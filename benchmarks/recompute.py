"""Measures a recompute with its audit and publication, compared with plain DuckDB and delta-rs, and with bare Spark.

    python -m benchmarks.recompute [--full]

A day of events (2 million, full: 8 million; 50 million would take too long) is recomputed into one metric: count, sum
and maximum for each of 100 shops. Hourline runs its own job in one warm Spark session: it takes a cutoff, counts the
events of all hours, stages, audits with Great Expectations, computes the drift, writes its reports and publishes. The
notes list the times of these parts.

One peer is a script of a few lines in one process. DuckDB reads the data files of the same Delta table, which is faster
than its Delta extension, takes the same hours up to the same cutoff, and groups. delta-rs replaces these hours in a
table with the same columns. The script neither audits nor keeps the earlier results. The other peer is bare Spark in
the same warm session: it reads the same files as Parquet, which is faster than Delta's connector, takes the same hours
up to the same cutoff, groups, and collects the rows. It stores nothing.

All run once unmeasured, and then in turn. The events of one day have no id, so no subject looks for duplicates. The
events of another day have one, one in 100 is repeated, and all count the first of each id and hour. Of a third day, the
dimension and the sum are expressions that Hourline leaves to Spark, and bare Spark evaluates the same. The last archive
has eight days without ids (500,000 events each, full: 8 million), which one job recomputes. Events per second are by
wall time, and by the CPU time of Python and Java together.

Then one hour of 500 events is recomputed, in the middle of an archive of a year that is all published, and in an
archive of a day. The speed layer's maintenance has pruned the provisional tiles of both. Every result is compared with
Arrow's sums over the generated events before a time counts.
"""

import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from batch_layer import publish
from batch_layer import recompute as recompute_layer
from batch_layer.audit import run_audit
from batch_layer.plan import plan_range
from batch_layer.publication import Publication
from batch_layer.reports import follow
from benchmarks.archive import AMOUNT, FIRST, ROWS, SHOP, TILES, Archive
from benchmarks.audit import run_one_job, timed
from benchmarks.figures import Figure
from benchmarks.processes import Cost, cpu_seconds
from benchmarks.running import run
from hourline_core.ledger.coverage import Coverage
from hourline_core.ledger.layout import Layout
from hourline_core.model.hours import HOUR, HourRange, sql_timestamp
from hourline_core.runtime.spark import spark_session
from hourline_core.storage.opening import open_table

DAY = {False: 2_000_000, True: 8_000_000}
"""The number of events of the one day."""
OF_EIGHT = {False: 500_000, True: 8_000_000}
"""That of each of eight days."""
SCRIPT, BARE_SPARK = "DuckDB and delta-rs", "bare Spark"
WALL, CPU = "events/s", "events/CPU s"
ROUNDS = {False: 2, True: 3}
HOUR_EVENTS = 500
YEAR = 365 * 24

Spent = defaultdict[str, float]
"""Seconds by part of a job."""

PARTS: list[tuple[str, object, str]] = [
    ("aggregation", recompute_layer, "aggregate"),
    ("staging", recompute_layer, "stage"),
    ("audit", run_audit, "audit"),
    ("drift", publish, "measure_drift"),
    ("reports", follow, "follow"),
    ("publication", Publication, "publish"),
]


@dataclass(frozen=True)
class Days:
    """The recompute of whole days, with its goal beside each peer."""

    what: str
    archive: Archive
    goals: Mapping[str, tuple[str, float]]
    """By peer, the unit that has a goal."""


def measure(full: bool) -> Iterator[Figure | str]:
    with tempfile.TemporaryDirectory() as of:
        folder, hourly = Path(of), DAY[full] // 24
        one_day = f"a day of {24 * hourly:,} events"
        days = [
            Days(
                f"{one_day} without ids",
                written(Archive(folder / "day"), 24, hourly),
                {SCRIPT: (WALL, 0.2), BARE_SPARK: (WALL, 1.0)},
            ),
            Days(
                f"{one_day} with ids",
                written(Archive(folder / "day-with-ids", with_id=True), 24, hourly),
                {SCRIPT: (WALL, 0.8), BARE_SPARK: (WALL, 1.9)},
            ),
            Days(
                f"{one_day} with expressions of Spark",
                written(Archive(folder / "day-with-expressions", with_expressions=True), 24, hourly),
                {BARE_SPARK: (WALL, 0.9)},
            ),
            Days(
                f"eight days of {OF_EIGHT[full]:,} events without ids",
                written(Archive(folder / "eight-days"), 8 * 24, OF_EIGHT[full] // 24),
                {SCRIPT: (CPU, 0.4), BARE_SPARK: (WALL, 2.0)},
            ),
        ]
        spark = spark_session(days[0].archive.project, "batch")
        try:
            for recomputed in days:
                yield from of_days(spark, recomputed, ROUNDS[full])
            yield from one_hour(spark, folder, ROUNDS[full] + 2)
        finally:
            spark.stop()


def of_days(spark: SparkSession, days: Days, rounds: int) -> Iterator[Figure | str]:
    """Recompute all hours of ``days`` in one job, and compare with the peers."""
    spent: Spent = defaultdict(float)
    archive = days.archive
    peers: dict[str, Callable[[Archive], Cost]] = {SCRIPT: by_script, BARE_SPARK: partial(by_spark, spark)}
    ours: list[Cost] = []
    of_peers: dict[str, list[Cost]] = {name: [] for name in days.goals}
    for number in range(rounds + 1):
        if number == 1:  # the first is not measured
            spent.clear()
        ours.append(recompute(spark, archive, 0, archive.hours, spent))
        for name, costs in of_peers.items():
            costs.append(peers[name](archive))
    events, ours = archive.hours * archive.per_hour, ours[1:]
    for name, costs in of_peers.items():
        for unit, of in ((WALL, attrgetter("wall")), (CPU, attrgetter("cpu"))):
            values = [[events / of(cost) for cost in some] for some in (ours, costs[1:])]
            with_goal, goal = days.goals[name]
            yield Figure(
                what=f"{days.what} recomputed, warm, to {name}",
                unit=unit,
                ours=values[0],
                peer=values[1],
                goal=goal if unit == with_goal else None,
                at_least=True,
            )
    whole = sum(cost.wall for cost in ours)
    spent["the rest"] = whole - sum(spent.values())
    parts = ", ".join(f"{part} {seconds / whole:.0%}" for part, seconds in spent.items())
    yield f"Of the {whole / rounds:.1f} s of ours, {days.what}: {parts}"


def one_hour(spark: SparkSession, folder: Path, rounds: int) -> Iterator[Figure | str]:
    """Recompute an hour in the middle of a year, and compare with one in the middle of a day."""
    archives = {hours: written(Archive(folder / f"of-{hours}"), hours, HOUR_EVENTS) for hours in (YEAR, 24)}
    for hours, archive in archives.items():
        archive.publish(hours)
    taken: dict[int, list[float]] = {YEAR: [], 24: []}
    for number in range(rounds + 2):
        for hours, archive in archives.items():
            cost = recompute(spark, archive, hours // 2, 1, defaultdict(float))
            if number >= 2:
                taken[hours].append(cost.wall)
    what = f"one hour of {HOUR_EVENTS} events recomputed, warm: in a year of {YEAR * HOUR_EVENTS:,} events, to in a day"
    yield Figure(what=what, unit="s", ours=taken[YEAR], peer=taken[24], goal=1.15)


def written(archive: Archive, hours: int, events: int) -> Archive:
    archive.write(hours, events)
    return archive


def recompute(spark: SparkSession, archive: Archive, first: int, hours: int, spent: Spent) -> Cost:
    """One job of the product; adds to ``spent`` what its parts take. Raises AssertionError when what it publishes is
    wrong.
    """
    chosen = HourRange(FIRST + first * HOUR, FIRST + (first + hours) * HOUR)
    with ExitStack() as parts:
        for part, owner, name in PARTS:
            parts.enter_context(timed(spent, part, owner, name))
        cost = parts.enter_context(measured())
        done = run_one_job(spark, archive.project, plan_range(archive.project, chosen))
    assert not done.blocked, done.blocked
    layout, aggregation = Layout.of(archive.project), archive.aggregation
    covered = Coverage.at(open_table(layout.coverage, {})).of(aggregation.metric.name, aggregation.declaration)
    final = open_table(layout.final(aggregation.source, aggregation.metric), {}, covered.pinned())
    check(final.to_pyarrow_table(), archive, chosen)
    return cost[0]


def by_script(archive: Archive) -> Cost:
    """The same as ours for all hours, without audit and the rest. Raises AssertionError when the result is wrong."""
    uri = archive.project.root / "script"
    if not uri.exists():
        DeltaTable.create(uri, TILES)
    chosen = HourRange(FIRST, FIRST + archive.hours * HOUR)
    first, end = (f"'{sql_timestamp(moment)}'" for moment in (chosen.start, chosen.end))
    within = f"hour >= {first} AND hour < {end}"
    with measured() as cost:
        events = DeltaTable(Layout.of(archive.project).events(archive.aggregation.source))
        with duckdb.connect() as connection:
            counting, worth = f"FROM read_parquet($files) WHERE {within} AND sequence <= $cutoff", "amount"
            if archive.with_lookup:
                worth = "amount * factor"
                joined = f"read_parquet('{archive.table_of_lookup}') ON customer % {ROWS} = id"
                counting = counting.replace("($files)", f"($files) LEFT JOIN {joined}")
            if archive.with_id:  # the fastest form in DuckDB
                is_first = 'row_number() OVER (PARTITION BY hour, sale ORDER BY sequence, partition, "offset") = 1'
                counting = f"FROM (SELECT hour, shop, amount {counting} QUALIFY {is_first})"
            rows = connection.execute(
                f"SELECT hour, shop, count(*) AS orders, sum({worth})::BIGINT AS takings, max(amount) AS dearest "
                f"{counting} GROUP BY ALL ORDER BY ALL",
                {"files": events.file_uris(), "cutoff": archive.cutoff},
            ).to_arrow_table()
        write_deltalake(uri, rows.cast(TILES), mode="overwrite", predicate=within)
    check(DeltaTable(uri).to_pyarrow_table(), archive, chosen)
    return cost[0]


def by_spark(spark: SparkSession, archive: Archive) -> Cost:
    """The same aggregation by bare Spark, collected. Raises AssertionError when the result is wrong."""
    chosen = HourRange(FIRST, FIRST + archive.hours * HOUR)
    first, end = (F.lit(sql_timestamp(moment)).cast("timestamp") for moment in (chosen.start, chosen.end))
    with measured() as cost:
        files = DeltaTable(Layout.of(archive.project).events(archive.aggregation.source)).file_uris()
        events = spark.read.parquet(*files).where(
            (F.col("hour") >= first) & (F.col("hour") < end) & (F.col("sequence") <= archive.cutoff)
        )
        shop, amount = (SHOP, AMOUNT) if archive.with_expressions else ("shop", "amount")
        aggregates, condition = {"orders": "count(*)", "takings": f"sum({amount})", "dearest": "max(amount)"}, ""
        if archive.with_id:  # the fastest form in Spark, which sorts once more if a filter follows the window
            arrivals = Window.partitionBy("sale", "hour").orderBy("sequence", "partition", "offset")
            events, condition = events.withColumn("nth", F.row_number().over(arrivals)), " FILTER (WHERE nth = 1)"
        columns = [F.expr(sql + condition).alias(name) for name, sql in aggregates.items()]
        rows = events.groupBy("hour", F.expr(shop).alias("shop")).agg(*columns).toArrow()
    check(rows, archive, chosen)
    return cost[0]


def check(table: pa.Table, archive: Archive, chosen: HourRange) -> None:
    """Raise AssertionError unless ``table`` has the expected rows of the hours."""
    hours = pa.array(list(chosen), TILES.field("hour").type)
    got, true = (
        rows.filter(pc.is_in(rows["hour"], hours)).select(TILES.names).cast(TILES) for rows in (table, archive.truth)
    )
    assert got.sort_by([("hour", "ascending"), ("shop", "ascending")]).equals(true), "the result is wrong"


@contextmanager
def measured() -> Iterator[list[Cost]]:
    """The cost of this process and its Java within the block."""
    cost: list[Cost] = []
    before, began = sum(cpu_seconds(os.getpid()).values()), time.monotonic()
    yield cost
    wall = time.monotonic() - began
    cost.append(Cost(sum(cpu_seconds(os.getpid()).values()) - before, wall))


if __name__ == "__main__":
    run("recompute", measure)
