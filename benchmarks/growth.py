"""Whether a day's question, and opening a project, take longer when there is more history; and a hundred readers at once.

    python -m benchmarks.growth [DAYS ...]

Projects with a day, a month and a year (or so many DAYS) of three metrics are written: imported but for the last day, which came hour by hour; and
of the hour under way 210 micro-batches, one a second. All are opened in turn and asked for their last whole day. In the longest, a hundred readers
ask at once, each with a connection of its own, while another process commits a micro-batch each second. Every answer is compared with what was
written. Times are of the wall, medians of the rounds.
"""

import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Table

import serving_layer
from benchmarks.history import History, committing, hour, written
from benchmarks.queries import seconds
from hourline.layout import sql_timestamp
from serving_layer import Connection

ROUNDS = 9
HOURLY, SECONDS = 24, 210
READERS, ASKED = 100, 3


def main(days: list[int]) -> None:
    console = Console(width=120)
    with tempfile.TemporaryDirectory() as folder:
        histories = {count: written(Path(folder) / f"{count}", 24 * count - HOURLY, HOURLY, SECONDS) for count in sorted(days)}
        table = Table("days", "opening ms", "× the shortest", "a day's question ms", "× the shortest")
        for row in growth(histories):
            table.add_row(*row)
        console.print(table)
        median, slow = together(histories[max(histories)])
    console.print(f"{READERS} readers at once, each {ASKED} times, opening included the first: p50 {median:.0f} ms, p99 {slow:.0f} ms, no error")


def growth(histories: dict[int, History]) -> list[list[str]]:
    opening: dict[int, list[float]] = {days: [] for days in histories}
    asking: dict[int, list[float]] = {days: [] for days in histories}
    for _ in range(ROUNDS):
        for days, history in histories.items():
            began = time.perf_counter()
            with serving_layer.connect(history.project) as connection:
                opening[days].append(time.perf_counter() - began)
                check(history, connection)
                asking[days].append(seconds(lambda connection=connection, history=history: check(history, connection)))  # type: ignore[misc]
    rows = []
    for days in histories:
        row = [str(days)]
        for taken in (opening, asking):
            own, shortest = (statistics.median(taken[which]) * 1000 for which in (days, min(histories)))
            row += [f"{own:.1f}", f"{own / shortest:.2f}"]
        rows.append(row)
    return rows


def together(history: History) -> tuple[float, float]:
    """The median, and the time that one in a hundred exceeds, in ms, of what a reader waits for an answer."""

    def read(_: int) -> list[float]:
        taken = []
        began = time.perf_counter()
        with serving_layer.connect(history.project) as connection:
            for _ in range(ASKED):
                check(history, connection)
                taken.append(time.perf_counter() - began)
                began = time.perf_counter()
        return taken

    with committing(history.project.root, history.next_hour - 1), ThreadPoolExecutor(READERS) as pool:
        taken = sorted(one * 1000 for some in pool.map(read, range(READERS)) for one in some)
    return statistics.median(taken), taken[len(taken) * 99 // 100]


def check(history: History, connection: Connection) -> None:
    """Ask for the last day that is over, and compare it with what was written."""
    end = history.next_hour - 1
    within = f"hour >= '{sql_timestamp(hour(end - 24))}' AND hour < '{sql_timestamp(hour(end))}'"
    got = connection.sql(
        f"SELECT hour, sum(orders)::BIGINT, sum(takings)::BIGINT FROM turnover WHERE {within} GROUP BY hour ORDER BY hour"
    ).fetchall()
    truth = {number: history.truth[number] for number in range(end - 24, end)}
    assert got == [(hour(at), sum(s.orders for s in shops), sum(s.takings for s in shops)) for at, shops in truth.items()], "the answers are wrong"


if __name__ == "__main__":
    main([int(days) for days in sys.argv[1:]] or [1, 30, 365])
