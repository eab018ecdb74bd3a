"""Whoever reads while another process writes as fast as it can: each answer is every event of the finished
micro-batches, once, in all views alike.

Ten answers are compared of each snapshot.
"""

import multiprocessing
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import accumulate
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

import serving_layer
from batch_layer.maintenance import Maintenance
from hourline_core.storage.opening import open_table
from serving_layer import Connection
from speed_layer.commit.maintenance import maintain_source
from tests.support.bare_tables import METRICS, BareTables, expected, hour

pytestmark = pytest.mark.heavy

OF_EACH = 10
READERS = 4
AT_ONCE = 100
"""So many connections are open at the same time in the second test."""
SPAN = 12
"""Events are of so many hours; every publication recomputes some of these, so nearly all of their hours are revised
again and again.
"""
MOST = 30_000
_random = random.Random(7)  # noqa: S311 (the same events in each process)
HOURS = [_random.randrange(SPAN) for _ in range(MOST)]
SIZES = [1 + sequence % 4 for sequence in range(1, MOST)]
EVENTS = [0, *accumulate(SIZES)]
"""By sequence, how many events have been counted up to it."""


def write(folder: Path, begun: Event, stop: Event) -> None:
    """Micro-batches, publications of one metric or both, hours that do not pass, compaction, pruning and vacuum, until
    ``stop``.
    """
    rand = random.Random(11)  # noqa: S311
    tables = BareTables(folder, HOURS)
    tables.start()
    while not stop.is_set():
        tables.micro_batch(SIZES[tables.sequence - 1])
        if tables.sequence % 3 == 0:
            hours = sorted(rand.sample(range(SPAN), rand.randrange(1, 5)))
            metrics = rand.choice([["totals", "odd"], ["totals", "odd"], ["totals"], ["odd"]])
            tables.publish(*hours, metrics=metrics, blocked=[hours[0]] if rand.random() < 0.2 else [])
        if tables.sequence % 25 == 0:
            maintain_source(tables.project, tables.source_tables)
        if tables.sequence % 50 == 0:
            list(Maintenance(tables.project).run())
        if tables.sequence == 30:
            begun.set()


@contextmanager
def writing(folder: Path) -> Iterator[BareTables]:
    """The tables while a process of its own writes them."""
    spawn = multiprocessing.get_context("spawn")
    begun, stop = spawn.Event(), spawn.Event()
    process = spawn.Process(target=write, args=(folder, begun, stop))
    process.start()
    try:
        while not begun.wait(1):
            assert process.is_alive(), "the writer has not begun"
        yield BareTables(folder, HOURS)
        assert process.is_alive(), "the writer has ended before the readers have"
    finally:
        stop.set()
        process.join()
    assert process.exitcode == 0


def check(connection: Connection) -> set[str]:
    """Each view is what the events up to the snapshot's progress make of it; returns the states that hours are in."""
    sequence, publication = connection.snapshot.progress["clicks"].sequence, connection.snapshot.publication
    events = HOURS[: EVENTS[sequence]]
    states: dict[str, dict[object, str]] = {}
    for metric in METRICS:
        rows = connection.sql(f"SELECT hour, n, state FROM {metric}").fetchall()
        assert {hour: n for hour, n, _ in rows} == expected(metric, events), f"{metric} at {connection.token}"
        states[metric] = {hour: state for hour, _, state in rows}
        by_layer = connection.sql(
            f"SELECT hour, sum(n) FROM (FROM {metric}_final UNION ALL FROM {metric}_provisional) GROUP BY hour"
        ).fetchall()
        assert dict(by_layer) == expected(metric, events), f"the layers of {metric} at {connection.token}"
        merged = connection.sql(f"SELECT hour, n FROM {metric}_states").fetchall()
        assert dict(merged) == expected(metric, events), f"{metric}_states at {connection.token}"
    told = connection.sql("SELECT kind, name, hour, state, events FROM hours").fetchall()
    counts = {hour(number): count for number, count in Counter(events).items()}
    numbers = range(min(events), max(events) + 1) if events else range(0)
    assert {at: count for kind, _, at, _, count in told if kind == "source"} == {
        hour(number): counts.get(hour(number), 0) for number in numbers
    }, "those without events, too"
    of_metrics = {(name, at): state for kind, name, at, state, _ in told if kind == "metric"}
    assert {key: state for key, state in of_metrics.items() if key[1] in states[key[0]]} == {
        (metric, at): state for metric, hours in states.items() for at, state in hours.items()
    }
    assert dict(connection.sql("SELECT hour, count(*) FROM events_clicks GROUP BY hour").fetchall()) == counts
    assert connection.sql("SELECT max(sequence), count(*) FROM rejected_clicks").fetchall() == [(sequence, sequence)]
    ((newest, highest),) = connection.sql(
        "SELECT coalesce(max(publication), 0), coalesce(max(cutoff), 0) FROM publications"
    ).fetchall()
    assert newest <= (publication or 0)
    assert highest <= sequence
    return set(of_metrics.values())


@pytest.mark.parametrize("reads", [100, pytest.param(10_000, marks=pytest.mark.long)])
def test_every_read_is_exact_while_another_process_writes_publishes_and_tidies_up(reads: int, tmp_path: Path) -> None:
    seen: set[tuple[int | None, str]] = set()

    def enough() -> bool:  # on a busy machine, the writer gets little done while so many are read
        return len({publication for publication, _ in seen.copy()}) > 3 and {state for _, state in seen.copy()} >= {
            "final",
            "revised",
            "blocked",
        }

    def read(snapshots: int) -> None:
        with serving_layer.connect(tables.project) as connection:
            while snapshots > 0 or not enough():
                seen.update([(connection.snapshot.publication, state) for state in check(connection)])
                connection.refresh()
                snapshots -= 1

    with writing(tmp_path) as tables, ThreadPoolExecutor(READERS) as pool:
        list(pool.map(read, [reads // OF_EACH // READERS] * READERS))


def test_a_hundred_readers_at_once_have_each_one_moment(tmp_path: Path) -> None:
    def ask(connection: Connection) -> None:
        events = HOURS[: EVENTS[connection.snapshot.progress["clicks"].sequence]]
        both = connection.sql("SELECT hour, t.n, o.n FROM totals t LEFT JOIN odd o USING (hour)").fetchall()
        assert {at: n for at, n, _ in both} == expected("totals", events)
        assert {at: n for at, _, n in both if n is not None} == expected("odd", events)

    with writing(tmp_path) as tables, ThreadPoolExecutor(AT_ONCE) as pool:
        connections = list(pool.map(lambda _: serving_layer.connect(tables.project), range(AT_ONCE)))
        list(pool.map(ask, connections))
        assert len({connection.token for connection in connections}) > 1, "the stream committed meanwhile"
        for connection in connections:
            connection.close()


def test_reads_that_are_told_of_a_later_progress_are_noticed(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, HOURS)
    tables.start()
    for _ in range(3):
        tables.micro_batch(SIZES[tables.sequence - 1])
    with serving_layer.connect(tables.project) as connection:
        check(connection)
        tables.micro_batch(SIZES[tables.sequence - 1])
        check(connection)
        assert (
            open_table(tables.layout.progress(tables.project.sources["clicks"]), {}).version()
            > connection.snapshot.progress["clicks"].version
        )
        connection.refresh()
        check(connection)
        connection.database.execute("CREATE OR REPLACE VIEW odd AS FROM totals")
        with pytest.raises(AssertionError):
            check(connection)
