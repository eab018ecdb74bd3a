"""What reaches the driver does not grow with the records, whichever way they go: it gets files, counts, tiles, and 8-byte
hashes with addresses where an id is declared.
"""

import pickle
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import DataFrame, SparkSession

from hourline_core.model import Project
from speed_layer.intake import tasks
from speed_layer.intake.micro_batch_size import TaskBounds
from speed_layer.intake.part import Assignment, Part, from_bytes
from speed_layer.intake.tasks import Tasks
from speed_layer.reset import SourceReset
from speed_layer.spark_session import speed_session
from tests.support import observed
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject
from tests.support.user_classes import SPREAD

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BEGIN = datetime(2024, 5, 6, 20, tzinfo=UTC)
RECORDS = 80
"""Eleven times as many, with those that are rejected, are less than a first micro-batch may have."""
MARK = "the value of a record stays where it was read, and no part of it reaches the driver: "
"""With 64 characters or less, the lowest and the highest of a file would be in its statistics."""

PICKY = (
    SPREAD.replace("class Spread", "class Picky")
    .replace("    state_type =", "    examples = [(1,), (2,), (3,)]\n    state_type =")
    .replace("def add(self, state, x):", "def add(self, state, x):\n        assert x % 10, 'it is divisible'")
)
SOURCE = "fields: {n: int, shop: string, note: string, at: timestamp}\nevent_time: at\npartitions: 1\n"
METRIC = "dimensions: [shop]\nmeasures: {events: count, total: sum(n)}\n"
SOURCES = {
    "plain": f"topic: at_driver_plain\n{SOURCE}",
    "read_again": f"topic: at_driver_read_again\n{SOURCE}",
    "in_spark": f"topic: at_driver_in_spark\n{SOURCE}derived: {{half: 'round(n / 2, 1)'}}\n",
    "with_id": f"topic: at_driver_with_id\n{SOURCE}id: n\n",
    "with_class": f"topic: at_driver_with_class\n{SOURCE}",
    "even": f"topic: at_driver_branches\n{SOURCE}branch: n % 2 = 0\n",
    "exploded": "topic: at_driver_exploded\nfields: {items: 'array<struct<n: int, shop: string, note: string>>', "
    "at: timestamp}\nexplode: {item: items}\nevent_time: at\npartitions: 1\n",
}
METRICS = {
    **dict.fromkeys(SOURCES, METRIC),
    "in_spark": METRIC.replace("sum(n)", "sum(half)"),
    "with_class": METRIC.replace("sum(n)", "picky(n)"),
    "exploded": "dimensions: {shop: item.shop}\nmeasures: {events: count, total: sum(item.n)}\n",
}
FILES = {
    "hourline.yaml": 'kafka: {bootstrap: "${KAFKA}"}\nspark: {master: "local[2]"}\n'
    "speed: {max_records_per_batch: 100000}\n",
    **{f"sources/{name}.yaml": text for name, text in SOURCES.items()},
    **{f"metrics/of_{name}.yaml": f"source: {name}\n{text}" for name, text in METRICS.items()},
    "measures/picky.py": PICKY,
}

BYTES_OF_ID = 14
"""The most for an event with an id, compressed: 8 of its hash, and what is new in its hour and its address. 12 here."""
MARGIN = 100
"""Larger numbers have more digits: counts, and the lowest and highest values of files."""
MARGIN_OF_SPARK = 4_000
"""Spark adds its own counts to what a task tells, of the same size for any task."""


@dataclass(frozen=True)
class Drained:
    """What the driver got while the speed layer drained the topics, by source."""

    told: Mapping[str, list[bytes]]
    """By the tasks."""
    results: Mapping[str, int]
    """The bytes of all results of Spark's stages, by Spark's own account."""

    def size(self, source: str) -> int:
        return sum(map(len, self.told[source]))


