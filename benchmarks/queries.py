"""What merging costs when reading: merged views beside plain DuckDB over one sorted Parquet file with the same rows.

    python -m benchmarks.queries [DAYS]

A year (or DAYS) of three metrics, 20 groups each, is written: imported but for the last two days, and of the last hour 210 micro-batches, one a
second. Each question is asked of both in turn, warm; first with nothing else going on, then while another process commits a micro-batch each second
and the connection is refreshed before each round. The answers of both are compared before a time counts. Times are of the wall, medians of the
rounds.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import serving_layer
from benchmarks.history import METRICS, History, committing, hour, written
from hourline.database import connect as open_duckdb
from hourline.layout import sql_timestamp
from hourline.sketches import install_sketch_functions
from serving_layer import Connection

ROUNDS = 9
HOURLY, SECONDS = 48, 210


def main(days: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        history = written(root / "project", 24 * days - HOURLY, HOURLY, SECONDS)
        print_figures(compare(history, root))


def compare(history: History, folder: Path) -> list[list[str]]:
    """By question: name; median of plain DuckDB and of the merged views in ms, their ratio and its spread; the same while another process commits."""
    plain = plain_views(history, folder)
    asked = questions(history.next_hour - 1)
    with serving_layer.connect(history.project) as merged:
        rows = {name: [name, *timed(plain, merged, sql, lambda: None)] for name, sql in asked.items()}
        with committing(history.project.root, history.next_hour - 1):
            for name, sql in asked.items():
                rows[name] += timed(plain, merged, sql, merged.refresh)
    return list(rows.values())


def plain_views(history: History, folder: Path) -> duckdb.DuckDBPyConnection:
    """A DuckDB with one view a metric over one file, sorted by hour, with the measures (of a distinct count, the sketch)."""
    plain = open_duckdb()
    install_sketch_functions(plain)
    for metric in METRICS:
        file = folder / f"{metric}.parquet"
        pq.write_table(history.all_rows(metric), file, row_group_size=8192)
        finished = "SELECT * EXCLUDE (usual__n, usual__total), usual__total / usual__n AS usual" if metric == "turnover" else "SELECT *"
        plain.execute(f"CREATE VIEW {metric} AS {finished} FROM '{file}'")
        plain.execute(f"CREATE VIEW {metric}_states AS FROM '{file}'")
    return plain


def questions(end: int) -> dict[str, str]:
    """Over the hours before the number ``end``, which is under way."""

    def within(hours: int, until: int = end) -> str:
        return f"WHERE hour >= '{sql_timestamp(hour(max(0, until - hours)))}' AND hour < '{sql_timestamp(hour(until))}'"

    by_sum = "sum(orders)::BIGINT AS orders, sum(takings)::BIGINT AS takings"
    return {
        "one hour, one shop": f"SELECT orders, takings, dearest, usual FROM turnover {within(1, end - 100)} AND shop = 'shop 07'",
        "a day, by hour": f"SELECT hour, {by_sum} FROM turnover {within(24)} GROUP BY hour ORDER BY hour",
        "a month, by day": f"SELECT date_trunc('day', hour) AS day, {by_sum} FROM turnover {within(720)} GROUP BY day ORDER BY day",
        "all hours, by shop": f"SELECT shop, {by_sum} FROM turnover {within(end)} GROUP BY shop ORDER BY shop",
        "a week, top 10 of takings": f"SELECT shop, {by_sum} FROM turnover {within(168)} GROUP BY shop ORDER BY takings DESC LIMIT 10",
        "a day, distinct customers": f"SELECT shop, distinct_count(customers) AS n FROM visits_states {within(24)} GROUP BY shop ORDER BY shop",
    }


def timed(plain: duckdb.DuckDBPyConnection, merged: Connection, sql: str, between: Callable[[], None]) -> list[str]:
    """Medians of plain and merged in ms, their ratio, and the interquartile range of the rounds' ratios."""
    want = plain.sql(sql).fetchall()
    taken = []
    for _ in range(ROUNDS):
        between()
        assert merged.sql(sql).fetchall() == want, f"the answers differ: {sql}"
        taken.append((seconds(lambda: plain.sql(sql).fetchall()), seconds(lambda: merged.sql(sql).fetchall())))
    one, other = (statistics.median(column) * 1000 for column in zip(*taken, strict=True))
    low, _, high = statistics.quantiles(b / a for a, b in taken)
    return [f"{one:.1f}", f"{other:.1f}", f"{other / one:.2f}", f"{low:.2f}–{high:.2f}"]


def seconds(ask: Callable[[], object]) -> float:
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began


def print_figures(rows: list[list[str]]) -> None:
    table = Table("question")
    for when in ("idle", "committing"):
        for column in ("plain ms", "merged ms", "ratio", "spread"):
            table.add_column(f"{column}, {when}")
    for row in rows:
        table.add_row(*row)
    Console(width=150).print(table)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 365)
