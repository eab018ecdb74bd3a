"""Measures the time of a micro-batch, compared with the same query without a sink, and after hours of commits.

    python -m benchmarks.micro_batches [--full]

*To the same query with no sink*: in one Spark session, two subjects in turn drain the same preloaded topic with the
same number of records per micro-batch. One is the speed layer (three metrics, archive, five Delta tables). The other is
a bare query: the same parsing, its rows persisted and written to Spark's `noop` sink, then the same three aggregations
into `noop`, in parallel. A micro-batch's time is from the end of one to the end of the next, so
it includes all that Spark does in between. The first ones of each run do not count, and Java has compiled during the
part below, which runs first. Both wait for the files of Spark's checkpoint, since both drain. `hourline speed` waits
for them only when it drains.

*Last hundred to first hundred*: one run of many small micro-batches on the real stream. The first ones do not count,
while Java compiles. Four hours at one per second would be 14,400, which takes too long. So commits without Spark are
measured in addition: the tables of `benchmarks/history.py`, written by the product's own commits and maintenance, over
four hours of event time, each published at its end. Log entries and old files are kept for two hours, so nothing
becomes old enough to be cleaned up in this compressed time. These are CPU milliseconds, to exclude other load. A commit
costs more with each file of the table, until maintenance merges them; so both hundreds begin equally long after the
last maintenance. Every 20 micro-batches, each table merges its smallest files; these are included.

*Highest to the median*: micro-batches with maintenance (every 200th compacts progress, prunes, compacts and vacuums
before the next one begins) are reported separately. Wall times have a long tail on a machine with other load, so the
99th percentile says more than the highest.
"""

import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

import serving_layer
from benchmarks.figures import Figure
from benchmarks.history import SHOPS, History
from benchmarks.orders import fill, make_project, turnover, turnover_of
from benchmarks.running import run
from hourline_core.compute.validation import validate
from hourline_core.model import Project
from hourline_core.model.scratch_columns import HOUR, OUTCOME
from hourline_core.runtime.broker import Broker
from hourline_core.runtime.kafka import Kafka
from hourline_core.runtime.topics import ensure_topic
from speed_layer.commit.committer import Finished
from speed_layer.commit.maintenance import MICRO_BATCHES
from speed_layer.kafka.read_topics import as_records, read_topics
from speed_layer.observer import Observer
from speed_layer.spark_session import speed_session
from speed_layer.speed_layer import SpeedLayer

TOPIC = "orders"
RECORDS, FEW_RECORDS = 2_000, 200
"""Records per micro-batch in the comparison with a bare query, and in the run of many micro-batches."""
FIRST = 1_700_000_000_000
SETTLING, HUNDRED = 5, 100
AGGREGATIONS = (
    ("count(*)", "sum(cast(amount as decimal(19,0)))"),
    ("min(amount)", "max(amount)", "count(amount)", "sum(cast(amount as decimal(19,0)))"),
    ("theta_sketch_agg(customer)",),
)
"""What the bare query computes by hour and shop: the states of the three metrics."""


def measure(full: bool) -> Iterator[Figure | str]:
    """The figures of both comparisons."""
    # From hundred to hundred, these are whole cycles of maintenance.
    rounds, micro_batches, warm_up, commits = (3, 457, 155, 2_400) if full else (2, 357, 55, 400)
    times = [FIRST + number for number in range(micro_batches * FEW_RECORDS)]
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "kafka") as broker:
        ensure_topic(broker.bootstrap, TOPIC, 1, {})
        fill(broker.bootstrap, TOPIC, times)
        project = make_project(Path(folder) / "many", broker.bootstrap, TOPIC, most=FEW_RECORDS)
        with speed_session(project) as spark:
            many = drained(spark, project, broker.bootstrap, times)[warm_up:]
            ours, bare = [], []
            for number in range(rounds):
                project = make_project(Path(folder) / f"ours{number}", broker.bootstrap, TOPIC, most=RECORDS)
                ours.append(statistics.median(drained(spark, project, broker.bootstrap, times)[SETTLING:]))
                alone = drained_bare(spark, project, broker.bootstrap, Path(folder) / f"bare{number}", len(times))
                bare.append(statistics.median(alone[SETTLING:]))
    yield Figure(
        what=f"micro-batch of {RECORDS:,} events, 3 metrics, to a no-op sink", unit="ms", ours=ours, peer=bare, goal=0.7
    )
    yield from figures("micro-batch on the stream", "ms", many, warm_up + 1)
    with tempfile.TemporaryDirectory() as folder:
        bare_commits = committed(Path(folder), commits)[HUNDRED:]
    # Only the first line, since maintenance distorts the times of these micro-batches.
    yield next(figures("commits of a micro-batch alone", "CPU ms", bare_commits, HUNDRED + 1))
    yield f"Maintenance of the tables of commits alone: at most {max(bare_commits) / 1000:.1f} CPU s."
    yield (
        f"{warm_up + len(many) + 1:,} micro-batches of {FEW_RECORDS} events on the stream; "
        f"{HUNDRED + len(bare_commits):,} of commits alone."
    )


