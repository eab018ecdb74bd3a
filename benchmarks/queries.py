"""Measures the cost of merged views, compared with plain DuckDB over one sorted Parquet file with the same rows.

    python -m benchmarks.queries [--full]

A month (`--full`: a year) of three metrics, 20 groups each, is written by the product's own commits. All but the last
two days is imported, and the last hour has 210 micro-batches, one per second. Both subjects answer each query in turn,
warm: first without other load, then while another process commits a micro-batch per second and the connection is
refreshed before each round. The refresh is not timed here, but in `growth`. The answers of both are compared before a
time counts.

The peer is as fast as DuckDB can be: one file, sorted by hour, with row groups of the product's size, no layers and no
states. Times are wall times in ms.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

import serving_layer
from benchmarks.figures import Figure
from benchmarks.history import METRICS, History, committing, hour, written
from benchmarks.running import run
from hourline_core.model.hours import sql_timestamp
from hourline_core.sql.database import connect as open_duckdb
from hourline_core.sql.sketches import install_sketch_functions
from serving_layer import Connection

ROUNDS = 15
HOURLY, SECONDS = 48, 210
GOAL = 2.0
"""Of the ratio."""


def measure(full: bool) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        history = written(root / "project", 24 * (365 if full else 30) - HOURLY, HOURLY, SECONDS)
        plain = plain_views(history, root)
        asked = questions(history.next_hour - 1)
        with serving_layer.connect(history.project) as merged:
            for name, sql in asked.items():
                yield timed(f"{name}, idle", plain, merged, sql, lambda: None)
            with committing(history.project.root, history.next_hour - 1):
                for name, sql in asked.items():
                    yield timed(f"{name}, while committing", plain, merged, sql, merged.refresh)


def plain_views(history: History, folder: Path) -> duckdb.DuckDBPyConnection:
    """A DuckDB with one view a metric over one file, sorted by hour, with the measures (of a distinct count, the
    sketch).
    """
    plain = open_duckdb()
    install_sketch_functions(plain)
    for metric in METRICS:
        file = folder / f"{metric}.parquet"
        pq.write_table(history.all_rows(metric), file, row_group_size=8192)
        finished = (
            "SELECT * EXCLUDE (usual__n, usual__total), usual__total / usual__n AS usual"
            if metric == "turnover"
            else "SELECT *"
        )
        plain.execute(f"CREATE VIEW {metric} AS {finished} FROM '{file}'")
        plain.execute(f"CREATE VIEW {metric}_states AS FROM '{file}'")
    return plain


def questions(end: int) -> dict[str, str]:
    """The queries over the hours before ``end``, the number of the current hour."""

    def within(hours: int, until: int = end) -> str:
        return f"WHERE hour >= '{sql_timestamp(hour(max(0, until - hours)))}' AND hour < '{sql_timestamp(hour(until))}'"

    by_sum = "sum(orders)::BIGINT AS orders, sum(takings)::BIGINT AS takings"
    return {
        "one hour, one shop": "SELECT orders, takings, dearest, usual FROM turnover "
        f"{within(1, end - 100)} AND shop = 'shop 07'",
        "a day, by hour": f"SELECT hour, {by_sum} FROM turnover {within(24)} GROUP BY hour ORDER BY hour",
        "a month, by day": f"SELECT date_trunc('day', hour) AS day, {by_sum} FROM turnover "
        f"{within(720)} GROUP BY day ORDER BY day",
        "all hours, by shop": f"SELECT shop, {by_sum} FROM turnover {within(end)} GROUP BY shop ORDER BY shop",
        "a week, top 10 of takings": f"SELECT shop, {by_sum} FROM turnover "
        f"{within(168)} GROUP BY shop ORDER BY takings DESC LIMIT 10",
        "a day, distinct customers": "SELECT shop, distinct_count(customers) AS n FROM visits_states "
        f"{within(24)} GROUP BY shop ORDER BY shop",
    }


def timed(
    what: str, plain: duckdb.DuckDBPyConnection, merged: Connection, sql: str, between: Callable[[], None]
) -> Figure:
    want = plain.sql(sql).fetchall()
    ours, peer = [], []
    for _ in range(ROUNDS):
        between()
        assert merged.sql(sql).fetchall() == want, f"the answers differ: {sql}"
        peer.append(seconds(lambda: plain.sql(sql).fetchall()) * 1000)
        ours.append(seconds(lambda: merged.sql(sql).fetchall()) * 1000)
    return Figure(what=what, unit="ms", ours=ours, peer=peer, goal=GOAL)


def seconds(ask: Callable[[], object]) -> float:
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began


if __name__ == "__main__":
    run("queries", measure)
