"""Every kind of damage to every kind of table is found and named, or changes no answer; a reader never takes a damaged
table for a healthy one.
"""

import os
import re
import shutil
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import serving_layer
from batch_layer.verify import Verification, Verified
from hourline.cli import run
from hourline_core.errors import TableError, UsageError
from hourline_core.ledger.snapshot import take_snapshot
from hourline_core.model import declaration_hash
from hourline_core.storage.opening import open_table
from speed_layer.maintenance import maintain_source
from speed_layer.reset import MetricReset
from tests.support.bare_tables import BASE, METRICS, SOURCE, BareTables, expected
from tests.support.project_files import write_project

HOURS = [0, 1, 1, 2, 3, 0, 2, 2, 1, 3, 3, 0, 1, 2, 2, 3, 1, 0, 2, 3]
OF_TOTALS = f"totals/{declaration_hash(SOURCE, METRICS['totals'])}"
TABLES = (
    "progress/clicks",
    "events/clicks",
    "rejected/clicks",
    f"provisional/{OF_TOTALS}",
    f"final/{OF_TOTALS}",
    f"staged/{OF_TOTALS}",
    "coverage",
    "drift",
    "quality",
)
VIEWS = (
    "totals",
    "odd",
    "totals_states",
    "hours",
    "drift",
    "quality",
    "publications",
    "late_events",
    "events_clicks",
    "rejected_clicks",
    "totals_staged",
)
Answers = dict[str, list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> BareTables:
    """Tables of which each has rows that answers rest on: all hours but one are final, the other is blocked, and events
    have come since.
    """
    tables = BareTables(tmp_path_factory.mktemp("healthy"), HOURS)
    tables.start()
    tables.micro_batch(6)
    tables.publish(0, 1, 2, 3)
    tables.micro_batch(6)
    tables.publish(0, 1, 2, blocked=[2])
    tables.micro_batch(6)
    return tables


@pytest.fixture
def tables(healthy: BareTables, tmp_path: Path) -> BareTables:
    shutil.copytree(healthy.project.root, tmp_path / "project")
    return BareTables(tmp_path / "project", HOURS)


def answers(tables: BareTables, **options: Any) -> Answers:
    with serving_layer.connect(tables.project, **options) as connection:
        found = {}
        for view in VIEWS:
            with connection.explaining(view):
                found[view] = connection.sql(f"FROM {view} ORDER BY ALL").fetchall()
        return found


def folder(tables: BareTables, name: str) -> Path:
    return Path(tables.layout.root) / name


def last_commit(table: Path) -> Path:
    return max((table / "_delta_log").glob("*.json"))


def truncate(commit: Path, size: int) -> None:
    commit.write_bytes(commit.read_bytes()[:size])


def at_line_end(commit: Path) -> None:
    """Cut off behind the first line: what is left of the commit says that it was, and changes nothing."""
    truncate(commit, commit.read_bytes().index(b"\n") if b"\n" in commit.read_bytes() else 0)


LOG_DAMAGE: dict[str, Callable[[Path], None]] = {
    "truncated": lambda commit: truncate(commit, commit.stat().st_size // 2),
    "truncated at the end of a line": at_line_end,
    "without its last byte": lambda commit: truncate(commit, commit.stat().st_size - 1),
    "empty": lambda commit: truncate(commit, 0),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("damage", LOG_DAMAGE)
def test_a_damaged_last_commit_is_found_and_named(damage: str, name: str, tables: BareTables) -> None:
    LOG_DAMAGE[damage](last_commit(folder(tables, name)))
    with pytest.raises(TableError, match=f"{name}.* (is damaged|cannot be read)"):
        answers(tables)


@pytest.mark.parametrize("name", TABLES)
def test_a_damaged_commit_before_the_last_one_is_found_and_named(name: str, tables: BareTables) -> None:
    commit = sorted((folder(tables, name) / "_delta_log").glob("*.json"))[-2]
    truncate(commit, 0)
    with pytest.raises(TableError, match=f"{name} is damaged: _delta_log/{commit.name} is missing, empty or cut off"):
        answers(tables)


@pytest.mark.parametrize("name", TABLES)
def test_a_commit_that_is_damaged_after_it_was_read_is_found_and_named(name: str, tables: BareTables) -> None:
    answers(tables)
    commit = sorted((folder(tables, name) / "_delta_log").glob("*.json"))[-2]
    truncate(commit, 0)
    with pytest.raises(TableError, match=f"{name} is damaged: _delta_log/{commit.name} is missing, empty or cut off"):
        answers(tables)


@pytest.mark.parametrize("name", TABLES)
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
            match=f"{name} stands at version .*, but progress/clicks went by its version .*: commits are missing",
        ):
            tables.start()


def test_a_missing_publication_is_found_once_provisional_has_lost_rows_to_it(tables: BareTables) -> None:
    tables.start()
    maintain_source(tables.project, tables.source_tables)
    check(tables, finished=18)
    last_commit(folder(tables, "coverage")).unlink()
    with pytest.raises(
        TableError,
        match=f"coverage stands at version 1, but provisional/{OF_TOTALS} went by its version 2: commits are missing",
    ):
        answers(tables)
    shutil.rmtree(folder(tables, "coverage"))
    with pytest.raises(TableError, match=f"coverage is gone, but provisional/{OF_TOTALS} went by its version 2"):
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
        with pytest.raises(TableError, match="progress/clicks is gone, while there is one at"):
            tables.start()  # which would delete all events, as those of an unfinished micro-batch


@pytest.mark.parametrize("name", TABLES)
def test_another_tables_folder_in_its_place_is_found_and_named(name: str, tables: BareTables) -> None:
    other = "quality" if name == "drift" else "drift"
    shutil.rmtree(folder(tables, name))
    shutil.copytree(folder(tables, other), folder(tables, name))
    with pytest.raises(TableError, match=f"{name} is another one: it was made as '{other}'"):
        answers(tables)


def test_a_table_of_the_same_kind_in_its_place_is_found_and_named(tables: BareTables) -> None:
    odd = f"odd/{declaration_hash(SOURCE, METRICS['odd'])}"
    for kind in ("final", "provisional"):
        shutil.rmtree(folder(tables, f"{kind}/{odd}"))
        shutil.copytree(folder(tables, f"{kind}/{OF_TOTALS}"), folder(tables, f"{kind}/{odd}"))
        with pytest.raises(TableError, match=f"{odd} is another one: it was made as '{kind}/{OF_TOTALS}'"):
            answers(tables)


FILE_DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (Path.unlink, "is missing"),
    "truncated": (lambda file: truncate(file, file.stat().st_size // 2), "bytes instead of"),
    "empty": (lambda file: truncate(file, 0), "has 0 bytes instead of"),
    "flipped in a page header": (lambda file: flip(file, 4, 40), "cannot be decoded"),
    "flipped in its footer": (lambda file: flip(file, footer_start(file), 40), "cannot be decoded"),
}


def footer_start(file: Path) -> int:
    """A Parquet file ends with its footer, the footer's length in four bytes, and PAR1."""
    content = file.read_bytes()
    return len(content) - 8 - int.from_bytes(content[-8:-4], "little")


def flip(file: Path, first: int, count: int) -> None:
    content = bytearray(file.read_bytes())
    content[first : first + count] = bytes(byte ^ 0xFF for byte in content[first : first + count])
    file.write_bytes(content)


def read_files(tables: BareTables, name: str) -> list[Path]:
    """The data files that a read needs."""
    versions = take_snapshot(tables.project).versions[name]
    return [file for version in versions for file in added(tables, name, version)]


def added(tables: BareTables, name: str, version: int) -> list[Path]:
    table = open_table(str(folder(tables, name)), {}, version)
    return [folder(tables, name) / path for path in pa.table(table.get_add_actions())["path"].to_pylist()]


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("damage", FILE_DAMAGE)
def test_a_damaged_data_file_is_found_and_named(damage: str, name: str, tables: BareTables) -> None:
    file = read_files(tables, name)[-1]
    harm, said = FILE_DAMAGE[damage]
    harm(file)
    with pytest.raises(TableError, match=f"{name} is damaged: its file {file.name} .*{said}"):
        answers(tables)


def verified(tables: BareTables) -> Verified:
    return Verification(tables.project, lambda: BASE).run(lambda total: lambda done: None)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("damage", [*FILE_DAMAGE, "one bit"])
def test_verifying_names_every_damaged_file_also_one_that_still_decodes(
    damage: str, name: str, tables: BareTables
) -> None:
    files = sum(len(set(read_files(tables, table))) for table in take_snapshot(tables.project).versions)
    assert verified(tables) == Verified(files, files, [])
    assert verified(tables) == Verified(files, 0, [])
    file = read_files(tables, name)[-1]
    size = file.stat().st_size
    harm, _ = FILE_DAMAGE.get(damage, (partial(one_bit, place=size // 2), ""))
    harm(file)
    for _ in range(2):
        try:
            [said] = verified(tables).damage
        except TableError as error:  # without it, nobody knows which files there are
            said = str(error)
        assert re.search(f"{name} is damaged: its file {file.name} (is|has|cannot be) ", said)


def test_verifying_notes_files_that_come_and_forgets_those_that_go(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, HOURS)
    tables.start()
    tables.micro_batch(6)
    tables.publish(0, 1)
    verified(tables)
    tables.micro_batch(1)
    tables.publish(0)
    found = verified(tables)
    assert found.damage == []
    assert 0 < found.seen_first < found.files
    noted = open_table(tables.layout.checksums, {}).to_pyarrow_table()
    assert noted.num_rows == found.files


def one_bit(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


def test_the_command_line_names_a_damaged_file_and_shows_no_stack_trace(
    tables: BareTables, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read_files(tables, f"final/{OF_TOTALS}")[0].unlink()
    sums = {f"metrics/{name}.yaml": f"source: clicks\nmeasures: {{n: sum(n)}}\n{where(name)}" for name in METRICS}
    source = "topic: clicks\nfields: {n: long, at: string}\nevent_time: at\n"
    project = write_project(tables.project.root, {"hourline.yaml": "", "sources/clicks.yaml": source, **sums})
    for arguments in (
        ["query", "FROM totals"],
        ["query", "FROM totals", "--format", "csv"],
        ["explain", "totals", "2024-03-01T01"],
    ):
        monkeypatch.setattr(sys, "argv", ["hourline", *arguments, "--project", str(project)])
        with pytest.raises(SystemExit) as ended:
            run()
        said = capsys.readouterr().err
        assert ended.value.code == 1
        assert (
            "is missing; `hourline reset totals` and `hourline recompute` compute the metric again from the archived events"
            in said
        )
        assert said.count("\n") == 1


@pytest.mark.parametrize("kind", ["final", "provisional"])
def test_a_metric_with_a_damaged_file_is_mended_by_what_the_error_says(kind: str, tables: BareTables) -> None:
    read_files(tables, f"{kind}/{OF_TOTALS}")[0].unlink()
    MetricReset(tables.project, METRICS["totals"]).apply(BASE)
    tables.publish(0, 1, 2, 3, metrics=["totals"])
    check(tables, finished=18)


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


@pytest.mark.parametrize("name", [name for name in TABLES if not name.startswith("provisional")])
@pytest.mark.parametrize("damage", ["empty", "truncated"])
def test_a_degraded_connection_answers_every_metric_exactly_from_what_is_whole(
    damage: str, name: str, tables: BareTables
) -> None:
    LOG_DAMAGE[damage](last_commit(folder(tables, name)))
    with serving_layer.connect(tables.project, degraded=True) as connection:
        assert name in " ".join(connection.damage)
        for metric in METRICS:
            finished = connection.snapshot.progress["clicks"].sequence * 6
            assert finished == (12 if name == "progress/clicks" else 18)
            assert dict(connection.sql(f"SELECT hour, n FROM {metric}").fetchall()) == expected(
                metric, HOURS[:finished]
            )
        unreadable = [view for view in VIEWS if view in connection.snapshot.unreadable]
        assert bool(unreadable) == (name.partition("/")[0] in ("events", "rejected", "drift", "quality", "staged"))
        for view in VIEWS:
            if view in unreadable:
                with pytest.raises(TableError, match=f"'{view}' cannot be answered: .*{name}"):
                    connection.sql(f"FROM {view}")
            else:
                connection.sql(f"FROM {view}").fetchall()


def test_a_degraded_connection_answers_from_the_publication_before_a_lost_file(tables: BareTables) -> None:
    before, newest = (set(added(tables, f"final/{OF_TOTALS}", version)) for version in (1, 2))
    (newest - before).pop().unlink()
    with serving_layer.connect(tables.project, degraded=True) as connection:
        assert connection.snapshot.publication == 1
        assert "is missing; `hourline reset totals`" in " ".join(connection.damage)
        assert dict(connection.sql("SELECT hour, n FROM totals").fetchall()) == expected("totals", HOURS[:18])


@pytest.mark.parametrize("kind", ["provisional", "final"])
def test_damage_in_one_metric_takes_no_answer_from_another(kind: str, tables: BareTables) -> None:
    for file in folder(tables, f"{kind}/{OF_TOTALS}").glob("*.parquet"):
        file.unlink()
    if kind == "final":  # before the first publication there is nothing final; but what it had published is pruned
        tables.start()
        maintain_source(tables.project, tables.source_tables)
    with serving_layer.connect(tables.project, degraded=True) as connection:
        assert dict(connection.sql("SELECT hour, n FROM odd").fetchall()) == expected("odd", HOURS[:18])
        assert OF_TOTALS in " ".join(connection.damage)
        with pytest.raises(TableError, match=f"'totals' cannot be answered: .*{kind}/{OF_TOTALS} is damaged"):
            connection.sql("SELECT sum(n) FROM totals")
        with pytest.raises(TableError, match="'totals' cannot be answered"):
            connection.sql('SELECT n FROM odd UNION ALL SELECT n FROM "Totals"')
        # What merely looks like its name takes nothing from it.
        assert connection.sql("SELECT max(totals.n), 'totals' FROM odd AS totals").fetchall()


def test_where_nothing_is_damaged_a_degraded_connection_is_as_any_other(tables: BareTables) -> None:
    assert answers(tables, degraded=True) == answers(tables)
    with pytest.raises(UsageError, match="give either --as-of or --degraded"):
        serving_layer.connect(tables.project, as_of="p1-clicks.2", degraded=True)


def check(tables: BareTables, finished: int) -> None:
    """The answers are: each of the first events, once."""
    found = answers(tables)
    for metric in METRICS:
        assert {hour: n for hour, n, *_ in found[metric]} == expected(metric, HOURS[:finished])


def where(metric: str) -> str:
    condition = METRICS[metric].where
    return f"where: {condition}\n" if condition else ""
