"""Kinds of damage, the tables and views that they may harm, and what is answered then."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import serving_layer
from hourline_core.ledger.snapshot import take_snapshot
from hourline_core.model import declaration_hash
from hourline_core.storage.opening import open_table
from tests.support.bare_tables import METRICS, SOURCE, BareTables, expected

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


def answers(tables: BareTables, **options: Any) -> Answers:
    with serving_layer.connect(tables.project, **options) as connection:
        found = {}
        for view in VIEWS:
            with connection.explaining(view):
                found[view] = connection.sql(f"FROM {view} ORDER BY ALL").fetchall()
        return found


def check(tables: BareTables, finished: int) -> None:
    """The answers are: each of the first events, once."""
    found = answers(tables)
    for metric in METRICS:
        assert {hour: n for hour, n, *_ in found[metric]} == expected(metric, HOURS[:finished])


def folder(tables: BareTables, name: str) -> Path:
    return Path(tables.layout.root) / name


def last_commit(table: Path) -> Path:
    return max((table / "_delta_log").glob("*.json"))


def added(tables: BareTables, name: str, version: int) -> list[Path]:
    table = open_table(str(folder(tables, name)), {}, version)
    return [folder(tables, name) / path for path in pa.table(table.get_add_actions())["path"].to_pylist()]


def read_files(tables: BareTables, name: str) -> list[Path]:
    """The data files that a read needs."""
    versions = take_snapshot(tables.project).versions[name]
    return [file for version in versions for file in added(tables, name, version)]


def truncate(commit: Path, size: int) -> None:
    commit.write_bytes(commit.read_bytes()[:size])


def at_line_end(commit: Path) -> None:
    """Cut off behind the first line: what is left of the commit says that it was, and changes nothing."""
    truncate(commit, commit.read_bytes().index(b"\n") if b"\n" in commit.read_bytes() else 0)


def footer_start(file: Path) -> int:
    """A Parquet file ends with its footer, the footer's length in four bytes, and PAR1."""
    content = file.read_bytes()
    return len(content) - 8 - int.from_bytes(content[-8:-4], "little")


def flip(file: Path, first: int, count: int) -> None:
    content = bytearray(file.read_bytes())
    content[first : first + count] = bytes(byte ^ 0xFF for byte in content[first : first + count])
    file.write_bytes(content)


LOG_DAMAGE: dict[str, Callable[[Path], None]] = {
    "truncated": lambda commit: truncate(commit, commit.stat().st_size // 2),
    "truncated at the end of a line": at_line_end,
    "without its last byte": lambda commit: truncate(commit, commit.stat().st_size - 1),
    "empty": lambda commit: truncate(commit, 0),
}

FILE_DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (Path.unlink, "is missing"),
    "truncated": (lambda file: truncate(file, file.stat().st_size // 2), "bytes instead of"),
    "empty": (lambda file: truncate(file, 0), "has 0 bytes instead of"),
    "flipped in a page header": (lambda file: flip(file, 4, 40), "cannot be decoded"),
    "flipped in its footer": (lambda file: flip(file, footer_start(file), 40), "cannot be decoded"),
}


def on_each_table(kinds: Collection[str]) -> list[Any]:
    """Parameters ``damage`` and ``name``: each table has one kind of damage, in turn. The long run has all of them."""
    return [
        pytest.param(damage, name, marks=() if place % len(kinds) == number else pytest.mark.long)
        for place, name in enumerate(TABLES)
        for number, damage in enumerate(kinds)
    ]


SOME_TABLES = [
    pytest.param(name, marks=() if name.startswith(("progress", "final", "coverage")) else pytest.mark.long)
    for name in TABLES
]
"""A table of the speed layer, one of a recompute, and coverage. The long run has all tables."""
