"""Damage to the logs of every kind of table, and tables that are gone or stand in the place of others: it is found and
named, or changes no answer.
"""

import os
import re
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hourline_core.errors import TableError
from hourline_core.ledger.snapshot import take_snapshot
from hourline_core.model import declaration_hash
from hourline_core.storage.opening import open_table
from speed_layer.commit.maintenance import maintain_source
from tests.support.bare_tables import METRICS, SOURCE, BareTables
from tests.support.damage import (
    FILE_DAMAGE,
    HOURS,
    LOG_DAMAGE,
    OF_TOTALS,
    SOME_TABLES,
    TABLES,
    answers,
    check,
    folder,
    last_commit,
    on_each_table,
    truncate,
)


@pytest.mark.parametrize(("damage", "name"), on_each_table(LOG_DAMAGE))
def test_a_damaged_last_commit_is_found_and_named(damage: str, name: str, tables: BareTables) -> None:
    LOG_DAMAGE[damage](last_commit(folder(tables, name)))
    with pytest.raises(TableError, match=f"{name}.* (is damaged|cannot be read)"):
        answers(tables)


@pytest.mark.parametrize("name", SOME_TABLES)
def test_a_damaged_commit_before_the_last_one_is_found_and_named(name: str, tables: BareTables) -> None:
    commit = sorted((folder(tables, name) / "_delta_log").glob("*.json"))[-2]
    truncate(commit, 0)
    with pytest.raises(TableError, match=f"{name} is damaged: _delta_log/{commit.name} is missing, empty or cut off"):
        answers(tables)


@pytest.mark.parametrize("name", SOME_TABLES)
def test_a_commit_that_is_damaged_after_it_was_read_is_found_and_named(name: str, tables: BareTables) -> None:
    answers(tables)
    commit = sorted((folder(tables, name) / "_delta_log").glob("*.json"))[-2]
    truncate(commit, 0)
    with pytest.raises(TableError, match=f"{name} is damaged: _delta_log/{commit.name} is missing, empty or cut off"):
        answers(tables)


@pytest.mark.parametrize("name", SOME_TABLES)
def test_a_commit_that_is_damaged_and_keeps_its_time_and_size_changes_no_answer(name: str, tables: BareTables) -> None:
    before = answers(tables)
    for commit in sorted((folder(tables, name) / "_delta_log").glob("*.json"))[1:]:
        text, times = commit.read_bytes(), commit.stat()
        commit.write_bytes(re.sub(rb'(?m)^\{"(add|remove)":.*$', lambda line: b" " * len(line[0]), text))
        os.utime(commit, ns=(times.st_atime_ns, times.st_mtime_ns))
    try:
        found = answers(tables)
    except TableError as error:
        assert re.search(f"{name} is damaged: _delta_log/.* is missing, empty or cut off", str(error))
    else:
        assert found == before


@pytest.mark.parametrize("hint", ["there", "cut off", "missing"])
def test_the_log_is_looked_at_from_its_last_checkpoint_on(hint: str, tables: BareTables) -> None:
    before = answers(tables)
    log = folder(tables, f"provisional/{OF_TOTALS}") / "_delta_log"
    open_table(str(log.parent), {}).create_checkpoint()
    if hint == "cut off":
        truncate(log / "_last_checkpoint", 10)
    elif hint == "missing":
        (log / "_last_checkpoint").unlink()
    commits = sorted(log.glob("*.json"))
    truncate(commits[2], 0)  # nobody needs it any more, nor those that are cleaned away
    for commit in commits[:2]:
        commit.unlink()
    assert answers(tables) == before
    tables.start()
    truncate(last_commit(log.parent), 0)
    with pytest.raises(
        TableError,
        match=f"{OF_TOTALS} is damaged: _delta_log/{last_commit(log.parent).name} is missing, empty or cut off",
    ):
        answers(tables)


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated"])
def test_a_damaged_checkpoint_is_found_and_named(damage: str, tables: BareTables) -> None:
    table = folder(tables, "events/clicks")
    open_table(str(table), {}).create_checkpoint()
    FILE_DAMAGE[damage][0](max((table / "_delta_log").glob("*.checkpoint.parquet")))
    with pytest.raises(TableError, match="events/clicks cannot be read"):
        answers(tables)


