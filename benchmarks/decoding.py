"""Measures the CPU time of decoding a day of events anew and recomputing it, compared with Kafka Streams.

    python -m benchmarks.decoding [--full]

A topic has a day of orders (1.2 million, full: 8 million; the JSON of `speed`). Hourline drains it under a declaration
without the quantity, and recomputes its hours. Then the source declares the quantity, and the metric its maximum, and
the speed layer starts once with that. So `hourline recompute` must decode all records from their bytes, and publishes
count, sum and maximum by shop and hour.
Each round declares the quantity under another name, since what was decoded once is kept. The recompute after it, under
the same declaration, takes the fields as they were decoded, and is a figure of its own.

The CPU seconds of the command and its descendants count. "Without start-up" is what a further event costs, as in
`speed`, and for both subjects after the same number of events: 400,000, with `--full` three million. Of Hourline, what
the same command takes for a day of only these is subtracted: the start of Python and of Spark, most of what Java
compiles, and the audit of 25 hours. In a quick run, the smaller day runs without Java's second compiler, as every
recompute below a million events, so the difference contains what that compiler takes: only a full run tells what an
event costs. Kafka Streams drains the same topic in the same run, and its time is from its first commit after that
number of events. Every result is compared with DuckDB's over all orders before its time counts.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import pyarrow as pa

import serving_layer
from benchmarks.draining import Drained
from benchmarks.figures import Figure
from benchmarks.order_drains import SHOPS, OrderTopic
from benchmarks.order_metrics import MEASURES, METRICS, TOPIC, OrderMetric, Rows, write_project
from benchmarks.peers.streams import kafka_streams
from benchmarks.preloaded import FIELDS, FIRST, fill, orders
from benchmarks.processes import cost_of, hourline
from benchmarks.running import run
from benchmarks.speed import COMMIT_MILLISECONDS, HEAP, THREADS
from hourline_core.model.hours import HOUR, hour_text
from hourline_core.runtime.broker import Broker

QUICK = (1, 1_200_000, 400_000)
FULL = (3, 8_000_000, 3_000_000)
"""The numbers of rounds, of events in the day, and of those in the start-up."""
HOURS = 24
GOAL = 2.0

QUANTITY = "quantity: int"
SHOP = METRICS[SHOPS].dimensions


@dataclass
class Day:
    """A day of orders in a topic, and the project in ``folder`` that archives them."""

    folder: Path
    bootstrap: str
    topic: str
    count: int
    truth: Rows

    def declare(self, quantity: str | None) -> None:
        """Write the project (see ``write_day``), and start the speed layer, which drains what is left and makes the
        metric's table.
        """
        write_day(self.folder, self.bootstrap, self.topic, quantity)
        cost_of(hourline(self.folder, "speed", "--drain"))

    def recompute(self) -> float:
        """Recompute all hours, and return the CPU seconds."""
        first = datetime.fromtimestamp(FIRST // 1000, UTC).replace(minute=0, second=0)
        hours = ["--from", hour_text(first), "--to", hour_text(first + (HOURS + 1) * HOUR)]
        return cost_of(hourline(self.folder, "recompute", *hours, "--include-open")).cpu

    def check(self) -> None:
        """Raise AssertionError unless the published rows are right."""
        with serving_layer.connect(self.folder) as connection:
            columns = ", ".join(METRICS[SHOPS].names)
            found = connection.sql(f"SELECT epoch_ms(hour), {columns} FROM {SHOPS}_final ORDER BY ALL").fetchall()
        assert found == self.truth, f"the recomputed day of {self.count:,} differs from what DuckDB counts"


@dataclass(frozen=True)
class Decoded:
    """CPU seconds of the first recompute under a declaration, and of the second."""

    anew: float
    kept: float


def measure(full: bool) -> Iterator[Figure | str]:
    rounds, events, first = FULL if full else QUICK
    whole: list[Decoded] = []
    started: list[Decoded] = []
    streams: list[Drained] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Broker(Path(folder) / "kafka") as broker,
        kafka_streams(HEAP, COMMIT_MILLISECONDS, THREADS) as peer,
    ):
        root, table, part = Path(folder), orders(events, HOURS), orders(first, HOURS)
        topic = OrderTopic(root, broker.bootstrap, table, first)
        fill(broker.bootstrap, "part", part)
        day = a_day(root / "day", broker.bootstrap, TOPIC, table)
        start_up = a_day(root / "part", broker.bootstrap, "part", part)
        for number in range(rounds):
            started.append(decoded(start_up, f"quantity{number}"))
            whole.append(decoded(day, f"quantity{number}"))
            streams.append(topic.by_kafka_streams(peer))
    yield from figures(events, first, whole, started, streams)


def figures(
    events: int, first: int, whole: list[Decoded], started: list[Decoded], streams: list[Drained]
) -> Iterator[Figure | str]:
    """The figures from the rounds: of the day of ``events``, of that of the ``first`` of them, and of the peer."""
    warm = [1e6 / one.warm for one in streams]
    for what, which, goal in (
        (f"a day of {events:,} events decoded anew and recomputed", "anew", GOAL),
        ("the same day recomputed from what was decoded", "kept", None),
    ):
        took, start_up = ([getattr(one, which) for one in of] for of in (whole, started))
        yield Figure(
            what=f"{what}, beside Kafka Streams, without start-up",
            unit="CPU µs per event",
            ours=[(both - start) / (events - first) * 1e6 for both, start in zip(took, start_up, strict=True)],
            peer=warm,
            goal=goal,
        )
        yield Figure(
            what=f"{what}, beside Kafka Streams, start-up included",
            unit="CPU µs per event",
            ours=[seconds / events * 1e6 for seconds in took],
            peer=[1e6 / one.whole for one in streams],
        )
        yield f"{what}: {median(took):.1f} CPU s; a day of {first:,} events: {median(start_up):.1f} CPU s."


def write_day(folder: Path, bootstrap: str, topic: str, quantity: str | None) -> Path:
    """Write the project with the quantity under a name, and its maximum as a measure. None: without both."""
    if quantity is None:
        measures = {name: text for name, text in MEASURES.items() if "quantity" not in text}
        fields = FIELDS.replace(f"{QUANTITY}, ", "")
    else:
        measures = {**MEASURES, "most": f"max({quantity})"}
        fields = FIELDS.replace(QUANTITY, f"{quantity}: {{type: int, key: quantity}}")
    return write_project(folder, bootstrap, {SHOPS: OrderMetric(SHOP, measures)}, fields=fields, topic=topic)


def a_day(folder: Path, bootstrap: str, topic: str, table: pa.Table) -> Day:
    """An archived and published day of the orders of ``table``, which are in the topic."""
    day = Day(folder, bootstrap, topic, table.num_rows, METRICS[SHOPS].true_rows(table))
    day.declare(None)
    day.recompute()
    return day


def decoded(day: Day, quantity: str) -> Decoded:
    """Declare the ``quantity`` under this name, and recompute the day twice."""
    day.declare(quantity)
    anew = day.recompute()
    day.check()
    kept = day.recompute()
    day.check()
    return Decoded(anew, kept)


if __name__ == "__main__":
    run("decoding", measure)
