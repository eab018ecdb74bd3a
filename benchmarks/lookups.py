"""Measures events that meet the rows of a lookup, in both layers, compared with Kafka Streams and with plain DuckDB.

    python -m benchmarks.lookups [--full]

The lookup has 10,000 rows. Each event meets one of them, by an expression over its customer, and its amount is
multiplied by the factor in that row before it is summed.

In the speed layer, the subjects drain the topic of the benchmark `speed`, with the same metric (count, sum and maximum
by shop and hour), settings and rules. Hourline validates and archives each event, and reads a Parquet file as a lookup.
Kafka Streams joins with a `GlobalKTable` of the same rows before it aggregates. It has the best conditions here, too:
the table is in memory, a row is a number of four bytes, and the join keeps the key of a record, so that nothing is
repartitioned. Hourline without a lookup takes its turn as well, with the plain sum. Each answer is compared with
DuckDB's over all events and rows before its time counts.

In the batch layer, a day of events is recomputed as in the benchmark `recompute`, with the lookup. Its peer is the same
script with DuckDB and delta-rs, which joins with the file that the lookup has read.
"""

import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer

import serving_layer
from benchmarks.archive import FACTORS, LOOKUP, LOOKUP_FILES, ROWS, Archive
from benchmarks.draining import Drained, drained
from benchmarks.figures import Figure
from benchmarks.order_drains import SHOPS
from benchmarks.order_metrics import MEASURES, METRICS, SOURCE, TOPIC, OrderMetric, Rows, write_project
from benchmarks.peers.streams import kafka_streams
from benchmarks.preloaded import fill, orders
from benchmarks.processes import hourline
from benchmarks.project_files import write_files
from benchmarks.recompute import DAY, ROUNDS, SCRIPT, WALL, Days, of_days, written
from benchmarks.running import run
from benchmarks.speed import COMMIT_MILLISECONDS, FULL, HEAP, QUICK, THREADS
from hourline_core.runtime.broker import Broker
from hourline_core.runtime.spark import spark_session
from hourline_core.runtime.topics import ensure_topic

TABLE = "customers"
"""The topic of Kafka Streams' table."""
TO_STREAMS, TO_SCRIPT = 0.4, 0.2
WITH_LOOKUP = SOURCE + LOOKUP.replace("{", "{{").replace("}", "}}")
METRIC = OrderMetric(["shop"], {**MEASURES, "amount": "sum(amount * client.factor)"})


class LookupTopic:
    """A topic with the orders of ``table``, and one with the rows of the lookup. ``first`` orders are the start-up of
    each subject.
    """

    def __init__(self, folder: Path, bootstrap: str, table: pa.Table, first: int) -> None:
        self._folder, self._bootstrap = folder, bootstrap
        self._sizes = (table.num_rows, first)
        self._projects = 0
        self._truth = {True: _true_rows(table), False: METRICS[SHOPS].true_rows(table)}
        fill(bootstrap, TOPIC, table)
        ensure_topic(bootstrap, TABLE, 1, {})
        producer = Producer({"bootstrap.servers": bootstrap})
        for row in FACTORS.to_pylist():
            producer.produce(TABLE, struct.pack(">i", row["factor"]), key=struct.pack(">q", row["id"]))
        producer.flush()

    def by_hourline(self, *, with_lookup: bool) -> Drained:
        """Hourline, in its own project."""
        self._projects += 1
        metric, source = (METRIC, WITH_LOOKUP) if with_lookup else (METRICS[SHOPS], SOURCE)
        project = write_project(self._folder / f"project{self._projects}", self._bootstrap, {SHOPS: metric}, source)
        if with_lookup:
            write_files(project, LOOKUP_FILES)
            pq.write_table(FACTORS, project / "customers.parquet")
        done = drained(hourline(project, "speed", "--drain"), *self._sizes)
        with serving_layer.connect(project) as connection:
            columns = ", ".join(metric.names)
            found = connection.sql(f"SELECT epoch_ms(hour), {columns} FROM {SHOPS} ORDER BY ALL").fetchall()
        assert found == self._truth[with_lookup], "Hourline differs from what DuckDB counts"
        return done

    def by_kafka_streams(self, command: list[str]) -> Drained:
        """Kafka Streams, with the command line of ``kafka_streams``."""
        answer = self._folder / "answer.csv"
        done = drained([*command, self._bootstrap, TOPIC, str(answer), TABLE, str(ROWS)], *self._sizes)
        rows = [line.split(",") for line in answer.read_text().splitlines()]
        found = sorted((int(hour), shop, int(count), float(sums), int(most)) for shop, hour, count, sums, most in rows)
        assert found == self._truth[True], "Kafka Streams differs from what DuckDB counts"
        return done


def measure(full: bool) -> Iterator[Figure | str]:
    """The figures of both layers."""
    yield from of_speed_layer(full)
    with tempfile.TemporaryDirectory() as folder:
        hourly = DAY[full] // 24
        day = Days(
            f"a day of {24 * hourly:,} events with a lookup of {ROWS:,} rows",
            written(Archive(Path(folder) / "day", with_lookup=True), 24, hourly),
            {SCRIPT: (WALL, TO_SCRIPT)},
        )
        spark = spark_session(day.archive.project, "batch")
        try:
            yield from of_days(spark, day, ROUNDS[full])
        finally:
            spark.stop()


def of_speed_layer(full: bool) -> Iterator[Figure]:
    """The figures of drains, whose subjects take turns."""
    rounds, events, first = FULL if full else QUICK
    ours: list[Drained] = []
    streams: list[Drained] = []
    without: list[Drained] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Broker(Path(folder) / "kafka") as broker,
        kafka_streams(HEAP, COMMIT_MILLISECONDS, THREADS) as peer,
    ):
        topic = LookupTopic(Path(folder), broker.bootstrap, orders(events), first)
        for _ in range(rounds):
            ours.append(topic.by_hourline(with_lookup=True))
            streams.append(topic.by_kafka_streams(peer))
            without.append(topic.by_hourline(with_lookup=False))
    what = f"archive and 1 metric with a lookup of {ROWS:,} rows"
    yield Figure(
        what=f"{what}, beside Kafka Streams with a GlobalKTable, without start-up",
        unit="events per CPU s",
        ours=[one.warm for one in ours],
        peer=[one.warm for one in streams],
        goal=TO_STREAMS,
        at_least=True,
    )
    yield Figure(
        what=f"{what}, beside Kafka Streams with a GlobalKTable, start-up included",
        unit="events per CPU s",
        ours=[one.whole for one in ours],
        peer=[one.whole for one in streams],
        at_least=True,
    )
    yield Figure(
        what=f"{what}, beside none, without start-up",
        unit="CPU µs per event",
        ours=[1e6 / one.warm for one in ours],
        peer=[1e6 / one.warm for one in without],
    )


def _true_rows(table: pa.Table) -> Rows:
    """DuckDB's answer over the orders and the rows: hour (ms), shop, events, amount, most; sorted."""
    with duckdb.connect() as connection:
        connection.register("orders", table)
        connection.register("factors", FACTORS)
        return connection.sql(
            'SELECT "at" // 3600000 * 3600000, shop, count(*), sum(amount * factor), max(quantity) '
            f"FROM orders LEFT JOIN factors ON customer % {ROWS} = factors.id GROUP BY ALL ORDER BY ALL"
        ).fetchall()


if __name__ == "__main__":
    run("lookups", measure)
