"""Measures the CPU time of an event in the speed layer, compared with Kafka Streams and a bare Spark query.

    python -m benchmarks.speed [--full]

Each subject drains the same preloaded topic (JSON of about 200 bytes, 4 partitions, 500 shops over three hours) in a
separate process. The CPU seconds of that process and its descendants count, but not those of the broker. "Without
start-up" is from the first commit after 100,000 events (with `--full`, three million) to the last one, as reported by
the process. By then, Java has compiled almost all; the rest is reported as the share of its compilers. Hourline
validates and archives each event with all its fields, and computes count, sum and maximum by shop and hour, or ten such
metrics. Both peers compute the one metric, parse only the fields that it needs, treat each event as valid, and archive
nothing.

Kafka Streams runs exactly once with RocksDB and its changelog topic, with default caches. It commits every half second,
which is about the time of a micro-batch of 100,000 records in Hourline. It has the best conditions: the key is the
shop, so it need not repartition, the parser is written by hand, and a state has 20 bytes. Its classes are not archived,
unlike those of Spark. A drain is too short for Hourline's maintenance and for more than a few of its merges;
`micro_batches` has those. Bare Spark has the same session, the same settings of Kafka and the same 100,000 records per
micro-batch, and writes its sums to the no-op sink. Each answer is compared with DuckDB's over all events before its
time counts. The answer of bare Spark, which its sink discards, is checked in a separate run.
"""

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa

import serving_layer
from benchmarks.draining import Drained, drained
from benchmarks.figures import Figure
from benchmarks.peers.streams import kafka_streams
from benchmarks.preloaded import FIELDS, fill, orders
from benchmarks.processes import hourline
from benchmarks.project_files import write_files
from benchmarks.running import run
from hourline_core.runtime.broker import Broker

QUICK = (2, 300_000, 100_000)
FULL = (3, 4_500_000, 3_000_000)
"""The numbers of rounds, of events in the topic, and of those in the start-up."""

TOPIC = "orders"
COMMIT_MILLISECONDS = 500
THREADS = 2
HEAP = "1g"

MEASURES = {"events": "count", "amount": "sum(amount)", "most": "max(quantity)"}
DIMENSIONS = {
    "shops": ["shop"],
    "channels": ["channel"],
    "products": ["product"],
    "shops_by_channel": ["shop", "channel"],
    "quantities": ["quantity"],
    "districts": ["substring(shop, 6, 2)"],
    "ranges": ["substring(product, 9, 2)"],
    "segments": ["customer % 100"],
    "ranges_by_channel": ["substring(product, 9, 2)", "channel"],
    "segments_by_channel": ["customer % 10", "channel"],
}
"""The expressions of each metric. Spark and DuckDB read them alike."""
METRICS = list(DIMENSIONS)

SETTINGS = """\
name: speed
kafka: {{bootstrap: "{bootstrap}"}}
"""
SOURCE = """\
topic: {topic}
fields: {fields}
event_time: {{expression: at, encoding: epoch_milliseconds}}
"""

Rows = list[tuple[object, ...]]
Subject = Callable[[], Drained]
"""Drains the topic, and checks the answer."""


def measure(full: bool) -> Iterator[Figure | str]:
    """The figures of all subjects, measured in turn."""
    rounds, events, first = FULL if full else QUICK
    with (
        tempfile.TemporaryDirectory() as folder,
        Broker(Path(folder) / "kafka") as broker,
        kafka_streams(HEAP, COMMIT_MILLISECONDS, THREADS) as peer,
    ):
        topic = Topic(Path(folder), broker.bootstrap, events, first)
        subjects: dict[str, Subject] = {
            "one": lambda: topic.by_hourline(METRICS[:1]),
            "streams": lambda: topic.by_kafka_streams(peer),
            "ten": lambda: topic.by_hourline(METRICS),
            "bare": topic.by_bare_spark,
        }
        found: dict[str, list[Drained]] = {name: [] for name in subjects}
        for _ in range(rounds):
            for name, subject in subjects.items():
                found[name].append(subject())
        topic.check_bare_spark()
    yield from figures(found)
    names = {"one": "1 metric", "ten": "10 metrics", "streams": "Kafka Streams", "bare": "bare Spark"}
    started = ", ".join(
        f"{names[name]} {statistics.median(one.started for one in of):.0f}" for name, of in found.items()
    )
    compiling = ", ".join(
        f"{names[name]} {statistics.median(one.compiling for one in of):.0%}" for name, of in found.items()
    )
    yield f"Share of Java's compilers in the CPU time without start-up: {compiling}."
    yield f"{events:,} events; CPU seconds of the start-up with the first {first:,} of them: {started}."


