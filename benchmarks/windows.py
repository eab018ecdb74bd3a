"""Measures what windows cost: an event with 1, 10 and 50 metrics in mixed windows, and questions about windows.

    python -m benchmarks.windows [--full]

Each drain is that of `speed`: the same topic, events and measures, in a process of its own, CPU seconds "without
start-up". The first metric has windows of an hour. Of ten or fifty, a fifth each has windows of an hour, of 5 minutes,
of 24 hours at each hour, of a day in New York, and sessions. The hours of each metric are compared with DuckDB's over
all events, and its windows with its hours, before a time counts.

The questions are warm, in turns with plain DuckDB over one sorted Parquet file. The rolling days are those of a month
(`--full`: a year), of 20 shops: the project is that of `queries`, and its peer joins the hours of the file with the
windows. The sessions are those of the drained topic, by 20,000 customers with a gap of ten minutes: its peer has the
events, and finds sessions by the usual `lag` and sum. Times are wall times in ms.
"""

import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import serving_layer
from benchmarks.draining import Drained, drained
from benchmarks.figures import Figure
from benchmarks.history import hour, written
from benchmarks.order_metrics import DIMENSIONS, MEASURES, SETTINGS, SOURCE, TOPIC
from benchmarks.preloaded import FIELDS, fill, orders
from benchmarks.processes import hourline
from benchmarks.project_files import write_files
from benchmarks.queries import HOURLY, plain_views, timed
from benchmarks.running import run
from benchmarks.speed import FULL, QUICK
from hourline_core.model.hours import sql_timestamp
from hourline_core.model.metric_window import MetricWindow, WindowSize
from hourline_core.runtime.broker import Broker

WINDOWS = ["1h", "5m", "{size: 24h, every: 1h}", "{size: 1 day, zone: America/New_York}", "{gap: 10m}"]
OVERLAPPING = WINDOWS[2]
COUNTS = (1, 10, 50)
CUSTOMER = "customer % 20000"
GAP_MILLISECONDS = 600_000
SECONDS = 60


class Declared(NamedTuple):
    """A metric of the drain."""

    dimensions: list[str]
    window: str


def declared_metrics(count: int) -> dict[str, Declared]:
    """``count`` metrics: those of `speed` in windows by turns, the last one the sessions of customers."""
    pairs = zip(cycle(DIMENSIONS.values()), [window for window in WINDOWS for _ in DIMENSIONS], strict=False)
    every = [Declared(*pair) for pair in pairs]
    step = len(every) // count
    chosen = list(islice(every, 0, None, step))[:count]
    metrics = {f"m{number}": one for number, one in enumerate(chosen)}
    return metrics if count == 1 else {**dict(list(metrics.items())[:-1]), "visits": Declared([CUSTOMER], WINDOWS[-1])}


def measure(full: bool) -> Iterator[Figure | str]:
    rounds, events, first = FULL if full else QUICK
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with Broker(root / "kafka") as broker:
            table = orders(events)
            fill(broker.bootstrap, TOPIC, table)
            found: dict[int, list[float]] = {count: [] for count in COUNTS}
            for turn in range(rounds):
                for count in COUNTS:
                    project = write_project(root / f"{count}_{turn}", broker.bootstrap, count)
                    done: Drained = drained(hourline(project, "speed", "--drain"), events, first)
                    check(project, table, count)
                    found[count].append(1e6 / done.warm)
        for count in COUNTS[1:]:
            yield Figure(
                what=f"{count} metrics with mixed windows, beside 1 of hours",
                unit="CPU µs per event",
                ours=found[count],
                peer=found[1],
            )
        medians = {count: statistics.median(of) for count, of in found.items()}
        further = (medians[50] - medians[10]) / 40
        yield f"From 10 to 50 metrics, each further metric costs {further:.2f} CPU µs per event."
        yield sessions(project, table, root)
        yield from rolling_days(root / "history", full)


def write_project(folder: Path, bootstrap: str, count: int) -> Path:
    """A project with ``count`` metrics."""
    files = {
        "hourline.yaml": SETTINGS.format(bootstrap=bootstrap),
        "sources/orders.yaml": SOURCE.format(topic=TOPIC, fields=FIELDS),
    }
    for name, metric in declared_metrics(count).items():
        dimensions = "".join(f'  d{at}: "{text}"\n' for at, text in enumerate(metric.dimensions))
        measures = "".join(f'  {measure}: "{text}"\n' for measure, text in MEASURES.items())
        head = f"source: orders\nwindow: {metric.window}\n"
        files[f"metrics/{name}.yaml"] = f"{head}dimensions:\n{dimensions}measures:\n{measures}"
    return write_files(folder, files)


