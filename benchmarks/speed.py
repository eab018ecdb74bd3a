"""Measures the CPU time of an event in the speed layer, compared with Kafka Streams and a bare Spark query.

    python -m benchmarks.speed [--full]

Each subject drains the same preloaded topic (JSON of about 200 bytes, 4 partitions, 500 shops over three hours) in a
separate process. The CPU seconds of that process and its descendants count, but not those of the broker. "Without
start-up" is from the first commit after 400,000 events (with `--full`, three million) to the last one, as reported by
the process. By then, Java has compiled almost all; the rest is reported as the share of its compilers. Hourline
validates and archives each event with all its fields, and computes count, sum and maximum by shop and hour, or ten such
metrics. Both peers compute the one metric, parse only the fields that it needs, treat each event as valid, and archive
nothing.

"With expressions" is Hourline with an id, a derived field and a condition, all three in Spark SQL: each event has a
derived amount, the metric sums that of the events that fulfil the condition, and no event may count twice. Kafka
Streams stays the same, without these.

Kafka Streams runs exactly once with RocksDB and its changelog topic, with default caches. It commits every half second.
It has the best conditions: the key is the shop, so it need not repartition, the parser is written by hand, and a state
has 20 bytes. Its classes are not archived, unlike those of Spark. Hourline has the micro-batches that it chooses in a
backlog. A drain is too short for its maintenance and for more than a few of its merges; `micro_batches` has those. Bare
Spark has the same session, and as many records per micro-batch as the largest one of Hourline had in the drain before.
It writes its sums to the no-op sink. Each answer is compared with DuckDB's over all events before its time counts. The
answer of bare Spark, which its sink discards, is checked in a separate run.

The driver's CPU time is that of Hourline's first process, in which Python runs, and that of its Java outside Spark's
tasks, compilers and garbage collection. Linux tells threads by their names. What runs in other processes is not the
driver's.
"""

import statistics
import tempfile
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path

from benchmarks.draining import Drained
from benchmarks.figures import Figure
from benchmarks.order_drains import SHOPS, OrderTopic
from benchmarks.order_metrics import CONDITIONAL, METRICS, WITH_EXPRESSIONS
from benchmarks.peers.streams import kafka_streams
from benchmarks.preloaded import orders
from benchmarks.running import run
from hourline_core.runtime.broker import Broker

QUICK = (2, 1_200_000, 400_000)
FULL = (3, 4_500_000, 3_000_000)
"""The numbers of rounds, of events in the topic, and of those in the start-up."""

COMMIT_MILLISECONDS = 500
THREADS = 2
HEAP = "1g"

NAMES = {
    "one": "1 metric",
    "streams": "Kafka Streams",
    "expressions": "1 metric with expressions",
    "ten": "10 metrics",
    "bare": "bare Spark",
}
"""The subjects, in the order in which they take turns."""

RATIOS = [
    ("archive and 1 metric", "one", "streams", 0.4),
    ("archive and 1 metric with a derived field, a condition and an id in Spark SQL", "expressions", "streams", 0.2),
    ("archive and 1 metric", "one", "bare", 1.2),
]
"""What it is, the subject, its peer, and the goal for the rate without start-up."""
TEN_TO_ONE = 1.4

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
        topic = OrderTopic(Path(folder), broker.bootstrap, orders(events), first)
        subjects: dict[str, Subject] = {
            "one": lambda: topic.by_hourline({SHOPS: METRICS[SHOPS]}),
            "streams": lambda: topic.by_kafka_streams(peer),
            "expressions": lambda: topic.by_hourline(CONDITIONAL, WITH_EXPRESSIONS),
            "ten": lambda: topic.by_hourline(METRICS),
            "bare": topic.by_bare_spark,
        }
        found: dict[str, list[Drained]] = {name: [] for name in NAMES}
        for _ in range(rounds):
            for name in NAMES:
                found[name].append(subjects[name]())
        topic.check_bare_spark()
    yield from figures(found)
    yield f"Share of Java's compilers in the CPU time without start-up: {medians(found, 'compiling', '.0%')}."
    yield f"Share of Java's garbage collection: {medians(found, 'collecting', '.0%')}."
    started = medians(found, "started", ".0f")
    yield f"{events:,} events; CPU seconds of the start-up with the first {first:,} of them: {started}."
    ours = {name: found[name] for name in ("one", "expressions", "ten", "bare")}
    yield f"Records in the largest micro-batch: {medians(ours, 'largest', ',.0f')}."


def figures(found: dict[str, list[Drained]]) -> Iterator[Figure]:
    """The figures from the rounds of each subject."""
    for which, attribute in (("without start-up", "warm"), ("start-up included", "whole")):
        rates = {name: list(map(attrgetter(attribute), of)) for name, of in found.items()}
        for what, name, peer, goal in RATIOS:
            beside = "a bare Spark query" if peer == "bare" else NAMES[peer]
            yield Figure(
                what=f"{what}, beside {beside}, {which}",
                unit="events per CPU s",
                ours=rates[name],
                peer=rates[peer],
                goal=goal if attribute == "warm" else None,
                at_least=True,
            )
        ten, one = ([1e6 / rate for rate in rates[name]] for name in ("ten", "one"))
        yield Figure(
            what=f"archive and 10 metrics, beside 1, {which}",
            unit="CPU µs per event",
            ours=ten,
            peer=one,
            goal=TEN_TO_ONE if attribute == "warm" else None,
        )
    for name in ("one", "expressions"):
        for whose, used in (("Python process", "driver"), ("Java outside tasks", "java")):
            yield Figure(
                what=f"the driver's {whose}, archive and {NAMES[name]}, without start-up",
                unit="CPU µs per event",
                ours=list(map(attrgetter(used), found[name])),
                peer=[],
            )


def medians(found: dict[str, list[Drained]], which: str, form: str) -> str:
    """The medians of each subject's rounds, as text."""
    return ", ".join(
        f"{NAMES[name]} {statistics.median(map(attrgetter(which), of)):{form}}" for name, of in found.items()
    )


if __name__ == "__main__":
    run("speed", measure)