def figures(found: dict[str, list[Drained]]) -> Iterator[Figure]:
    """The figures from the rounds of each subject."""
    warm = {name: [one.warm for one in of] for name, of in found.items()}
    whole = {name: [one.whole for one in of] for name, of in found.items()}
    for rates, which, goals in (
        (warm, "without start-up", (0.3, 0.55, 1.4)),
        (whole, "start-up included", (None, None, None)),
    ):
        for name, peer, goal in (("streams", "Kafka Streams", goals[0]), ("bare", "a bare Spark query", goals[1])):
            what = f"archive and 1 metric, beside {peer}, {which}"
            yield Figure(
                what=what, unit="events per CPU s", ours=rates["one"], peer=rates[name], goal=goal, at_least=True
            )
        ten, one = ([1e6 / rate for rate in rates[name]] for name in ("ten", "one"))
        yield Figure(
            what=f"archive and 10 metrics, beside 1, {which}",
            unit="CPU µs per event",
            ours=ten,
            peer=one,
            goal=goals[2],
        )


class Topic:
    """The topic, and its expected answers."""

    def __init__(self, folder: Path, bootstrap: str, events: int, first: int) -> None:
        self._folder, self._bootstrap, self._sizes = folder, bootstrap, (events, first)
        self._projects = 0
        table = orders(events)
        fill(bootstrap, TOPIC, table)
        self._truth = {metric: true_rows(table, metric) for metric in METRICS}

    def by_hourline(self, metrics: list[str]) -> Drained:
        """Hourline, in its own project."""
        project = self._project(metrics)
        done = drained(hourline(project, "speed", "--drain"), *self._sizes)
        with serving_layer.connect(project) as connection:
            for metric in metrics:
                columns = ", ".join([*(f"d{at}" for at in range(len(DIMENSIONS[metric]))), *MEASURES])
                found = connection.sql(f"SELECT epoch_ms(hour), {columns} FROM {metric} ORDER BY ALL").fetchall()
                assert found == self._truth[metric], f"hourline: {metric} differs from what DuckDB counts"
        return done

    def by_kafka_streams(self, command: list[str]) -> Drained:
        """Kafka Streams, with the command line of ``kafka_streams``."""
        answer = self._folder / "answer.csv"
        done = drained([*command, self._bootstrap, TOPIC, str(answer)], *self._sizes)
        rows = [line.split(",") for line in answer.read_text().splitlines()]
        found = sorted(
            (int(hour), shop, int(events), float(amount), int(most)) for shop, hour, events, amount, most in rows
        )
        assert found == self._truth["shops"], "Kafka Streams differs from what DuckDB counts"
        return done

    def by_bare_spark(self) -> Drained:
        """Bare Spark. Its answer is discarded."""
        return drained(self._bare_spark(), *self._sizes)

    def check_bare_spark(self) -> None:
        """Run it once, and keep its answer."""
        answer = self._folder / "answer.parquet"
        drained([*self._bare_spark(), str(answer)], *self._sizes)
        sums = "sum(events)::BIGINT AS events, sum(amount) AS amount, max(most) AS most"
        found = duckdb.sql(
            f"SELECT hour * 3600000 AS hour, shop, {sums} FROM '{answer}' GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        assert found == self._truth["shops"], "bare Spark differs from what DuckDB counts"

    def _bare_spark(self) -> list[str]:
        return [sys.executable, "-m", "benchmarks.peers.bare_spark", str(self._project(METRICS[:1])), self._bootstrap]

    def _project(self, metrics: list[str]) -> Path:
        self._projects += 1
        files = {
            "hourline.yaml": SETTINGS.format(bootstrap=self._bootstrap),
            "sources/orders.yaml": SOURCE.format(topic=TOPIC, fields=FIELDS),
        }
        for metric in metrics:
            dimensions = "".join(f'  d{at}: "{expression}"\n' for at, expression in enumerate(DIMENSIONS[metric]))
            measures = "".join(f'  {name}: "{text}"\n' for name, text in MEASURES.items())
            files[f"metrics/{metric}.yaml"] = f"source: orders\ndimensions:\n{dimensions}measures:\n{measures}"
        return write_files(self._folder / f"project{self._projects}", files)


def true_rows(table: pa.Table, metric: str) -> Rows:
    """DuckDB's answer over the orders: hour (ms), dimensions, measures."""
    columns = ", ".join([*DIMENSIONS[metric], *(text.replace("count", "count(*)") for text in MEASURES.values())])
    duckdb.register("orders", table)
    return duckdb.sql(f'SELECT "at" // 3600000 * 3600000, {columns} FROM orders GROUP BY ALL ORDER BY ALL').fetchall()


if __name__ == "__main__":
    run("speed", measure)
