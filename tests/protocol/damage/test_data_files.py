"""Damage to data files of every kind of table: a reader finds and names it, and so does `hourline verify`."""

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from batch_layer.verify import Verification, Verified
from hourline.cli import run
from hourline_core.errors import TableError
from hourline_core.ledger.snapshot import take_snapshot
from hourline_core.storage.opening import open_table
from speed_layer.reset import MetricReset
from tests.support.bare_tables import BASE, METRICS, BareTables
from tests.support.damage import (
    FILE_DAMAGE,
    HOURS,
    OF_TOTALS,
    SOME_TABLES,
    answers,
    check,
    on_each_table,
    read_files,
)
from tests.support.project_files import write_project


@pytest.mark.parametrize(("damage", "name"), on_each_table(FILE_DAMAGE))
def test_a_damaged_data_file_is_found_and_named(damage: str, name: str, tables: BareTables) -> None:
    file = read_files(tables, name)[-1]
    harm, said = FILE_DAMAGE[damage]
    harm(file)
    with pytest.raises(TableError, match=f"{name} is damaged: its file {file.name} .*{said}"):
        answers(tables)


@pytest.mark.parametrize("name", SOME_TABLES)
def test_verifying_names_every_damaged_file_also_one_that_still_decodes(name: str, tables: BareTables) -> None:
    files = sum(len(set(read_files(tables, table))) for table in take_snapshot(tables.project).versions)
    assert verified(tables) == Verified(files, files, [])
    file = read_files(tables, name)[-1]
    sound = file.read_bytes()
    harms: list[Callable[[Path], None]] = [harm for harm, _ in FILE_DAMAGE.values()]
    harms.append(partial(one_bit, place=len(sound) // 2))
    for harm in harms:
        harm(file)
        try:
            [said] = verified(tables).damage
        except TableError as error:  # without it, nobody knows which files there are
            said = str(error)
        assert re.search(f"{name} is damaged: its file {file.name} (is|has|cannot be) ", said)
        file.write_bytes(sound)
    assert verified(tables) == Verified(files, 0, []), "the checksums are those of the sound files"


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


def verified(tables: BareTables) -> Verified:
    return Verification(tables.project, lambda: BASE).run(lambda total: lambda done: None)


def one_bit(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


def where(metric: str) -> str:
    condition = METRICS[metric].where
    return f"where: {condition}\n" if condition else ""