@pytest.mark.long  # Nothing else would be wrong but the memory of the driver: benchmarks/memory.py measures it.
def test_ten_times_the_records_are_the_same_bytes_at_the_driver(kafka: str, tmp_path: Path) -> None:
    project = StackProject(write_project(tmp_path, FILES), kafka, {})
    with speed_session(project.project) as spark:
        send(project, range(RECORDS))
        few = drain(spark, project)
        few_again = read_again(spark, project)
        send(project, range(RECORDS, 11 * RECORDS))
        many = drain(spark, project)
        many_again = read_again(spark, project)
    assert few.told.keys() == many.told.keys() == SOURCES.keys()
    for source in SOURCES:
        ids = BYTES_OF_ID * 9 * RECORDS if source == "with_id" else 0
        assert abs(many.size(source) - few.size(source)) < ids + MARGIN, source
    assert many.size("with_id") > few.size("with_id") + 8 * 9 * RECORDS, "the hashes cross"
    assert abs(many_again.size("read_again") - few_again.size("read_again")) < MARGIN
    for drained in (few, few_again, many, many_again):
        for source, told in drained.told.items():
            assert [len(one) for one in told] == [len(told[0])]
            assert drained.results[source] < drained.size(source) + MARGIN_OF_SPARK, "Spark has no other results"
            assert not any(MARK.encode() in pickle.dumps(from_bytes(one)) for one in told), source
    archived = project.table("events", "plain", ["note"])
    assert all(MARK in row["note"] for row in archived), "what is not found there is in every record"
    assert len(archived) == 11 * RECORDS


def send(project: StackProject, numbers: Iterable[int]) -> None:
    """Send a record for each number to each source. One in ten is rejected."""
    for source in SOURCES:
        good = [body(source, n) for n in numbers]
        project.send(source, good)
        project.send_refused(source, [f'{{"note": "{MARK}'.encode()] * (len(good) // 10))


def body(source: str, n: int) -> dict[str, object]:
    at = f"{BEGIN + timedelta(seconds=n % RECORDS * 30):%Y-%m-%dT%H:%M:%S}Z"
    event = {"n": n, "shop": f"shop {n % 4}", "note": f"{MARK}{n}"}
    return {"at": at, "items": [event] * 3} if source == "exploded" else {"at": at, **event}


def read_again(spark: SparkSession, project: StackProject) -> Drained:
    """Let a source read all of its records again."""
    source = project.project.sources["read_again"]
    SourceReset(project.project, source, project.kafka, "earliest").apply(NOW)
    metrics = {metric.name: metric for metric in project.project.metrics_of(source.name)}
    return drain(spark, project, replace(project.project, sources={source.name: source}, metrics=metrics))


def drain(spark: SparkSession, project: StackProject, part: Project | None = None) -> Drained:
    """Drain the topics of all sources, or those of a ``part`` of the project."""
    before = results(spark)
    with told_by_tasks() as told:
        observed.drain(spark, part or project.project, project.kafka)
    return Drained(told, results(spark) - before)


@contextmanager
def told_by_tasks() -> Iterator[dict[str, list[bytes]]]:
    """Within the block, what the tasks of each source tell the driver."""
    told: dict[str, list[bytes]] = {}
    run, here = Tasks.run, threading.local()

    def run_noted(of: Tasks, evaluated: DataFrame, assignment: Assignment, bounds: TaskBounds) -> list[Part]:
        here.source = of.plan.source.name  # Each stream runs its tasks from a thread of its own.
        return run(of, evaluated, assignment, bounds)

    def note(one: bytes) -> Part:
        told.setdefault(here.source, []).append(one)
        return from_bytes(one)

    with patch.object(Tasks, "run", run_noted), patch.object(tasks, "from_bytes", note):
        yield told


def results(spark: SparkSession) -> Counter[str]:
    """The bytes of the results of all stages so far, by the source whose stream has run them."""
    gateway: Any = spark.sparkContext._gateway
    store = spark.sparkContext._jsc.sc().statusStore()
    stages = store.stageList(None, False, False, gateway.new_array(gateway.jvm.double, 0), None).iterator()
    sizes = Counter[str]()
    while stages.hasNext():
        stage = stages.next()
        if stage.description().isDefined():
            sizes[stage.description().get().split()[0]] += stage.resultSize()
    return sizes
