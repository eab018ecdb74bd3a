"""What a snapshot and an upsert cost, to a metric over the same records alone."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from confluent_kafka import Producer

from benchmarks.draining import Drained, drained
from benchmarks.figures import Figure
from benchmarks.preloaded import FIRST, HOUR_MILLISECONDS, PARTITIONS
from benchmarks.processes import hourline
from benchmarks.project_files import write_files
from hourline_core.runtime.broker import Broker
from hourline_core.runtime.topics import ensure_topic
from serving_layer import connect

CHANGES = {False: (1, 200_000), True: (3, 1_000_000)}
"""The numbers of rounds, and of records."""
HOURS, CUSTOMERS, CORRECTED = 24, 2_000, 10
"""The time of the records, the rows of the table, and the part of the payments that are corrected: one in so many."""
_BEGIN = FIRST // HOUR_MILLISECONDS * HOUR_MILLISECONDS
_FILES = {
    "sources/payments.yaml": """\
topic: payments
partitions: 4
fields: {payment: long, version: int, customer: string, amount: double, at: long}
event_time: {expression: at, encoding: epoch_milliseconds}
grace: 0s
""",
    "metrics/paid.yaml": "source: payments\nmeasures: {rows: count, amount: sum(amount)}\n",
}
_DERIVED = {
    "snapshot": "snapshot: {of: payments, key: customer, columns: amount}\n",
    "upsert": "upsert: {of: payments, key: payment, version: version, within: 1h, columns: amount}\n",
}
_TRUTH = {
    "payments": "SELECT hour, count(*), sum(amount) FROM changes GROUP BY ALL ORDER BY ALL",
    "upsert": """
        SELECT hour, count(*), sum(amount) FROM changes
        WHERE version = 2 OR payment NOT IN (SELECT payment FROM changes WHERE version = 2)
        GROUP BY ALL ORDER BY ALL""",
    "snapshot": f"""
        SELECT hour, count(*), sum(amount)
        FROM (SELECT hours.hour, customer, arg_max(amount, "at") AS amount
              FROM changes JOIN (SELECT DISTINCT hour FROM changes) hours ON "at" < hours.hour + {HOUR_MILLISECONDS}
              GROUP BY ALL)
        GROUP BY ALL ORDER BY ALL""",
}
Rows = list[tuple[int, int, float]]
"""Hour (ms), rows and their amount; sorted."""


def make_changes(count: int) -> pa.Table:
    """``count`` records in the order of their times, which all differ. Amounts are quarters, so sums are exact."""
    random = np.random.default_rng(1)
    number = np.arange(count)
    again = (number % CORRECTED == CORRECTED - 1) & (number > CORRECTED)
    at = _BEGIN + number * (HOURS * HOUR_MILLISECONDS) // count
    return pa.table(
        {
            "payment": np.where(again, number - CORRECTED // 2, number),
            "version": np.where(again, 2, 1),
            "customer": random.integers(0, CUSTOMERS, count),
            "amount": random.integers(1, 40_000, count) / 4,
            "at": at,
            "hour": at // HOUR_MILLISECONDS * HOUR_MILLISECONDS,
        }
    )


def of_tables(full: bool) -> Iterator[Figure]:
    """The figures of a snapshot and an upsert, whose drains take turns with those without."""
    rounds, count = CHANGES[full]
    changes = make_changes(count)
    found: dict[str, list[Drained]] = {"payments": [], **{kind: [] for kind in _DERIVED}}
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "kafka") as broker:
        last = _produce(broker.bootstrap, changes)
        for number in range(rounds):
            for source, drains in found.items():
                project = _write_project(Path(folder) / f"{source}{number}", broker.bootstrap, source)
                command = hourline(project, "speed", "--drain")
                drains.append(drained(command, count + last, count // 4, joined=source if source in _DERIVED else None))
                assert _answer(project, source) == _truth(changes, source), f"the {source} is wrong"
    for kind in _DERIVED:
        what = f"of {CUSTOMERS:,} rows each hour" if kind == "snapshot" else f"with {100 / CORRECTED:g} % corrections"
        yield Figure(
            what=f"{kind} {what}, with a metric over it, to one over its records alone, without start-up",
            unit="CPU µs per record",
            ours=[1e6 / one.warm for one in found[kind]],
            peer=[1e6 / one.warm for one in found["payments"]],
        )


def _write_project(folder: Path, bootstrap: str, source: str) -> Path:
    files = {
        "hourline.yaml": f'name: tables\nkafka: {{bootstrap: "{bootstrap}"}}\nspeed: {{max_records_per_batch: 50000}}\n'
    }
    if source in _DERIVED:
        files[f"sources/{source}.yaml"] = f"{_DERIVED[source]}grace: 0s\n"
        files["metrics/derived.yaml"] = f"source: {source}\nmeasures: {{rows: count, amount: sum(amount)}}\n"
    return write_files(folder, {**_FILES, **files})


def _produce(bootstrap: str, changes: pa.Table) -> int:
    """Send all, and records of later hours that let the clocks of all partitions pass. Returns how many these are."""
    ensure_topic(bootstrap, "payments", PARTITIONS, {})
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 2_000_000})
    columns = (changes[name].to_pylist() for name in ("payment", "version", "customer", "amount", "at"))
    for payment, version, customer, amount, at in zip(*columns, strict=True):
        _send(producer, payment % PARTITIONS, payment, version, customer, amount, at)
    end, later = _BEGIN + (HOURS + 2) * HOUR_MILLISECONDS, 6
    for partition in range(PARTITIONS):
        for second in range(later):
            _send(producer, partition, -PARTITIONS * second - partition - 1, 1, -1, 0.0, end + second * 1000)
    producer.flush()
    return PARTITIONS * later


def _send(
    producer: Producer, partition: int, payment: int, version: int, customer: int, amount: float, at: int
) -> None:
    value = (
        f'{{"payment": {payment}, "version": {version}, "customer": "customer-{customer}", "amount": {amount}, '
        f'"at": {at}}}'
    )
    producer.produce("payments", value, partition=partition)
    producer.poll(0)


def _answer(project: Path, source: str) -> Rows:
    """The rows of the hours before the last ones. What was taken back is left out, as a recompute would."""
    end = _BEGIN + HOURS * HOUR_MILLISECONDS
    with connect(project) as connection:
        if source == "payments":
            query = "SELECT epoch_ms(hour) AS hour, rows, amount FROM paid"
        else:
            row = "upsert_row" if source == "upsert" else "snapshot_time, snapshot_row"
            events = f"FROM events_{source} QUALIFY count(*) OVER (PARTITION BY {row}) = 1"
            query = f"SELECT epoch_ms(hour) AS hour, count(*), sum(amount) FROM ({events}) GROUP BY ALL"
        return connection.sql(f"FROM ({query}) WHERE hour < {end} ORDER BY ALL").fetchall()


def _truth(changes: pa.Table, source: str) -> Rows:
    with duckdb.connect() as connection:
        connection.register("changes", changes)
        return connection.sql(_TRUTH[source]).fetchall()
