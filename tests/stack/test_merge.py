"""One source reads several topics, by a list or a pattern: each record counts once, whatever topic it comes from, when
the topic appears, and where the speed layer is killed.
"""

import random
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import serving_layer
from hourline_core.errors import UsageError
from hourline_core.runtime.kafka import Kafka
from hourline_core.runtime.topics import ensure_topic
from serving_layer.reports.late import list_late_hours
from serving_layer.reports.source_status import SourceStatus
from serving_layer.reports.status import report_project_status
from speed_layer.commit.committer import Finished
from speed_layer.commit.maintenance import maintain_stopped
from speed_layer.reset import SourceReset, Target
from speed_layer.spark_session import speed_session
from speed_layer.speed_layer import SpeedLayer
from tests.support.observed import Observed
from tests.support.oracle import MetricRule, SourceRule
from tests.support.project_files import write_project
from tests.support.speed_process import SpeedProcess, wait_until
from tests.support.stack_project import StackProject

pytestmark = pytest.mark.heavy

START = datetime(2024, 3, 1, 10, tzinfo=UTC)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SOURCE = """\
    topic: TOPIC
    fields: {id: int, shop: string, n: int, at: timestamp}
    event_time: at
    id: id
    where: n < 95
    partitions: 2
    """
METRIC = """\
    source: SOURCE
    dimensions: {topic: record.topic, shop: shop}
    measures: {clicks: count, n: sum(n), ids: distinct(id), highest: max(record.offset)}
    """
FILES = {
    "hourline.yaml": """\
        name: NAME
        kafka: {bootstrap: "${KAFKA}"}
        spark: {master: "local[2]"}
        speed: {max_records_per_batch: 150}
        """,
    "sources/clicks.yaml": SOURCE.replace("TOPIC", "[NAME_us, NAME_eu, NAME_asia]"),
    "sources/views.yaml": SOURCE.replace("TOPIC", '{pattern: "NAME_views_.*|NAME_none"}'),
    "metrics/clicks_by_topic.yaml": METRIC.replace("SOURCE", "clicks"),
    "metrics/views_by_topic.yaml": METRIC.replace("SOURCE", "views"),
}
PATHS = ("sources/{}.yaml", "metrics/{}_by_topic.yaml")


def test_a_list_of_topics_is_one_source(kafka: str, tmp_path: Path) -> None:
    project = make(tmp_path, kafka, "merge_list", "clicks")
    send_clicks(project)
    project.drain()
    assert project.check() > 100
    project.recompute()
    # Killed when the micro-batch is archived and not finished, with records of several topics.
    send_clicks(project)
    with SpeedProcess(project, "--drain", failpoint="kill before append progress") as process:
        assert process.wait() == -signal.SIGKILL, process.lines
    assert project.check_answers() > 100
    finished = project.drain()
    assert project.check() > 100
    assert len(finished) > 1
    progress = project.table("progress", "clicks")
    assert len(progress) > len({row["sequence"] for row in progress}), "no micro-batch has read several topics"
    assert sum(event.duplicate for event in project.events("clicks")) > 50

    before = numbers(project, "clicks")
    assert before.lag == 0
    with pytest.raises(UsageError, match="allowed is the topic with it, such as merge_list_us:0=0"):
        reset(project, "clicks", {(None, 0): 0})
    with pytest.raises(UsageError, match="no topic 'merge_list_es' — did you mean 'merge_list_us'"):
        reset(project, "clicks", {("merge_list_es", 0): 0})
    # Two partitions of one topic: what counts already is told apart by topic.
    reset(project, "clicks", {("merge_list_eu", 0): 0, ("merge_list_eu", 1): 0})
    assert all(done.already_counted == done.records for done in project.drain() if not done.rejected)
    assert numbers(project, "clicks") == before

    # Afterwards progress has a row for each topic and hour, and whoever asks hears the same.
    told, rows = answers(project), project.table("progress", "clicks")
    later = datetime.now(UTC) + timedelta(days=30)
    maintain_stopped(project.project, project.project.sources["clicks"], kept_hours=0, clock=lambda: later)
    assert len(project.table("progress", "clicks")) < len(rows)
    assert answers(project) == told
    assert project.drain() == []


