"""A recompute of a joined day, beside plain DuckDB."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from batch_layer.plan import plan_range
from benchmarks.audit import run_one_job
from benchmarks.figures import Figure
from benchmarks.paid_orders import ORDERS, PAID, PAYMENTS, Rows, found_pairs
from benchmarks.processes import Cost
from benchmarks.recompute import measured
from hourline import Project, load_project
from hourline_core.ledger.layout import TIMESTAMP, Layout
from hourline_core.model.hours import HOUR, HourRange
from hourline_core.runtime.spark import spark_session

TO_JOIN = 0.2
_TILES = pa.schema(
    {"hour": TIMESTAMP, "shop": pa.string(), "pairs": pa.int64(), "ordered": pa.float64(), "paid": pa.float64()}
)
_COUNT = "count(*) AS pairs"
_JOIN = f"""
    SELECT time_bucket(INTERVAL 1 HOUR, greatest(o.event_time, p.event_time)) AS hour, o.shop, {_COUNT},
        sum(o.amount) AS ordered, sum(p.amount) AS paid
    FROM read_parquet($orders) o JOIN read_parquet($payments) p
    ON o.number = p.number AND p.event_time BETWEEN o.event_time AND o.event_time + to_minutes($minutes)
    GROUP BY ALL ORDER BY ALL"""
_COUNT_PAIRS = f"""
    SELECT hour, orders_shop AS shop, {_COUNT}, sum(orders_amount) AS ordered, sum(payments_amount) AS paid
    FROM read_parquet($paid) GROUP BY ALL ORDER BY ALL"""


def of_joined_day(root: Path, truth: Rows, minutes: int, rounds: int) -> Iterator[Figure]:
    """Recompute all hours of a drained project, and compare with both scripts. ``truth`` is the answer."""
    project = load_project(root)
    spark = spark_session(project, "batch")
    ours, joining, counting = [], [], []
    try:
        for _ in range(rounds + 1):
            ours.append(_by_hourline(spark, project, truth))
            joining.append(_by_script(project, _JOIN, {"minutes": minutes}, [ORDERS, PAYMENTS], truth))
            counting.append(_by_script(project, _COUNT_PAIRS, {}, [PAID], truth))
    finally:
        spark.stop()
    pairs = sum(row[2] for row in truth)
    peers = [("which joins both archives", joining, TO_JOIN), ("which reads the pairs", counting, None)]
    for what, costs, goal in peers:
        yield Figure(
            what=f"a day of {pairs:,} joined pairs recomputed, warm, to DuckDB and delta-rs, {what}",
            unit="pairs/s",
            ours=[pairs / one.wall for one in ours[1:]],
            peer=[pairs / one.wall for one in costs[1:]],
            goal=goal,
            at_least=True,
        )


def _by_hourline(spark: SparkSession, project: Project, truth: Rows) -> Cost:
    hours = [datetime.fromtimestamp(row[0] / 1000, UTC) for row in truth]
    with measured() as cost:
        done = run_one_job(spark, project, plan_range(project, HourRange(min(hours), max(hours) + HOUR)))
    assert not done.blocked, done.blocked
    assert found_pairs(project) == truth, "the recomputed day is wrong"
    return cost[0]


def _by_script(project: Project, query: str, values: dict[str, int], sources: list[str], truth: Rows) -> Cost:
    layout, uri = Layout.of(project), project.root / "script"
    if not uri.exists():
        DeltaTable.create(uri, _TILES)
    with measured() as cost, duckdb.connect() as connection:
        files = {name: DeltaTable(layout.events(project.sources[name])).file_uris() for name in sources}
        rows = connection.execute(query, {**files, **values}).to_arrow_table()
        write_deltalake(uri, rows.cast(_TILES), mode="overwrite")
    with duckdb.connect() as connection:
        connection.register("rows", DeltaTable(uri).to_pyarrow_table())
        found = connection.sql("SELECT epoch_ms(hour), * EXCLUDE (hour) FROM rows ORDER BY ALL").fetchall()
    assert found == truth, "the script's day is wrong"
    return cost[0]
