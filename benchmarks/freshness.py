"""Measures freshness: the time from an event's scheduled send time to the first answer of DuckDB that counts it.

    python -m benchmarks.freshness [--full]

A process sends orders at 2,000 and at 20,000 per second. Each has the time at which it was due as its time stamp, even
if it was sent later. So a producer, a broker or a reader that falls behind counts as latency. `hourline speed` runs
with one metric. When progress has a new commit, the reader opens the newest snapshot and queries the count of the
merged view. It does not query in between, since the answer could not change, and the reader shares two cores with all
measured processes. With one partition, a count of n covers the first n events. The first seconds of each rate are a
warm-up, and do not count. A rate and round takes 40 seconds with `--full`; `micro_batches` measures what changes over
hours.

The peer is the smallest program that does the same: a loop of confluent-kafka, Arrow and delta-rs
(`peers/consumer_loop.py`). Arrow reads JSON and groups without a conversion to Polars. The peer appends events and
tiles at the interval of Hourline's commits just before, with the same table properties and equally frequent compaction.
It does not force files to disk, as Hourline does since 0163. `delta_scan` adds its tiles up. The peer has no
validation, no recovery and no exactly-once delivery. It only collects events until its commit, so an event waits for
half an interval on average. With Hourline, an event waits for the rest of the current micro-batch, half of one on
average, and then for its own, a whole one. At the end, both must have the correct count for each hour and shop,
computed by plain Python over all events.
"""

import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from confluent_kafka import Producer
from deltalake import DeltaTable

import serving_layer
from benchmarks.figures import Figure
from benchmarks.orders import make_project, order, turnover, turnover_of
from benchmarks.running import run
from hourline_core.ledger.layout import Layout
from hourline_core.runtime.background import SPEED, start, stop
from hourline_core.runtime.broker import Broker
from hourline_core.runtime.topics import ensure_topic
from hourline_core.sql.database import connect as open_duckdb

RATES = (2_000, 20_000)
GOALS = {2_000: (350, 700), 20_000: (500, 1_200)}
"""By rate, the goals of the median and of the 99th percentile, in milliseconds."""
WARM_UP_SECONDS = {False: 8, True: 30}
"""In quick and in full mode. During the warm-up, Java compiles. The peer needs none."""
PEER_WARM_UP_SECONDS = 2
PAUSE_SECONDS = 0.002
PATIENCE_SECONDS = 60

Moments = npt.NDArray[np.float64]
"""Seconds since 1970."""


@dataclass(frozen=True)
class Subject:
    """A measured subject: hourly counts of a topic, stored in Delta tables."""

    bootstrap: str
    topic: str
    log: Path
    """The Delta log of the table whose commits make events visible."""
    ask: Callable[[], int]
    """The number of events in the newest answer."""
    commits: Callable[[], list[tuple[int, float]]]
    """For each commit, its number of events and the time before it."""
    answer: Callable[[], list[tuple[int, str, int, int]]]
    """The rows in the form of ``turnover``."""


@dataclass(frozen=True)
class Freshness:
    """Milliseconds from the time at which events were due."""

    visible: Moments
    """Milliseconds until the first answer that counts them."""
    committed: Moments
    """Milliseconds until just before their commit."""
    interval: float
    """The median of the seconds between two commits."""


def measure(full: bool) -> Iterator[Figure | str]:
    """The figures of each rate."""
    rounds, seconds = (2, 40) if full else (2, 10)
    ours: dict[int, list[Freshness]] = {rate: [] for rate in RATES}
    peers: dict[int, list[Freshness]] = {rate: [] for rate in RATES}
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "kafka") as broker:
        for number in range(rounds):
            with hourline(Path(folder) / f"hourline{number}", broker.bootstrap, f"orders{number}") as subject:
                sent: list[int] = []
                for rate in RATES:
                    ours[rate].append(observe(subject, rate, WARM_UP_SECONDS[full], seconds, sent))
            for rate in RATES:
                topic = f"peer{number}-{rate}"
                with consumer_loop(Path(folder) / topic, broker.bootstrap, topic, ours[rate][-1].interval) as subject:
                    peers[rate].append(observe(subject, rate, PEER_WARM_UP_SECONDS, seconds, []))
    for rate in RATES:
        yield from figures(rate, ours[rate], peers[rate])


def figures(rate: int, ours: list[Freshness], peers: list[Freshness]) -> Iterator[Figure | str]:
    """The figures of one rate (events per second)."""
    what = f"{rate:,} events/s"

    def percentiles(of: list[Freshness], percent: int) -> list[float]:
        return [float(np.percentile(one.visible, percent)) for one in of]

    yield Figure(
        what=f"send to visible, {what}: p99 to p50",
        unit="ms",
        ours=percentiles(ours, 99),
        peer=percentiles(ours, 50),
        goal=2,
    )
    yield Figure(
        what=f"p50, {what}, to a minimal consumer loop",
        unit="ms",
        ours=percentiles(ours, 50),
        peer=percentiles(peers, 50),
        goal=2,
    )
    yield Figure(what=f"p50, {what}", unit="ms", ours=percentiles(ours, 50), peer=[], goal=GOALS[rate][0])
    yield Figure(what=f"p99, {what}", unit="ms", ours=percentiles(ours, 99), peer=[], goal=GOALS[rate][1])
    committed, other = ([float(np.median(one.committed)) for one in of] for of in (ours, peers))
    yield Figure(what=f"send to commit (no reader's time in it), p50, {what}", unit="ms", ours=committed, peer=other)
    interval, other_interval = (statistics.median(one.interval for one in of) * 1000 for of in (ours, peers))
    high = statistics.median(percentiles(peers, 99))
    yield f"{what}: a commit every {interval:.0f} ms (peer: {other_interval:.0f} ms); p99 of the peer {high:.0f} ms."


