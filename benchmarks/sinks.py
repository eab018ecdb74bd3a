"""Measures the CPU time of sending changed results to a compacted topic, compared with Kafka Streams.

    python -m benchmarks.sinks [--full]

An hour has 10,000 results (shops) with count, sum and maximum. The product's own commits write micro-batches without
Spark. Each changes all results of the newest hour, or a tenth of them. After each one, the process of the benchmark
does what `hourline send` does: it takes a new snapshot, and the sink sends what differs to a topic with 4 partitions,
with `emit: batch`. The CPU time of the process counts that this takes, in all of its threads. What computes the results
is not in it, and `speed` measures that. Each hour begins with a micro-batch of all results and two more, which do not
count. The hour before is published then, so its results are sent again, as `final`.

Kafka Streams computes the same three measures by hour and shop of a preloaded topic (4 partitions, 12 bytes), in a
process of its own: exactly once, with RocksDB and its changelog topic, and a commit every half second. It has no cache,
so that each event is a changed result, which it sends to another compacted topic as JSON, with the same key and
measures. It has the best conditions: nothing is repartitioned or parsed, and a result has no state, token, revision and
headers. Its CPU time is that of the whole process per event, after the start-up. An event is the least that changes a
result, so the aggregation of one event is in this time. "Its output alone" leaves that out: it is the difference to a
run of the same without an output.

The broker's time counts for neither. All records of both topics are read before a time counts. Their number is that of
changed results, and the newest of each key has the measures that Arrow or plain Python computes of the events.
"""

import struct
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from confluent_kafka import Producer

from benchmarks.archive import FIRST
from benchmarks.changing_hours import SHOPS, TOPIC, ChangingHours, amounts
from benchmarks.draining import drained
from benchmarks.figures import Figure
from benchmarks.peers.streams import kafka_streams
from benchmarks.peers.updates import Results, read_updates
from benchmarks.preloaded import PARTITIONS
from benchmarks.running import run
from benchmarks.speed import COMMIT_MILLISECONDS, HEAP, THREADS
from hourline_core.model.hours import iso_text, wall_clock
from hourline_core.runtime.broker import Broker
from hourline_core.runtime.compacted_topic import ensure_compacted_topic
from hourline_core.runtime.topics import ensure_topic
from serving_layer.sinks.sender import Sender
from serving_layer.snapshots import Snapshots

QUICK = (1, 4, 240_000, 120_000)
FULL = (3, 30, 1_500_000, 600_000)
"""The numbers of rounds, of micro-batches that count in a round, of events for Kafka Streams, and of those in its
start-up.
"""
SETTLING = 2
_MOST_QUEUED = 50_000
EVENTS = "sales"
CASES = {SHOPS: "all 10,000 results of an hour change", SHOPS // 10: "1,000 of 10,000 results of an hour change"}
"""By the number of results that a micro-batch changes."""


class Sent:
    """A project whose results are sent."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._hours = ChangingHours(folder, bootstrap)
        self._hours.begin_hour()
        project = self._hours.project
        self._snapshots = Snapshots(project)
        self._sender = Sender(project, project.sinks["turnover"], wall_clock)
        self._count = 0

    def rate(self, micro_batches: int, changed: int) -> float:
        """The results per CPU second of so many micro-batches in a new hour, each with ``changed`` results."""
        self._hours.begin_hour()
        self._send()
        used, sent = 0.0, 0
        for number in range(SETTLING + micro_batches):
            self._hours.change(range(changed))
            before = self._count
            seconds = self._send()
            if number >= SETTLING:
                used, sent = used + seconds, sent + self._count - before
        assert sent == micro_batches * changed, f"{sent:,} results were sent"
        assert read_updates(self._bootstrap, TOPIC) == (self._count, self._hours.truth), "the topic has other results"
        return sent / used

    def close(self) -> None:
        """End its connections."""
        self._sender.close()
        self._snapshots.close()

    def _send(self) -> float:
        """The CPU seconds of sending what has changed."""
        began = time.process_time()
        self._snapshots.renew()
        sent, _ = self._sender.send_changes(self._snapshots.reader())
        seconds = time.process_time() - began
        self._count += sent
        return seconds


class Streams:
    """A topic of events, which Kafka Streams drains. ``first`` of them are its start-up."""

    def __init__(self, bootstrap: str, command: list[str], events: int, first: int) -> None:
        self._bootstrap, self._command, self._sizes = bootstrap, command, (events, first)
        self._runs = 0
        self._truth = _send_events(bootstrap, events)

    def rate(self) -> float:
        """The updates per CPU second, all of which are sent."""
        self._runs += 1
        topic = f"updates{self._runs}"
        ensure_compacted_topic(self._bootstrap, topic, PARTITIONS, {})
        done = drained([*self._command, self._bootstrap, EVENTS, topic], *self._sizes)
        found = read_updates(self._bootstrap, topic)
        assert found == (self._sizes[0], self._truth), "Kafka Streams has other results"
        return done.warm

    def rate_without_output(self) -> float:
        """The same without sending them."""
        return drained([*self._command, self._bootstrap, EVENTS], *self._sizes).warm


def measure(full: bool) -> Iterator[Figure | str]:
    """The figures of both, which take turns."""
    rounds, micro_batches, events, first = FULL if full else QUICK
    ours: dict[int, list[float]] = {changed: [] for changed in CASES}
    streams: list[float] = []
    silent: list[float] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Broker(Path(folder) / "kafka") as broker,
        kafka_streams(HEAP, COMMIT_MILLISECONDS, THREADS, "UpdatedStreams") as command,
    ):
        peer = Streams(broker.bootstrap, command, events, first)
        sent = Sent(Path(folder) / "project", broker.bootstrap)
        for _ in range(rounds):
            for changed, found in ours.items():
                found.append(sent.rate(micro_batches, changed))
            streams.append(peer.rate())
            silent.append(peer.rate_without_output())
        sent.close()
    output = [1 / (1 / whole - 1 / without) for whole, without in zip(streams, silent, strict=True)]
    for changed, what in CASES.items():
        for beside, rates in (("Kafka Streams", streams), ("its output alone", output)):
            yield Figure(
                what=f"sending, {what}, beside {beside}",
                unit="results per CPU s",
                ours=ours[changed],
                peer=rates,
                at_least=True,
            )


def _send_events(bootstrap: str, count: int) -> Results:
    """Send ``count`` events of one hour, of each shop in turn. Returns the results."""
    ensure_topic(bootstrap, EVENTS, PARTITIONS, {})
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
    moment, found = int(FIRST.timestamp() * 1000), defaultdict[str, list[int]](list)
    for number, amount in enumerate(amounts(np.arange(count)).tolist()):
        shop = f"shop-{number % SHOPS:04}"
        if len(producer) >= _MOST_QUEUED:
            producer.flush()
        producer.produce(EVENTS, struct.pack(">qi", moment, amount), shop)
        found[shop].append(amount)
    producer.flush()
    return {(iso_text(FIRST), shop): (len(of), sum(of), max(of)) for shop, of in found.items()}


if __name__ == "__main__":
    run("sinks", measure)