@pytest.mark.long
def test_a_topic_that_matches_later_is_read_from_its_beginning(kafka: str, tmp_path: Path) -> None:
    project = make(tmp_path, kafka, "merge_later", "clicks", "views")
    with running(project) as finished:

        def read_all(count: int) -> bool:
            return sum(done.records for done in finished if done.source == "views") == count

        for number, topic in enumerate(("merge_later_views_a", "merge_later_views_b"), start=1):
            ensure_topic(kafka, topic, 2, {})
            project.add_topic("views", topic)
            project.send_records("views", clicks(project.random, 100))
            wait_until(partial(read_all, 100 * number), f"{topic} was not taken up")
    assert project.check() > 30
    ensure_topic(kafka, "merge_later_none", 1, {})
    project.add_topic("views", "merge_later_none")
    ensure_topic(kafka, "xmerge_later_views_c", 1, {})  # a part of its name matches
    project.producer.produce("xmerge_later_views_c", b"{")
    project.flush()
    reset(project, "views", "earliest")
    assert sum(done.already_counted for done in project.drain()) == 200
    project.recompute()
    assert project.check() > 30
    assert len(project.table("progress", "views")) > 4


# test_a_list_of_topics_is_one_source kills the speed layer once.
@pytest.mark.long
def test_a_speed_layer_killed_between_commits_loses_no_topic(kafka: str, tmp_path: Path) -> None:
    project = make(tmp_path, kafka, "merge_killed", "clicks")
    for place in ("after append events", "before append progress", "after append progress"):
        send_clicks(project)
        with SpeedProcess(project, "--drain", failpoint=f"kill {place}") as process:
            assert process.wait() == -signal.SIGKILL, process.lines
        project.check_answers()
    project.drain()
    assert project.check() > 100
    project.recompute()
    assert project.check() > 100


@contextmanager
def running(project: StackProject) -> Iterator[list[Finished]]:
    """The speed layer in another thread; what it finishes."""
    observed, stop = Observed(), threading.Event()
    with speed_session(project.project) as spark, ThreadPoolExecutor(1) as pool:
        done = pool.submit(SpeedLayer(spark, project.project, Kafka(project.kafka), observed).run, stop)
        try:
            wait_until(lambda: observed.ready.is_set() or done.done(), "the speed layer did not start")
            yield observed.batches
        finally:
            stop.set()
            done.result()


def make(folder: Path, kafka: str, name: str, *sources: str) -> StackProject:
    """A project with these of the sources, and their metrics."""
    paths = ["hourline.yaml", *(path.format(of) for of in sources for path in PATHS)]
    files = {path: FILES[path].replace("NAME", name) for path in paths}
    rule = SourceRule(
        time=lambda body: datetime.fromisoformat(body["at"]),
        id=lambda body: body["id"],
        where=lambda body: body["n"] < 95,
        metrics={},
    )
    metric = MetricRule(
        dimensions={"topic": lambda body: body["record"]["topic"], "shop": lambda body: body["shop"]},
        measures={
            "clicks": ("count", lambda body: 1),
            "n": ("sum", lambda body: body["n"]),
            "ids": ("distinct", lambda body: body["id"]),
            "highest": ("max", lambda body: body["record"]["offset"]),
        },
    )
    rules = {source: replace(rule, metrics={f"{source}_by_topic": metric}) for source in sources}
    return StackProject(write_project(folder, files), kafka, rules)


def send_clicks(project: StackProject) -> None:
    project.send_records("clicks", clicks(project.random, 250))
    project.send_refused("clicks", [b"{", None, b"", b'{"n": "x"}'])


def clicks(rand: random.Random, count: int) -> list[dict[str, Any]]:
    """Events of four hours, some with an id that another one has, in whatever topic."""
    return [
        {
            "body": {
                "id": rand.choice([None, rand.randrange(150)]),
                "shop": rand.choice("ab"),
                "n": rand.randrange(100),
                "at": (START + timedelta(seconds=rand.randrange(4 * 3600))).isoformat(),
            }
        }
        for _ in range(count)
    ]


def reset(project: StackProject, source: str, target: Target) -> None:
    SourceReset(project.project, project.project.sources[source], project.kafka, target).apply(NOW)


def numbers(project: StackProject, source: str) -> SourceStatus:
    """All that the status tells of a source, but for the micro-batch that was the last, and for rates and arrivals."""
    (found,) = (one for one in report_project_status(project.project, 1).sources if one.source == source)
    partitions = [known.model_copy(update={"rate": 0.0, "arrived": None}) for known in found.partitions]
    return found.model_copy(update={"sequence": 0, "finished": None, "partitions": partitions})


def answers(project: StackProject) -> list[Any]:
    views = ("clicks_by_topic", "hours", "late_events", "events_clicks")
    with serving_layer.connect(project.project) as connection:
        told = [connection.sql(f"FROM {view} ORDER BY ALL").fetchall() for view in views]
        late = list_late_hours(connection, None)
    return [*told, late, numbers(project, "clicks")]