@pytest.mark.parametrize("name", TABLES)
def test_a_missing_last_commit_is_found_and_named_or_is_as_if_it_had_never_been_made(
    name: str, tables: BareTables
) -> None:
    last_commit(folder(tables, name)).unlink()
    if name == "progress/clicks":
        check(tables, finished=12)
    elif name == "coverage":
        check(tables, finished=18)
    else:
        with pytest.raises(TableError, match=name):
            answers(tables)
    if name.startswith(("events", "rejected", "provisional")):
        # Nor does the speed layer write on, over the hole.
        with pytest.raises(
            TableError,
            match=f"{name} stands at version .*, but progress/clicks depends on its version .*: commits are missing",
        ):
            tables.start()


def test_a_missing_publication_is_found_once_provisional_has_lost_rows_to_it(tables: BareTables) -> None:
    tables.start()
    maintain_source(tables.project, tables.source_tables)
    check(tables, finished=18)
    last_commit(folder(tables, "coverage")).unlink()
    with pytest.raises(
        TableError,
        match=f"coverage stands at version 1, but provisional/{OF_TOTALS} depends on its version 2: commits are missing",
    ):
        answers(tables)
    shutil.rmtree(folder(tables, "coverage"))
    with pytest.raises(TableError, match=f"coverage is gone, but provisional/{OF_TOTALS} depends on its version 2"):
        answers(tables)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_is_gone_is_named(name: str, tables: BareTables) -> None:
    shutil.rmtree(folder(tables, name))
    if name == "coverage":
        check(tables, finished=18)  # as if nothing had ever been published: it is all in provisional still
        return
    with pytest.raises(TableError, match=name):
        answers(tables)
    if name == "progress/clicks":
        with pytest.raises(TableError, match="progress/clicks is gone, but there is one at"):
            tables.start()  # which would delete all events, as those of an unfinished micro-batch


@pytest.mark.parametrize("name", SOME_TABLES)
def test_another_tables_folder_in_its_place_is_found_and_named(name: str, tables: BareTables) -> None:
    other = "quality" if name == "drift" else "drift"
    shutil.rmtree(folder(tables, name))
    shutil.copytree(folder(tables, other), folder(tables, name))
    with pytest.raises(TableError, match=f"{name} is another one: it was created as '{other}'"):
        answers(tables)


def test_a_table_of_the_same_kind_in_its_place_is_found_and_named(tables: BareTables) -> None:
    odd = f"odd/{declaration_hash(SOURCE, METRICS['odd'])}"
    for kind in ("final", "provisional"):
        shutil.rmtree(folder(tables, f"{kind}/{odd}"))
        shutil.copytree(folder(tables, f"{kind}/{OF_TOTALS}"), folder(tables, f"{kind}/{odd}"))
        with pytest.raises(TableError, match=f"{odd} is another one: it was created as '{kind}/{OF_TOTALS}'"):
            answers(tables)


def test_no_healthy_table_is_taken_for_a_damaged_one_while_it_is_written(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, HOURS * 3)
    tables.start()
    tables.micro_batch(2)
    done = threading.Event()

    def write() -> None:
        for number in range(12):
            tables.micro_batch(3)
            if number % 3 == 2:
                tables.publish(0, 1, 2, 3)
                maintain_source(tables.project, tables.source_tables)
        done.set()

    with ThreadPoolExecutor() as pool:
        writing = pool.submit(write)
        reads = 0
        while not (done.is_set() or writing.done()):
            take_snapshot(tables.project)
            reads += 1
        writing.result()
    assert reads > 0
    tables.check()
