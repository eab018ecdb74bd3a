"""What an event costs the speed layer, in CPU seconds, beside Kafka Streams and a bare Spark query.

    python -m benchmarks.speed [--full]

Each drains the same preloaded topic (JSON of some 200 bytes, 4 partitions, 500 shops over three hours) in a process of its own; counted are the CPU
seconds of that process and of all that it starts, not the broker's. Without start-up means: what the large topic took more than the small one, for
each event that it has more. Hourline judges and archives each event with all its fields and computes count, sum and maximum by shop and hour, or ten
such metrics. Both peers do the one metric, parse only the fields that it needs, take each event for valid and archive nothing.

Kafka Streams runs exactly once with RocksDB and its changelog topic, caches at their defaults, and commits every second, about as often as a
micro-batch of Hourline ends; the events' key is the shop, so that it need not repartition them, and a hand-written parser and states of 20 bytes
serve it best. Bare Spark has the same session, the same settings of Kafka and the same 100,000 records a micro-batch, and hands its sums to the no-op
sink. Each answer is compared with DuckDB's over all events before its time counts; bare Spark's, which its sink forgets, once beforehand.
"""

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa

import serving_layer
from benchmarks.figures import Figure, run
from benchmarks.orders import FIELDS, fill, orders
from benchmarks.peers.streams import kafka_streams
from benchmarks.processes import cost_of, hourline
from infra.broker import Broker

QUICK = (2, {"small": 100_000, "large": 600_000})
FULL = (3, {"small": 200_000, "large": 1_500_000})
"""Rounds, and the events of both topics."""

COMMIT_MILLISECONDS = 1000
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
"""By metric; Spark and DuckDB read these expressions alike."""
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
Subject = Callable[[str], float]
"""Drains the topic of this name, checks the answer, and returns the CPU seconds."""


def measure(full: bool) -> Iterator[Figure | str]:
    """The figures of all subjects, measured in turn."""
    rounds, sizes = FULL if full else QUICK
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "kafka") as broker, kafka_streams(HEAP, COMMIT_MILLISECONDS, THREADS) as peer:
        topics = Topics(Path(folder), broker.bootstrap, sizes)
        topics.check_bare_spark("small")
        subjects: dict[str, Subject] = {
            "one": lambda topic: topics.drained(topic, METRICS[:1]),
            "streams": lambda topic: topics.streamed(topic, peer),
            "ten": lambda topic: topics.drained(topic, METRICS),
            "bare": topics.bare_spark,
        }
        seconds: dict[str, list[dict[str, float]]] = {name: [] for name in subjects}
        for _ in range(rounds):
            for name, subject in subjects.items():
                seconds[name].append({topic: subject(topic) for topic in sizes})
    yield from figures(seconds, sizes)


def figures(seconds: dict[str, list[dict[str, float]]], sizes: dict[str, int]) -> Iterator[Figure | str]:
    """What comes of the CPU seconds, by subject, of each round and topic."""
    more = sizes["large"] - sizes["small"]
    warm = {name: [more / (one["large"] - one["small"]) for one in rounds] for name, rounds in seconds.items()}
    whole = {name: [sizes["large"] / one["large"] for one in rounds] for name, rounds in seconds.items()}
    for rates, which, goals in ((warm, "without start-up", (0.25, 0.5, 2)), (whole, "start-up included", (None, None, None))):
        for name, peer, goal in (("streams", "Kafka Streams", goals[0]), ("bare", "a bare Spark query", goals[1])):
            what = f"drain with archive and 1 metric, beside {peer} without archive, {which}"
            yield Figure(what=what, unit="events per CPU s", ours=rates["one"], peer=rates[name], goal=goal, at_least=True)
        ten, one = ([1e6 / rate for rate in rates[name]] for name in ("ten", "one"))
        yield Figure(what=f"drain with archive and 10 metrics, beside 1 metric, {which}", unit="CPU µs per event", ours=ten, peer=one, goal=goals[2])
    names = {"one": "1 metric", "ten": "10 metrics", "streams": "Kafka Streams", "bare": "bare Spark"}
    small = ", ".join(f"{names[name]} {statistics.median(one['small'] for one in rounds):.1f}" for name, rounds in seconds.items())
    yield f"CPU seconds with the small topic ({sizes['small']:,} events; the large one has {sizes['large']:,}): {small}."