def figures(what: str, unit: str, taken: list[float], first: int) -> Iterator[Figure]:
    """The figures of one run. ``taken`` are milliseconds, numbered from ``first``.

    Micro-batches whose number is a multiple of MICRO_BATCHES include maintenance.
    """
    plain = [one for number, one in enumerate(taken, first) if number % MICRO_BATCHES]
    with_maintenance = [one for number, one in enumerate(taken, first) if number % MICRO_BATCHES == 0]
    middle = statistics.median(plain)
    begin, end = [statistics.median(plain[:HUNDRED])], [statistics.median(plain[-HUNDRED:])]
    yield Figure(what=f"{what}: last hundred to first hundred", unit=unit, ours=end, peer=begin, goal=1.1)
    yield Figure(what=f"{what}: highest to the median", unit=unit, ours=[max(plain)], peer=[middle], goal=1.5)
    yield Figure(
        what=f"{what}: 99th percentile to the median",
        unit=unit,
        ours=[statistics.quantiles(plain, n=100)[-1]],
        peer=[middle],
    )
    yield Figure(
        what=f"{what}: with maintenance, highest to the median",
        unit=unit,
        ours=[max(with_maintenance)],
        peer=[middle],
        goal=3,
    )


class Ends(Observer):
    """When each micro-batch ended, on the clock of ``time.perf_counter``."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def finished(self, done: Finished) -> None:
        self.times.append(time.perf_counter())


def drained(spark: SparkSession, project: Project, bootstrap: str, times: list[int]) -> list[float]:
    """Drain the topic by the speed layer.

    Returns the milliseconds from the end of each micro-batch, before its maintenance, to the end of the next.
    """
    ends = Ends()
    SpeedLayer(spark, project, Kafka(bootstrap), ends, drain=True).run(threading.Event())
    with serving_layer.connect(project) as connection:
        assert turnover_of(connection.database, "turnover") == turnover(times), (
            "the counts are not those of what was sent"
        )
    return _between(ends.times)


def drained_bare(spark: SparkSession, project: Project, bootstrap: str, checkpoint: Path, events: int) -> list[float]:
    """Drain the topic by the bare query. Returns the same times."""
    source = project.sources["orders"]
    ends: list[float] = []
    accepted = 0

    def micro_batch(validated: DataFrame, number: int) -> None:
        nonlocal accepted
        validated = validated.persist()
        discard(validated)
        events = validated.where(f"{OUTCOME} = 'accepted'")
        by_hour_and_shop = events.groupBy(HOUR, "shop")
        with ThreadPoolExecutor(len(AGGREGATIONS)) as pool:
            list(pool.map(discard, [by_hour_and_shop.agg(*map(F.expr, states)) for states in AGGREGATIONS]))
        if number == 0:
            accepted = events.count()
        validated.unpersist()
        ends.append(time.perf_counter())

    stream = read_topics(spark, source, bootstrap, {}, {TOPIC: {0: 0}}, project.settings.speed.max_records_per_batch)
    writer = validate(as_records(stream), source).writeStream.foreachBatch(micro_batch)
    writer.option("checkpointLocation", checkpoint.as_uri()).trigger(availableNow=True).start().awaitTermination()
    assert accepted == RECORDS, f"the bare query has accepted {accepted} records of its first micro-batch"
    assert len(ends) == -(-events // RECORDS), f"the bare query has read {len(ends)} micro-batches of {events:,} events"
    return _between(ends)


def discard(rows: DataFrame) -> None:
    """Compute all rows, and discard them."""
    rows.write.format("noop").mode("overwrite").save()


def committed(folder: Path, commits: int) -> list[float]:
    """The CPU milliseconds of the commits of each micro-batch, with the maintenance that follows.

    The micro-batches cover four hours, each published at its end.
    """
    history = History(folder)
    taken = []
    for number in range(commits):
        began = time.process_time()
        history.micro_batch([number * 4 // commits])
        taken.append((time.process_time() - began) * 1000)
        if (number + 1) % (commits // 4) == 0:
            history.publish()
    with serving_layer.connect(history.project) as connection:
        counted = connection.sql("SELECT sum(orders)::BIGINT, sum(takings)::BIGINT FROM turnover").fetchone()
    takings = sum(sums.takings for shops in history.truth.values() for sums in shops)
    assert counted == (commits * len(SHOPS), takings), (
        f"counted {counted}, expected {commits * len(SHOPS)} orders that took {takings}"
    )
    return taken


def _between(ends: list[float]) -> list[float]:
    return [(later - earlier) * 1000 for earlier, later in pairwise(ends)]


if __name__ == "__main__":
    run("micro_batches", measure)
