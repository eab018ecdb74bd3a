"""Measures the throughput and latency of `hourline serve`, alone and beside a greedy client and slow ones.

    python -m benchmarks.http [SECONDS]

A separate process serves the tables of a hundred hours, with a metric of two dimensions, on the loopback address. This
process sends the requests, and each client has its own token. Rounds alternate: in one kind, the clients are alone; in
the other, there are also a greedy client (16 large queries open at any time) and slow ones (one byte per second of a
large answer). Answers are checked before a time counts. Times are wall times, and comparable with each other only.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
from rich.console import Console
from rich.table import Table

HOURS, EVENTS = 100, 20_000
ROUNDS = 3
CLIENTS, GREEDY, SLOW = 2, 16, 4
QUESTIONS = {
    "one cell": "/api/v1/metrics/visits/hours/2024-03-02T00?where=page:/page/7",
    "a day by hour": "/api/v1/metrics/visits?from=2024-03-02&to=2024-03-03&dimension=",
    "all, rolled up to days": "/api/v1/metrics/visits?grain=day&dimension=page",
}
LARGE = "/api/v1/metrics/visits?limit=100000&format=json"

SERVER = """
import sys
from pathlib import Path
import pytest
from serving_layer.http.server import Server
from tests.support.visits_tables import Visit, serve_settings, visit_tables
folder, hours, events, tokens = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
visits = [
    Visit.of(n % hours, f"/page/{n // hours % 40}", n // 4_000 % 5, n, n / 3, f"v{n % 997}") for n in range(events)
]
with pytest.MonkeyPatch.context() as monkeypatch:
    tables = visit_tables(folder, visits, monkeypatch)
    tables.start()
    tables.micro_batch(events // 2)
    tables.publish(*range(hours - 2), metrics=["totals", "visits"])
    tables.micro_batch(events)
with Server(serve_settings(tables.project, tokens=tokens)) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


def main(seconds: float) -> None:
    tokens = [f"benchmark-client-{number}" for number in range(CLIENTS + SLOW + 1)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tokens"
        file.write_text("\n".join(f"reader {token}" for token in tokens))
        process = subprocess.Popen(
            [sys.executable, "-c", SERVER, folder, str(HOURS), str(EVENTS), str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ,
        )
        try:
            assert process.stdout is not None
            url = process.stdout.readline().decode().strip()
            asyncio.run(measure(url, tokens, seconds))
        finally:
            process.kill()
            process.wait()


async def measure(url: str, tokens: list[str], seconds: float) -> None:
    async with client_of(url, tokens[0]) as client:
        await check(client)
    table = Table("question", "beside it", "answers/s", "p50 ms", "p99 ms", "p50 / alone", "p99 / alone")
    for name, path in QUESTIONS.items():
        taken: dict[str, list[float]] = {"nobody": [], "greedy and slow": []}
        for _ in range(ROUNDS):
            taken["nobody"] += await asked(url, tokens[:CLIENTS], path, seconds)
            async with beside(url, tokens[CLIENTS:]):
                taken["greedy and slow"] += await asked(url, tokens[:CLIENTS], path, seconds)
        alone = percentiles(taken["nobody"])
        for what, times in taken.items():
            p50, p99 = percentiles(times)
            rate = len(times) / (ROUNDS * seconds)
            table.add_row(
                name, what, f"{rate:.1f}", f"{p50:.0f}", f"{p99:.0f}", f"{p50 / alone[0]:.2f}", f"{p99 / alone[1]:.2f}"
            )
    Console(width=120).print(table)


async def check(client: httpx.AsyncClient) -> None:
    """Check that every event counts once."""
    total = (await client.get("/api/v1/metrics/visits?grain=total&dimension=")).json()
    assert total["rows"][0]["views"] == EVENTS, total
    large = (await client.get(LARGE)).json()
    assert sum(row["views"] for row in large["rows"]) == EVENTS
    cell = (await client.get(QUESTIONS["one cell"])).json()
    assert cell["measures"]["views"] == sum(n % HOURS == 24 and n // HOURS % 40 == 7 for n in range(EVENTS)), cell


async def asked(url: str, tokens: list[str], path: str, seconds: float) -> list[float]:
    """The seconds of each answer, for clients that send one request after the other."""

    async def one(token: str) -> list[float]:
        times = []
        async with client_of(url, token) as client:
            await client.get(path)
            until = time.monotonic() + seconds
            while (began := time.monotonic()) < until:
                (await client.get(path)).raise_for_status()
                times.append(time.monotonic() - began)
        return times

    return [spent for times in await asyncio.gather(*map(one, tokens)) for spent in times]


@asynccontextmanager
async def beside(url: str, tokens: list[str]) -> AsyncIterator[None]:
    """Run a greedy client and slow ones within the block."""

    async def greedy() -> None:
        async with client_of(url, tokens[0]) as client:
            while True:
                with suppress(httpx.HTTPError):
                    await client.get(LARGE)

    async def slow(token: str) -> None:
        host, port = url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1)
        try:
            writer.write(f"GET {LARGE} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
            while True:
                await reader.read(1)
                await asyncio.sleep(1)
        finally:
            writer.close()

    tasks = [asyncio.create_task(greedy()) for _ in range(GREEDY)] + [
        asyncio.create_task(slow(token)) for token in tokens[1:]
    ]
    try:
        await asyncio.sleep(0.5)
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def client_of(url: str, token: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=120) as client:
        yield client


def percentiles(times: list[float]) -> tuple[float, float]:
    """The 50th and the 99th percentile in milliseconds."""
    cutoffs = statistics.quantiles(times, n=100)
    return cutoffs[49] * 1000, cutoffs[98] * 1000


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 5.0)