class Topics:
    """The small and the large topic, and what is true of them."""

    def __init__(self, folder: Path, bootstrap: str, sizes: dict[str, int]) -> None:
        self._folder, self._bootstrap = folder, bootstrap
        self._runs = 0
        self._truth: dict[tuple[str, str], Rows] = {}
        for topic, count in sizes.items():
            table = orders(count)
            fill(bootstrap, topic, table)
            self._truth |= {(topic, metric): true_rows(table, metric) for metric in METRICS}

    def drained(self, topic: str, metrics: list[str]) -> float:
        """By Hourline, in a project of its own."""
        project = self._project(topic, metrics)
        cost = cost_of(hourline(project, "speed", "--drain"))
        with serving_layer.connect(project) as connection:
            for metric in metrics:
                columns = ", ".join([*(f"d{at}" for at in range(len(DIMENSIONS[metric]))), *MEASURES])
                found = connection.sql(f"SELECT epoch_ms(hour), {columns} FROM {metric} ORDER BY ALL").fetchall()
                assert found == self._truth[topic, metric], f"hourline: {metric} of {topic} differs from what DuckDB counts"
        return cost.cpu

    def streamed(self, topic: str, command: list[str]) -> float:
        """By Kafka Streams."""
        answer = self._folder / "answer.csv"
        cost = cost_of([*command, self._bootstrap, topic, str(answer)])
        rows = [line.split(",") for line in answer.read_text().splitlines()]
        found = sorted((int(hour), shop, int(events), float(amount), int(most)) for shop, hour, events, amount, most in rows)
        assert found == self._truth[topic, "shops"], f"Kafka Streams: {topic} differs from what DuckDB counts"
        return cost.cpu

    def bare_spark(self, topic: str) -> float:
        """By the bare query, whose answer is forgotten."""
        return cost_of(self._bare_spark(topic)).cpu

    def check_bare_spark(self, topic: str) -> None:
        """Run it once with an answer that is kept."""
        answer = self._folder / "answer.parquet"
        cost_of([*self._bare_spark(topic), str(answer)])
        sums = "sum(events)::BIGINT AS events, sum(amount) AS amount, max(most) AS most"
        found = duckdb.sql(f"SELECT hour * 3600000 AS hour, shop, {sums} FROM '{answer}' GROUP BY ALL ORDER BY ALL").fetchall()
        assert found == self._truth[topic, "shops"], f"bare Spark: {topic} differs from what DuckDB counts"

    def _bare_spark(self, topic: str) -> list[str]:
        return [sys.executable, "-m", "benchmarks.peers.bare_spark", str(self._project(topic, METRICS[:1])), self._bootstrap]

    def _project(self, topic: str, metrics: list[str]) -> Path:
        self._runs += 1
        project = self._folder / f"project{self._runs}"
        files = {"hourline.yaml": SETTINGS.format(bootstrap=self._bootstrap), "sources/orders.yaml": SOURCE.format(topic=topic, fields=FIELDS)}
        for metric in metrics:
            dimensions = "".join(f'  d{at}: "{expression}"\n' for at, expression in enumerate(DIMENSIONS[metric]))
            measures = "".join(f'  {name}: "{text}"\n' for name, text in MEASURES.items())
            files[f"metrics/{metric}.yaml"] = f"source: orders\ndimensions:\n{dimensions}measures:\n{measures}"
        for name, text in files.items():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            (project / name).write_text(text)
        return project


def true_rows(table: pa.Table, metric: str) -> Rows:
    """What DuckDB finds in the orders: hour (ms), dimensions, measures."""
    columns = ", ".join([*DIMENSIONS[metric], *(text.replace("count", "count(*)") for text in MEASURES.values())])
    duckdb.register("orders", table)
    return duckdb.sql(f'SELECT "at" // 3600000 * 3600000, {columns} FROM orders GROUP BY ALL ORDER BY ALL').fetchall()


if __name__ == "__main__":
    run("speed", measure)
