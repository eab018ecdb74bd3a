"""Measures the cost of deduplication: the speed layer drains the same events with and without a declared `id`.

    python -m benchmarks.duplicates [EVENTS]

Rounds alternate (A/B/A/B). Each is a separate process. Its time is the CPU seconds of Python and its JVM, minus those
of a start with nothing to read. They are read from /proc, so this runs on Linux only. The answer is checked before a
time counts: repeated events count without the id, and do not count with it.
"""

import json
import os
import random
import statistics
import sys
import tempfile
from pathlib import Path

from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

import serving_layer
from benchmarks.processes import cost_of, hourline
from benchmarks.project_files import write_files
from hourline_core.runtime.broker import Broker
from hourline_core.runtime.topics import ensure_topic

ROUNDS = 2
REPEATED = 10  # of 100 events
HOUR_SECONDS = 3600

SOURCE = """\
topic: events
fields: {event: string, user: string, amount: double, at: long}
event_time: {expression: at, encoding: epoch_seconds}
"""
METRIC = """\
source: events
dimensions: {shard: "substring(user, 1, 2)"}
measures: {events: count, amount: "sum(amount)"}
"""
SETTINGS = """\
name: duplicates
kafka: {bootstrap: "${KAFKA}"}
"""


def main(events: int) -> None:
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "kafka") as broker:
        distinct = fill(broker.bootstrap, events)
        seconds: dict[str, list[float]] = {"without": [], "with": []}
        for number in range(ROUNDS):
            for kind, measured in seconds.items():
                project = make(Path(folder) / f"{kind}{number}", with_id=kind == "with")
                cost = drain(project, broker.bootstrap)
                counted = count(project, broker.bootstrap)
                expected = distinct if kind == "with" else events
                assert counted == expected, f"{kind} id: {counted} counted, {expected} expected"
                measured.append(cost - drain(project, broker.bootstrap))  # the second run has nothing to read
    table = Table(
        "id",
        "CPU s, median",
        "lowest",
        "highest",
        "events per CPU s",
        title=f"{events:,} events, {events - distinct:,} of them repeated",
    )
    for kind, values in seconds.items():
        middle = statistics.median(values)
        table.add_row(kind, f"{middle:.1f}", f"{min(values):.1f}", f"{max(values):.1f}", f"{events / middle:,.0f}")
    Console().print(table)
    ratio = statistics.median(seconds["without"]) / statistics.median(seconds["with"])
    print(f"ratio of the medians: {ratio:.2f}")  # noqa: T201


def fill(bootstrap: str, events: int) -> int:
    """Produce the events, over three hours. Returns the number of distinct ids."""
    ensure_topic(bootstrap, "events", 1, {})
    rand = random.Random(1)  # noqa: S311 (the same each time)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50})
    sent: list[bytes] = []
    repeated = 0
    for number in range(events):
        if sent and rand.randrange(100) < REPEATED:
            value = rand.choice(sent)
            repeated += 1
        else:
            at = 1_700_000_000 + number * 3 * HOUR_SECONDS // events
            value = json.dumps(
                {
                    "event": f"event-{number}",
                    "user": f"{rand.randrange(100_000):05d}",
                    "amount": rand.random() * 100,
                    "at": at,
                }
            ).encode()
            sent.append(value)
        producer.produce("events", value)
        if number % 10_000 == 0:
            producer.flush()
    producer.flush()
    return events - repeated


def make(folder: Path, *, with_id: bool) -> Path:
    """A project that reads the topic."""
    source = SOURCE + ("id: event\n" if with_id else "")
    return write_files(
        folder, {"hourline.yaml": SETTINGS, "sources/events.yaml": source, "metrics/traffic.yaml": METRIC}
    )


def drain(project: Path, bootstrap: str) -> float:
    """Run the speed layer until it has read everything. Returns the CPU seconds of its process and descendants."""
    return cost_of(hourline(project, "speed", "--drain"), {"KAFKA": bootstrap}).cpu


def count(project: Path, bootstrap: str) -> int:
    os.environ["KAFKA"] = bootstrap
    with serving_layer.connect(project) as connection:
        ((counted,),) = connection.sql("SELECT sum(events)::BIGINT FROM traffic").fetchall()
    return int(counted)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500_000)