@contextmanager
def hourline(folder: Path, bootstrap: str, topic: str) -> Iterator[Subject]:
    """Hourline's speed layer, running, with one metric."""
    project = make_project(folder, bootstrap, topic, ["turnover"])
    progress = Layout.of(project).progress(project.sources["orders"])
    ensure_topic(bootstrap, topic, 1, {})
    start(project, SPEED)
    try:
        with serving_layer.connect(project) as connection:

            def ask() -> int:
                connection.refresh()
                ((counted,),) = connection.sql("SELECT coalesce(sum(orders), 0)::BIGINT FROM turnover").fetchall()
                return int(counted)

            def commits() -> list[tuple[int, float]]:
                rows = (
                    DeltaTable(progress)
                    .to_pyarrow_table(columns=["sequence", "records", "finished"])
                    .sort_by("sequence")
                    .to_pylist()
                )
                return [(row["records"], row["finished"].timestamp()) for row in rows]

            yield Subject(
                bootstrap,
                topic,
                Path(progress) / "_delta_log",
                ask,
                commits,
                lambda: turnover_of(connection.database, "turnover"),
            )
    finally:
        stop(project, SPEED)


@contextmanager
def consumer_loop(folder: Path, bootstrap: str, topic: str, commit_seconds: float) -> Iterator[Subject]:
    """The peer, running."""
    ensure_topic(bootstrap, topic, 1, {})
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.peers.consumer_loop", bootstrap, topic, str(folder), str(commit_seconds)]
    )
    connection, tiles, log = open_duckdb(), f"delta_scan('{folder}/tiles')", folder / "tiles" / "_delta_log"
    try:
        while not (log / _commit(0)).exists():
            assert process.poll() is None, "the consumer loop did not start"
            time.sleep(0.05)

        def ask() -> int:
            ((counted,),) = connection.sql(f"SELECT coalesce(sum(orders), 0)::BIGINT FROM {tiles}").fetchall()
            return int(counted)

        def commits() -> list[tuple[int, float]]:
            return connection.sql(
                f"SELECT sum(orders)::BIGINT, epoch(max(finished)) FROM {tiles} GROUP BY commit ORDER BY commit"
            ).fetchall()

        yield Subject(bootstrap, topic, log, ask, commits, lambda: turnover_of(connection, tiles))
    finally:
        connection.close()
        process.terminate()
        process.wait()


def observe(subject: Subject, rate: int, warm_up: int, seconds: int, sent: list[int]) -> Freshness:
    """Send at ``rate`` for so many seconds, and before that for ``warm_up``, until all is visible.

    ``sent`` are the times at which events were due before (ms); those that are sent now are added.
    """
    begin = int((time.time() + 1) * 1000)
    new = [begin + number * 1000 // rate for number in range(rate * (warm_up + seconds))]
    producer = multiprocessing.get_context("spawn").Process(
        target=send, args=(subject.bootstrap, subject.topic, len(sent), new)
    )
    producer.start()
    sent += new
    try:
        moments, counts = watch(subject, len(sent))
    finally:
        producer.terminate()
        producer.join()
    assert subject.answer() == turnover(sent), f"{subject.topic}: the counts are not those of what was sent"
    measured = np.arange(len(sent) - rate * seconds, len(sent))
    due = np.array(sent)[measured] / 1000
    brought, finished = (np.array(column, dtype=np.float64) for column in zip(*subject.commits(), strict=True))
    committed = finished[np.searchsorted(np.cumsum(brought), measured + 1)] - due
    visible = moments[np.searchsorted(counts, measured + 1)] - due
    return Freshness(visible * 1000, committed * 1000, float(np.median(np.diff(finished[finished >= due[0]]))))


def watch(subject: Subject, expected: int) -> tuple[Moments, Moments]:
    """When which count was answered, until it is ``expected``: at each new commit, once the one before has been
    answered.
    """
    moments, counts = [0.0], [float(subject.ask())]
    version = max(int(file.stem) for file in subject.log.glob("*.json"))
    changed = time.monotonic()
    while counts[-1] < expected:
        assert time.monotonic() < changed + PATIENCE_SECONDS, (
            f"{subject.topic}: {counts[-1]:.0f} of {expected} counted, and no commit for long"
        )
        if not (subject.log / _commit(version + 1)).exists():
            time.sleep(PAUSE_SECONDS)
            continue
        while (subject.log / _commit(version + 1)).exists():
            version += 1
        counts.append(float(subject.ask()))
        moments.append(time.time())
        changed = time.monotonic()
    return np.array(moments), np.array(counts)


def send(bootstrap: str, topic: str, first: int, times: list[int]) -> None:
    """Produce an order at each of ``times`` (ms), numbered from ``first``, or as soon after it as can be."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 2, "queue.buffering.max.messages": 1_000_000})
    for number, at in enumerate(times, first):
        while (ahead := at / 1000 - time.time()) > 0:
            producer.poll(0)
            time.sleep(min(ahead, PAUSE_SECONDS))
        producer.produce(topic, order(number, at))
    producer.flush()


def _commit(version: int) -> str:
    return f"{version:020}.json"


if __name__ == "__main__":
    run("freshness", measure)
