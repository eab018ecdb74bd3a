"""Measures whether operations become slower with more history, and the latency of a hundred concurrent readers.

    python -m benchmarks.growth [--full]

Projects with a day and a month (`--full`: and a year) of three metrics are written by the product's own commits and
maintenance. All but the last day is imported; the last day comes hour by hour. The current hour has 210 micro-batches
or more, one per second, until all projects have just had their maintenance.

In each round, each project in turn commits a micro-batch, is opened and queried for its last whole day, is opened again
without a commit in between and queried, and is queried once more. Each longer project is compared with the day, in the
same rounds. On the longest, a hundred readers query at once, each with its own connection, while another process
commits a micro-batch per second. Every answer is compared with the written data. Times are CPU times
of this process in ms, to exclude other load; those of the hundred readers are wall times. `recompute` has the times of
recomputes.
"""

import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import serving_layer
from benchmarks.figures import Figure, short
from benchmarks.history import History, committing, hour, written
from benchmarks.processes import megabytes
from benchmarks.running import run
from hourline_core.model import Project
from hourline_core.model.hours import sql_timestamp
from serving_layer import Connection
from speed_layer.commit.maintenance import MICRO_BATCHES

ROUNDS = 11
HOURLY, SECONDS = 24, 210
READERS, ASKED = 100, 3
GOAL = 1.15
ASKING, COMMITTING = "a day's question, once asked", "a micro-batch's commits"
OPENING, AGAIN = "opening after a commit, and a day's question", "the same with nothing committed since"


def measure(full: bool) -> Iterator[Figure | str]:
    with tempfile.TemporaryDirectory() as folder:
        days = [1, 30, 365] if full else [1, 30]
        histories = {count: written(Path(folder) / f"{count}", 24 * count - HOURLY, HOURLY, SECONDS) for count in days}
        for history in histories.values():
            # No round may contain maintenance, and all must begin equally long after it.
            while (history.sequence - 1) % MICRO_BATCHES:
                history.micro_batch([history.next_hour - 1])
        yield from growth(histories)
        for count, history in histories.items():
            yield f"{count} days: {stored(Path(history.project.tables))}; {held(history)}"
        yield together(histories[max(histories)])


def growth(histories: dict[int, History]) -> Iterator[Figure]:
    taken: dict[str, dict[int, list[float]]] = {
        what: {days: [] for days in histories} for what in (ASKING, OPENING, AGAIN, COMMITTING)
    }
    for _ in range(ROUNDS):
        for days, history in histories.items():
            commit = partial(history.micro_batch, [history.next_hour - 1])
            taken[COMMITTING][days].append(cpu_milliseconds(commit))
            for what in (OPENING, AGAIN):
                began = time.process_time()
                with serving_layer.connect(history.project) as connection:
                    check(history, connection)
                    taken[what][days].append(1000 * (time.process_time() - began))
                    asked = cpu_milliseconds(partial(check, history, connection))
            taken[ASKING][days].append(asked)
    first = min(histories)
    for what, times in taken.items():
        for days in sorted(histories.keys() - {first}):
            yield Figure(
                what=f"{what}: {days} days to {first}", unit="CPU ms", ours=times[days], peer=times[first], goal=GOAL
            )


def cpu_milliseconds(work: Callable[[], object]) -> float:
    """Milliseconds of CPU time that this process takes for some work."""
    began = time.process_time()
    work()
    return 1000 * (time.process_time() - began)


def together(history: History) -> str:
    """The time that a reader waits for an answer."""

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
    half, slow = taken[len(taken) // 2], taken[len(taken) * 99 // 100]
    return (
        f"{READERS} readers at once, {ASKED} queries each, the first with opening: "
        f"no error, p50 {short(half)} ms, p99 {short(slow)} ms"
    )


def stored(tables: Path) -> str:
    """The number of files, including those of old versions."""
    files = [(file, file.stat().st_size) for file in tables.rglob("*") if file.is_file()]
    logs = [size for file, size in files if "_delta_log" in file.parts]
    data = [size for file, size in files if "_delta_log" not in file.parts]
    return (
        f"{len(data):,} data files ({sum(data) / 1e6:,.0f} MB), {len(logs):,} files of logs ({sum(logs) / 1e6:,.1f} MB)"
    )


def held(history: History) -> str:
    """The memory of a process that has queried the project, and of one that has committed."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        reading = pool.submit(_reading, history.project).result()
        writing = pool.submit(_writing, history.project.root, history.next_hour - 1).result()
    return f"a reader holds {short(reading)} MB, a process that commits {short(writing)} MB"


def _reading(project: Project) -> float:
    with serving_layer.connect(project) as connection:
        connection.sql("SELECT hour, sum(orders) FROM turnover GROUP BY hour").fetchall()
        return megabytes(os.getpid())[os.getpid()]


def _writing(root: Path, now: int) -> float:
    history = History(root)
    history.micro_batch([now])
    return megabytes(os.getpid())[os.getpid()]


def check(history: History, connection: Connection) -> None:
    """Query the last complete day, as `hourline query` does, and compare it with the written data."""
    end = history.next_hour - 1
    within = f"hour >= '{sql_timestamp(hour(end - 24))}' AND hour < '{sql_timestamp(hour(end))}'"
    got = connection.sql(
        "SELECT hour, sum(orders)::BIGINT, sum(takings)::BIGINT FROM turnover "
        f"WHERE {within} GROUP BY hour ORDER BY hour"
    ).fetchall()
    truth = {number: history.truth[number] for number in range(end - 24, end)}
    assert got == [
        (hour(at), sum(s.orders for s in shops), sum(s.takings for s in shops)) for at, shops in truth.items()
    ], "the answers are wrong"


if __name__ == "__main__":
    run("growth", measure)
