"""Measures the memory of Kafka and the speed layer, of a recompute, and of the HTTP server, idle and at its peak.

    python -m benchmarks.memory [--full]

Memory is the proportional set size (PSS) of a process and its descendants, read several times per second. Settings are
the defaults, so Spark's heap is at most 1 GiB, and Kafka's is 512 MiB. The speed layer counts 300,000 clicks with ids
into two measures, one of them a sketch. A recompute counts a day of a million events (full: 10 million) into a metric
with 100 groups per hour. The server answers four clients at once, over a month of such hours, by hour, by day and by
cell. The counts and the server's answer for all hours are checked.
"""

import asyncio
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pyarrow.compute as pc

import serving_layer
from benchmarks.archive import FIRST, Archive
from benchmarks.clicks import Clicks
from benchmarks.figures import Figure
from benchmarks.processes import hourline, megabytes
from benchmarks.running import run
from hourline_core.model.hours import HOUR, hour_text
from hourline_core.runtime.ports import free_ports

ROUNDS = 2
CLICKS = 300_000
DAY = {False: 1_000_000, True: 10_000_000}
MONTH, HOUR_EVENTS = 30 * 24, 500
IDLE_SECONDS, ASKED_SECONDS, CLIENTS = 5.0, 8.0, 4
LOOKED_SECONDS = 0.25

QUESTIONS = [
    "/api/v1/metrics/turnover/hours/2023-03-02T00?where=shop:shop 07",
    "/api/v1/metrics/turnover?from=2023-03-02&to=2023-03-03&dimension=",
    "/api/v1/metrics/turnover?grain=day&dimension=shop",
    "/api/v1/metrics/turnover?limit=100000&format=json",
]


def measure(full: bool) -> Iterator[Figure | str]:
    with tempfile.TemporaryDirectory() as folder:
        for measured in (of_speed, partial(of_recompute, events=DAY[full]), of_server):
            for (what, goal), values in measured(Path(folder)).items():
                yield Figure(what=what, unit="MB", ours=values, peer=[], goal=goal)


Measured = dict[tuple[str, float], list[float]]
"""The values of each round, by description and goal."""


def of_speed(folder: Path) -> Measured:
    """Measure Kafka and the speed layer."""
    idle, under_load = [], []
    with Clicks(folder / "clicks", 1) as clicks:
        clicks.up()
        for _ in range(ROUNDS):
            with most(clicks.pid) as at_rest:
                time.sleep(IDLE_SECONDS)
            with most(clicks.pid) as loaded:
                clicks.send(CLICKS)
                clicks.wait()
            idle.append(max(at_rest))
            under_load.append(max(loaded))
    return {
        ("Kafka and the speed layer, idle", 1500): idle,
        (f"the same while it counts {CLICKS:,} events", 1500): under_load,
    }


def of_recompute(folder: Path, events: int) -> Measured:
    """Measure `hourline recompute` of a day."""
    archive = Archive(folder / "day")
    archive.write(24, events // 24)
    values = []
    for _ in range(ROUNDS):
        command = hourline(
            archive.project.root,
            "recompute",
            "--from",
            hour_text(FIRST),
            "--to",
            hour_text(FIRST + 24 * HOUR),
            "--include-open",
        )
        with started(command) as process, most(process.pid) as looked:
            assert process.wait() == 0
        values.append(max(looked))
        with serving_layer.connect(archive.project) as connection:
            ((takings,),) = connection.sql("SELECT sum(takings)::BIGINT FROM turnover_final").fetchall()
        assert takings == pc.sum(archive.truth["takings"]).as_py(), "the recomputed day is wrong"
    return {(f"a recompute of a day of {events:,} events", 2500): values}


def of_server(folder: Path) -> Measured:
    """Measure `hourline serve`."""
    archive = Archive(folder / "month")
    archive.write(MONTH, HOUR_EVENTS)
    archive.publish(MONTH)
    idle, asked = [], []
    for _ in range(ROUNDS):
        (port,) = free_ports(1)
        with started(hourline(archive.project.root, "serve", "--port", str(port))) as server:
            url = f"http://127.0.0.1:{port}"
            orders = sum(row["orders"] for row in ask_until_it_answers(f"{url}{QUESTIONS[3]}"))
            assert orders == MONTH * HOUR_EVENTS, f"{orders} orders answered"
            with most(server.pid) as at_rest:
                time.sleep(IDLE_SECONDS)
            with most(server.pid) as looked:
                asyncio.run(ask_for_a_while(url))
        idle.append(max(at_rest))
        asked.append(max(looked))
    return {("the HTTP server, idle", 500): idle, (f"the same while {CLIENTS} clients ask", 500): asked}


@contextmanager
def started(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``command`` within the block."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.terminate()


@contextmanager
def most(pid: int, of: Callable[[int], float] | None = None) -> Iterator[list[float]]:
    """Measure the memory of ``pid`` and its descendants repeatedly within the block: the sum, or what ``of`` says."""
    measured = of or total
    samples = [measured(pid)]
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(LOOKED_SECONDS):
            samples.append(measured(pid))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield samples
    finally:
        ended.set()
        looking.join()


def total(pid: int) -> float:
    """The memory of ``pid`` and its descendants in MB."""
    return sum(megabytes(pid).values())


def ask_until_it_answers(url: str) -> list[dict[str, int]]:
    """The rows of an answer. Waits up to a minute for the server."""
    deadline = time.monotonic() + 60
    while True:
        try:
            answer = httpx.get(url, timeout=60).raise_for_status()
        except httpx.ConnectError:
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.1)
        else:
            rows: list[dict[str, int]] = answer.json()["rows"]
            return rows


async def ask_for_a_while(url: str) -> None:
    """Run the clients, each with one request after the other."""
    deadline = time.monotonic() + ASKED_SECONDS

    async def client(first: int) -> None:
        async with httpx.AsyncClient(base_url=url, timeout=60) as asking:
            number = first
            while time.monotonic() < deadline:
                (await asking.get(QUESTIONS[number % len(QUESTIONS)])).raise_for_status()
                number += 1

    await asyncio.gather(*(client(number) for number in range(CLIENTS)))


if __name__ == "__main__":
    run("memory", measure)
