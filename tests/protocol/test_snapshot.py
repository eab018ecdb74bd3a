"""A read that takes its time: whatever is committed between any two of its steps, the answer is exactly what had
finished at its progress.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import pytest

import serving_layer
from hourline_core.sql.tables import table_parts
from hourline_core.storage.open_tables import OpenTables
from hourline_core.storage.opening import open_table
from serving_layer.open_snapshot import NEWEST
from speed_layer.commit.maintenance import maintain_source
from tests.support.bare_tables import SOURCE, BareTables, expected

HOURS = [0, 1, 1, 2, 3, 0, 2, 2, 1, 3, 3, 0, 1, 2, 2, 3, 1, 0, 2, 3]
Step = Callable[[BareTables], None]

MEANWHILE: dict[str, list[Step]] = {
    "a publication": [lambda tables: tables.publish(0, 1, 2)],
    "a micro-batch and a publication": [lambda tables: tables.micro_batch(4), lambda tables: tables.publish(1, 2, 3)],
    "two of each, and maintenance": [
        lambda tables: tables.micro_batch(3),
        lambda tables: tables.publish(0, 1, 2, 3),
        lambda tables: maintain_source(tables.project, tables.source_tables),
        lambda tables: tables.micro_batch(3),
        lambda tables: tables.publish(3),
    ],
}


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some hours are published, and more events came."""
    tables = BareTables(tmp_path_factory.mktemp("begun"), HOURS)
    tables.start()
    tables.micro_batch(5)
    tables.publish(0, 1)
    tables.micro_batch(5)
    return tables.project.root


# After a publication alone, a read may go on with a newer coverage. The last one does what the second does, and more.
@pytest.mark.parametrize(
    ("meanwhile", "again"),
    [
        ("a publication", False),
        pytest.param("a publication", True, marks=pytest.mark.long),
        *(pytest.param("a micro-batch and a publication", again, marks=pytest.mark.long) for again in (False, True)),
        pytest.param("two of each, and maintenance", False, marks=pytest.mark.long),
        ("two of each, and maintenance", True),
    ],
)
def test_a_read_is_exact_whatever_is_committed_between_its_steps(
    meanwhile: str, again: bool, begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted = 0
    while disturbed_at(
        interrupted, MEANWHILE[meanwhile], again, copytree(begun, tmp_path / str(interrupted)), monkeypatch
    ):
        interrupted += 1
    assert interrupted == 10, (
        "progress, provisional of two metrics, coverage, final of both, events, rejected, drift and quality are opened"
    )


def disturbed_at(place: int, steps: list[Step], again: bool, folder: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Read (``again``: after another read), with ``steps`` done at the ``place``-th opening of a table; False when the
    read has opened fewer.
    """
    tables = BareTables(folder, HOURS)
    tables.start()
    if again:
        serving_layer.connect(tables.project).close()
        tables.micro_batch(1)
    opened = 0
    reused = OpenTables._reuse

    def opening(*arguments: Any) -> Any:
        nonlocal opened
        opened += 1
        if opened == place + 1:
            for step in steps:
                step(tables)
        return reused(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(OpenTables, "_reuse", opening)
        connection = serving_layer.connect(tables.project)
    with connection:
        sequence = connection.snapshot.progress["clicks"].sequence
        progress = open_table(tables.layout.progress(SOURCE), {}).to_pyarrow_table(
            filters=[("sequence", "<=", sequence)]
        )
        finished = max(read["last"] + 1 for batch in progress["offsets"].to_pylist() for read in batch)
        assert dict(connection.sql("SELECT hour, n FROM totals").fetchall()) == expected(
            "totals", tables.hours[:finished]
        )
    return opened > place


def test_tables_that_were_put_in_the_place_of_others_are_opened_again(tmp_path: Path) -> None:
    one, other = (
        BareTables(tmp_path / name, hours=hours) for name, hours in (("one", [0, 0, 1]), ("other", [1, 1, 1]))
    )
    for tables in (one, other):
        tables.start()
        tables.micro_batch(3)
    for tables in (one, other):
        with serving_layer.connect(one.project) as connection:
            assert dict(connection.sql("SELECT hour, n FROM totals").fetchall()) == expected("totals", tables.hours)
        rmtree(one.project.tables)
        copytree(other.project.tables, one.project.tables)


def test_readers_who_wait_for_another_one_share_what_is_opened_after_they_have_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = BareTables(tmp_path, hours=[0] * 6)
    tables.start()
    tables.micro_batch(3)
    opened = []
    begun, go_on, waiting = threading.Event(), threading.Event(), threading.Semaphore(0)

    def attaching(*arguments: Any) -> Any:
        opened.append(arguments)
        begun.set()
        go_on.wait()
        return table_parts(*arguments)

    class Lock:
        def __init__(self) -> None:
            self._lock = threading.Lock()

        def __enter__(self) -> None:
            waiting.release()
            self._lock.acquire()

        def __exit__(self, *error: object) -> None:
            self._lock.release()

    def asked() -> int:
        with serving_layer.connect(tables.project) as connection:
            return int(connection.sql("SELECT sum(n) FROM totals").fetchall()[0][0])

    monkeypatch.setattr("serving_layer.open_snapshot.table_parts", attaching)
    monkeypatch.setattr(NEWEST, "_lock", Lock())
    with ThreadPoolExecutor() as pool:
        first = pool.submit(asked)
        begun.wait()
        tables.micro_batch(3)
        others = [pool.submit(asked) for _ in range(4)]
        for _ in range(5):
            waiting.acquire()
        go_on.set()
        assert first.result() == 3
        assert [other.result() for other in others] == [6] * 4
    assert len(opened) == 2