def check(project: Path, table: pa.Table, count: int) -> None:
    """Compare the hours of each metric with DuckDB's, and its windows with its hours."""
    duckdb.register("orders", table)
    measures = ", ".join(text.replace("count", "count(*)") for text in MEASURES.values())
    with serving_layer.connect(project) as connection:
        for name, metric in declared_metrics(count).items():
            columns = ", ".join([*(f"d{at}" for at in range(len(metric.dimensions))), *MEASURES])
            hours = name if metric.window == "1h" else f"{name}_hours"
            found = connection.sql(f"SELECT epoch_ms(hour), {columns} FROM {hours} ORDER BY ALL").fetchall()
            keys = ", ".join(['"at" // 3600000 * 3600000', *metric.dimensions])
            want = duckdb.sql(f"SELECT {keys}, {measures} FROM orders GROUP BY ALL ORDER BY ALL").fetchall()
            assert found == want, f"the hours of {name} differ from what DuckDB counts"
            times = 24 if metric.window == OVERLAPPING else 1
            assert connection.sql(f"SELECT sum(events) FROM {name}").fetchall() == [(times * table.num_rows,)]


def sessions(project: Path, table: pa.Table, folder: Path) -> Figure:
    """All sessions of customers, beside DuckDB over the events."""
    file = folder / "orders.parquet"
    pq.write_table(table, file)
    plain = duckdb.connect()
    plain.execute(
        f"""CREATE VIEW visits AS
        SELECT customer AS d0, count(*) AS events, sum(amount) AS amount
        FROM (SELECT *, count(*) FILTER (begins) OVER (PARTITION BY customer ORDER BY "at") AS session
              FROM (SELECT {CUSTOMER} AS customer, amount, "at",
                           "at" - lag("at") OVER (PARTITION BY {CUSTOMER} ORDER BY "at") > {GAP_MILLISECONDS} AS begins
                    FROM '{file}'))
        GROUP BY customer, session"""
    )
    asked = (
        "SELECT count(*), sum(events)::BIGINT, max(events), max(amount), count(*) FILTER (events = 1) AS bounced "
        "FROM visits"
    )
    with serving_layer.connect(project) as connection:
        return timed("all sessions", plain, connection, asked, lambda: None)


def rolling_days(folder: Path, full: bool) -> Iterator[Figure]:
    """The last 24 hours at each hour, of all shops together and of one."""
    history = written(folder / "project", 24 * (365 if full else 30) - HOURLY, HOURLY, SECONDS)
    plain = plain_views(history, folder)
    file = folder / "turnover.parquet"
    plain.execute(
        f"""CREATE OR REPLACE VIEW turnover AS
        SELECT window_start, shop, sum(orders)::BIGINT AS orders, max(dearest) AS dearest
        FROM (SELECT DISTINCT hour AS window_start FROM '{file}') w
        JOIN '{file}' t ON t.hour >= w.window_start AND t.hour < w.window_start + INTERVAL 24 HOUR GROUP BY ALL"""
    )
    window = MetricWindow(size=WindowSize.parse("24h"), every=WindowSize.parse("1h"))
    turnover = history.project.metrics["turnover"].model_copy(update={"window": window})
    project = replace(history.project, metrics={**history.project.metrics, "turnover": turnover})
    end = history.next_hour - 25
    whole = f"window_start >= '{sql_timestamp(hour(0))}' AND window_start < '{sql_timestamp(hour(end))}'"
    day = f"window_start = '{sql_timestamp(hour(end - 100))}'"
    columns = "window_start, max(dearest) AS dearest, sum(orders)::BIGINT AS orders"
    span = "a year" if full else "a month"
    with serving_layer.connect(project) as merged:
        for what, where in ((f"the rolling days of {span}", whole), ("one rolling day", day)):
            asked = f"SELECT {columns} FROM turnover WHERE {where} GROUP BY window_start ORDER BY window_start"
            yield timed(what, plain, merged, asked, lambda: None)


if __name__ == "__main__":
    run("windows", measure)
