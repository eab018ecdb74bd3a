"""Measures two streams that are joined, in both layers, compared with Kafka Streams and with plain DuckDB.

    python -m benchmarks.joins [--full]

An order of a day has one payment, which is up to ten minutes later. Orders and payments are in topics of their own
(JSON of 170 and 130 bytes, 4 partitions each), with the number of the order as key.

In the speed layer, each subject drains both topics in a separate process, as in the benchmark `speed`, with its
settings and rules. Hourline validates and archives orders, payments and pairs with all their fields, and computes count
and two sums of the pairs by shop and hour. Kafka Streams joins with its default stores, RocksDB with changelog topics,
exactly once, and writes the pairs to a topic. It has the best conditions: both topics have the same partitions and the
key of the join, so nothing is repartitioned, it keeps only the fields that the metric needs, and it computes no metric.
The events are those of both topics. The metric, and the sums of the pairs in the topic, are compared with DuckDB's over
all orders and payments before a time counts.

In the batch layer, the day that Hourline drained is recomputed as in the benchmark `recompute`, from the archived
pairs. One peer is a script in which DuckDB joins the data files of both archives, groups, and delta-rs replaces the
result. The other one groups the archived pairs.

A topic of payments (JSON of 90 bytes, one in ten a correction of an earlier one) is drained with a snapshot, with an
upsert, and with neither. The table of the snapshot has a row for each of 2,000 customers. The archived rows that are
not taken back are compared with DuckDB's answer.

Then the speed layer and its Kafka are killed with -9 while it joins, with 200,000 orders (full: a million) that may all
have a partner among the next payments: `within` is a day. Payments are sent meanwhile. The time is that from the start
of `hourline up` until a query shows all pairs. The peer is the same with 1,000 orders. All pairs are there exactly
once. After that, payments of orders at any time come, so that each micro-batch reads the archive of the whole day. The
memory of Kafka and the speed layer together is the proportional set size, and so is that of the largest Python worker.
The last figure is the time from such payments to the visible pairs, with `spark.worker_memory` at 24 MB for each core,
and with the default. All pairs are compared in both.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from confluent_kafka import Producer

from benchmarks.draining import Drained, drained
from benchmarks.figures import Figure
from benchmarks.join_state import of_join_state
from benchmarks.joined_day import of_joined_day
from benchmarks.paid_orders import (
    ORDERS,
    PAID,
    PAYMENTS,
    found_pairs,
    make_orders,
    pay,
    produce_orders,
    produce_payments,
    true_pairs,
    write_project,
)
from benchmarks.peers.pairs import read_pairs
from benchmarks.peers.streams import kafka_streams
from benchmarks.preloaded import PARTITIONS
from benchmarks.processes import hourline
from benchmarks.recompute import ROUNDS
from benchmarks.running import run
from benchmarks.speed import COMMIT_MILLISECONDS, HEAP, THREADS
from benchmarks.tables import of_tables
from hourline_core.runtime.broker import Broker
from hourline_core.runtime.topics import ensure_topic

QUICK = (1, 200_000, 200_000)
FULL = (3, 500_000, 500_000)
"""The numbers of rounds, of orders, and of events in the start-up."""
MINUTES = 10
TO_STREAMS = 0.4


class PaidTopics:
    """The topics of ``orders`` and ``payments``. ``first`` of their events are the start-up of each subject."""

    def __init__(self, folder: Path, bootstrap: str, orders: pa.Table, first: int) -> None:
        self._folder, self._bootstrap = folder, bootstrap
        self._rounds = 0
        payments = pay(orders, MINUTES)
        self._sizes = (len(orders) + len(payments), first)
        self.truth = true_pairs(orders, payments)
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50})
        for topic in (ORDERS, PAYMENTS):
            ensure_topic(bootstrap, topic, PARTITIONS, {})
        produce_orders(producer, orders)
        produce_payments(producer, payments)
        producer.flush()

    @property
    def project(self) -> Path:
        """The project of the last drain."""
        return self._folder / f"project{self._rounds}"

    def by_hourline(self) -> Drained:
        """Hourline, in its own project."""
        self._rounds += 1
        write_project(self.project, f'{{bootstrap: "{self._bootstrap}"}}', f"{MINUTES}m")
        done = drained(hourline(self.project, "speed", "--drain"), *self._sizes, joined=PAID)
        assert found_pairs(self.project) == self.truth, "Hourline differs from what DuckDB joins"
        return done

    def by_kafka_streams(self, command: list[str]) -> Drained:
        """Kafka Streams, with the command line of ``kafka_streams``."""
        pairs = f"pairs{self._rounds}"
        ensure_topic(self._bootstrap, pairs, PARTITIONS, {})
        arguments = [self._bootstrap, ORDERS, PAYMENTS, pairs, str(MINUTES * 60_000)]
        done = drained([*command, *arguments], *self._sizes)
        assert read_pairs(self._bootstrap, pairs) == self.truth, "Kafka Streams differs from what DuckDB joins"
        return done


def measure(full: bool) -> Iterator[Figure | str]:
    """The figures of both layers, of tables, and of a kill."""
    rounds, count, first = FULL if full else QUICK
    ours: list[Drained] = []
    streams: list[Drained] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Broker(Path(folder) / "kafka") as broker,
        kafka_streams(HEAP, COMMIT_MILLISECONDS, THREADS, "JoinedStreams") as peer,
    ):
        topics = PaidTopics(Path(folder), broker.bootstrap, make_orders(count), first)
        for _ in range(rounds):
            ours.append(topics.by_hourline())
            streams.append(topics.by_kafka_streams(peer))
        yield from figures(ours, streams)
        yield from of_joined_day(topics.project, topics.truth, MINUTES, ROUNDS[full])
    yield from of_tables(full)
    yield from of_join_state(full)


def figures(ours: list[Drained], streams: list[Drained]) -> Iterator[Figure]:
    """Those of drains."""
    what = "two topics joined, archive of both and of the pairs, and 1 metric, beside Kafka Streams"
    for which, goal in (("without start-up", TO_STREAMS), ("start-up included", None)):
        rates = [[one.warm if goal else one.whole for one in of] for of in (ours, streams)]
        yield Figure(
            what=f"{what}, {which}",
            unit="events per CPU s",
            ours=rates[0],
            peer=rates[1],
            goal=goal,
            at_least=True,
        )


if __name__ == "__main__":
    run("joins", measure)
