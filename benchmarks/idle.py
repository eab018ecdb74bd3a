"""Measures the CPU time and memory of the speed layer and its Kafka with many sources that get no new records.

    python -m benchmarks.idle [--full]

`hourline up` runs a project with 40 sources, each with a topic and a metric of its own, and the embedded Kafka. Each
source has counted one event; from then on, nothing is sent. After a settling time, the CPU seconds of the speed layer
and all its descendants, Kafka among them, are read over half a minute (with `--full`, two minutes), and divided by that
time. Memory is the median of the proportional set size (PSS) of the same processes in that time. It is compared with
the memory of a project with one such source, which takes turns with it. Settings are the defaults.
"""

import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

import serving_layer
from benchmarks.figures import Figure
from benchmarks.memory import most
from benchmarks.processes import cpu_seconds
from benchmarks.project_files import write_files
from benchmarks.running import run
from hourline import Project, load_project
from hourline_core.runtime.background import SPEED, start, stop
from hourline_core.runtime.lease import lease_holder

SOURCES = 40
ROUNDS = {False: 1, True: 2}
SETTLING_SECONDS = {False: 15, True: 60}
LOOKED_SECONDS = {False: 30, True: 120}
PATIENCE_SECONDS = 120
CORES, MEGABYTES = 0.15, 500
"""The goals for the CPU time and for the memory beside that of one source."""

SOURCE = """\
topic: {name}
fields: {{page: string, at: long}}
event_time: {{expression: at, encoding: epoch_seconds}}
"""
METRIC = "source: {name}\ndimensions: [page]\nmeasures: {{clicks: count}}\n"
AT = 1_700_000_000


@dataclass(frozen=True)
class Idle:
    """A speed layer and its Kafka without new records."""

    cores: float
    """CPU seconds per second."""
    megabytes: float


def measure(full: bool) -> Iterator[Figure | str]:
    found: dict[int, list[Idle]] = {1: [], SOURCES: []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(ROUNDS[full]):
            for count, of in found.items():
                of.append(idle(Path(folder) / f"{count}-{number}", count, full))
    many, one = found[SOURCES], found[1]
    yield Figure(
        what=f"{SOURCES} sources without new records: CPU time of the speed layer and Kafka",
        unit="cores",
        ours=[each.cores for each in many],
        peer=[],
        goal=CORES,
    )
    yield Figure(
        what=f"memory of {SOURCES} sources, more than that of 1",
        unit="MB",
        ours=[ours.megabytes - theirs.megabytes for ours, theirs in zip(many, one, strict=True)],
        peer=[],
        goal=MEGABYTES,
    )
    cores, megabytes = (
        statistics.median(of) for of in zip(*((each.cores, each.megabytes) for each in one), strict=True)
    )
    whole = statistics.median(each.megabytes for each in many)
    yield f"1 source: {cores:.2f} cores, {megabytes:,.0f} MB; {SOURCES} sources: {whole:,.0f} MB."


def idle(folder: Path, count: int, full: bool) -> Idle:
    """Run ``count`` sources that have counted one event each."""
    names = [f"clicks{number}" for number in range(count)]
    files = {"hourline.yaml": "name: idle\n"}
    files |= {f"sources/{name}.yaml": SOURCE.format(name=name) for name in names}
    files |= {f"metrics/{name}_seen.yaml": METRIC.format(name=name) for name in names}
    project = load_project(write_files(folder, files))
    try:
        producer = Producer({"bootstrap.servers": start(project, SPEED), "log_level": 0})
        for name in names:
            producer.produce(name, f'{{"page": "home", "at": {AT}}}')
        producer.flush()
        for name in names:
            wait(project, name)
        pid = lease_holder(project.workspace, SPEED.name)
        assert pid is not None, "the speed layer does not run"
        time.sleep(SETTLING_SECONDS[full])
        before, began = cpu_seconds(pid, with_ended=True), time.monotonic()
        with most(pid) as samples:
            time.sleep(LOOKED_SECONDS[full])
        used, seconds = sum(cpu_seconds(pid, with_ended=True).values()) - sum(before.values()), time.monotonic() - began
        for name in names:
            assert counted(project, name) == 1, f"{name} has another answer than before"
    finally:
        stop(project, SPEED)
    return Idle(used / seconds, statistics.median(samples))


def wait(project: Project, name: str) -> None:
    """Wait until the event of a source is counted."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (clicks := counted(project, name)) < 1:
        assert time.monotonic() < deadline, f"the event of {name} is not visible"
        time.sleep(0.5)
    assert clicks == 1, f"{name} has counted {clicks} events, 1 was sent"


def counted(project: Project, name: str) -> int:
    """The newest answer."""
    with serving_layer.connect(project) as connection:
        ((clicks,),) = connection.sql(f"SELECT coalesce(sum(clicks), 0)::BIGINT FROM {name}_seen").fetchall()
    return int(clicks)


if __name__ == "__main__":
    run("idle", measure)
