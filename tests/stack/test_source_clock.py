"""The clock of a source on the real stack: a partition behind holds hours open, and silence closes them."""

import threading
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import serving_layer
from batch_layer.plan import plan
from hourline_core.model.hours import wall_clock
from hourline_core.runtime.kafka import Kafka
from serving_layer.reports.source_status import SourceStatus
from serving_layer.reports.status import report_project_status
from speed_layer.spark_session import speed_session
from speed_layer.speed_layer import SpeedLayer
from tests.support.observed import Observed
from tests.support.oracle import Body, MetricRule, SourceRule
from tests.support.project_files import write_project
from tests.support.speed_process import wait_until
from tests.support.stack_project import StackProject

pytestmark = pytest.mark.long  # In CI, tests/protocol/test_idle_partitions.py moves the clock.

FILES = {
    "hourline.yaml": """\
        kafka: {bootstrap: "${KAFKA}"}
        spark: {master: "local[2]"}
        """,
    "sources/readings.yaml": """\
        topic: clocked
        fields: {meter: int, at: timestamp}
        event_time: at
        grace: 10m
        idle: 1h
        partitions: 2
        """,
    "metrics/by_meter.yaml": """\
        source: readings
        dimensions: [meter]
        measures: {readings: count}
        """,
}
START = datetime(2024, 3, 1, tzinfo=UTC)
READINGS = SourceRule(
    time=lambda body: datetime.fromisoformat(body["at"]),
    metrics={
        "by_meter": MetricRule(
            measures={"readings": ("count", lambda body: body["meter"])},
            dimensions={"meter": lambda body: body["meter"]},
        )
    },
    grace=timedelta(minutes=10),
)


def test_a_partition_behind_holds_hours_open_and_silence_closes_them(kafka: str, tmp_path: Path) -> None:
    project = StackProject(write_project(tmp_path, FILES), kafka, {"readings": READINGS})
    project.send("readings", readings(0, range(0, 360, 10)), partition=0)
    project.send("readings", readings(1, range(0, 60, 10)), partition=1)
    project.drain()
    assert planned(project) == set()
    fast, slow = status(project).partitions
    assert (fast.holds_clock, slow.holds_clock) == (False, True)
    assert (fast.skew, slow.skew) == (0.0, 300 * 60)
    assert (slow.clock, status(project).clock) == (minute(50), minute(50))
    assert (slow.lag, slow.offset, slow.rate > 0) == (0, 6, True)

    # One reading a year ahead is rejected by nothing, and moves no clock.
    project.send("readings", [*readings(1, range(60, 130, 10)), *readings(1, [525_600, 130])], partition=1)
    project.drain()
    assert planned(project) == {minute(0), minute(60)}
    assert status(project).partitions[1].held_back == 1
    project.recompute()
    assert project.check() > 10

    clock = FastClock()
    observed = Observed()
    stop = threading.Event()
    project.send("readings", readings(1, [140]), partition=1)
    with speed_session(project.project) as spark:
        speed_layer = SpeedLayer(spark, project.project, Kafka(kafka), observed, clock=clock)
        running = threading.Thread(target=speed_layer.run, args=(stop,))
        running.start()
        wait_until(lambda: bool(observed.batches), "the reading should come in")
        assert status(project).clock == minute(140)
        clock.ahead = timedelta(hours=3)
        wait_until(lambda: status(project).clock != minute(140), "silence should move the clock")
        stop.set()
        running.join()
    moved = status(project).clock
    assert moved
    assert minute(350) + timedelta(hours=3) <= moved < minute(350) + timedelta(hours=4)
    assert planned(project) >= {minute(60 * hour) for hour in range(2, 6)}
    project.recompute()
    project.check_accounting("readings")
    with serving_layer.connect(project.project) as connection:
        states = connection.sql(f"SELECT DISTINCT state FROM hours WHERE hour < '{minute(360)}'").fetchall()
        (total,) = connection.sql("SELECT sum(readings) FROM by_meter").fetchall()[0]
    assert states == [("final",)]
    assert total == len(project.sent["readings"])

    # A start goes on with that clock, and whatever comes after all is late.
    project.send("readings", readings(1, [300]), partition=1)
    (late,) = project.drain()
    assert late.late == 1
    assert planned(project) == {minute(300)}


class FastClock:
    """The wall's clock, ``ahead`` of itself."""

    ahead = timedelta(0)

    def __call__(self) -> datetime:
        return wall_clock() + self.ahead


def minute(number: int) -> datetime:
    return START + timedelta(minutes=number)


def readings(meter: int, minutes: Iterable[int]) -> list[Body]:
    return [{"meter": meter, "at": f"{minute(number):%Y-%m-%dT%H:%M:%SZ}"} for number in minutes]


def planned(project: StackProject) -> set[datetime]:
    return {item.hour for item in plan(project.project)}


def status(project: StackProject) -> SourceStatus:
    (source,) = report_project_status(project.project, 1).sources
    return source
