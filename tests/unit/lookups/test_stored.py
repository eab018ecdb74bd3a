"""The rows of a lookup that stay in their files are those that events find in memory."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from hourline_core.errors import TableError
from hourline_core.ledger.layout import Layout
from hourline_core.lookups import join
from hourline_core.lookups.changes import find_changes
from hourline_core.lookups.join import PinnedLookup, load, look_up, open_lookup
from hourline_core.lookups.loaded import LoadedLookup
from hourline_core.lookups.stored import StoredLookup
from hourline_core.lookups.versions import commit_version, open_versions, read_version, scan_differing
from hourline_core.model import Lookup
from hourline_core.storage.opening import open_table
from tests.support.lookup_rows import take

START = datetime(2026, 3, 2, tzinfo=UTC)
ROWS = 40_000
"""Five groups of rows in a file."""
KEYS: dict[str, Callable[[int], Any]] = {
    "string": lambda number: f"customer-{number:06}",
    "int": lambda number: number - ROWS // 2,
    "long": lambda number: number << 20,
    "date": lambda number: date(1990, 1, 1) + timedelta(days=number),
    "timestamp": lambda number: START + timedelta(microseconds=number),
}


def declare(of: str, **settings: Any) -> Lookup:
    columns = {"k": of, "part": "boolean", "v": "long"}
    return Lookup.model_validate(
        {"name": "x", "table": "x.parquet", "key": ["k", "part"], "columns": columns, **settings}
    )


def commit(folder: Path, lookup: Lookup) -> PinnedLookup:
    """Each third number is a key."""
    numbers = range(0, 3 * ROWS, 3)
    read = pa.table(
        {
            "k": pa.array(map(KEYS[lookup.columns["k"].type], numbers), type_of_key(lookup)),
            "part": [number % 2 == 0 for number in numbers],
            "v": numbers,
        }
    )
    layout = Layout(str(folder))
    version = commit_version(layout, lookup, open_versions(layout, lookup), take(lookup, read).rows)
    return PinnedLookup(lookup, layout, version.number)


def type_of_key(lookup: Lookup) -> pa.DataType:
    types = {"string": pa.string(), "int": pa.int32(), "long": pa.int64(), "date": pa.date32()}
    return types.get(lookup.columns["k"].type, pa.timestamp("us", tz="UTC"))


def values_of(pinned: PinnedLookup, numbers: list[int], of: pa.DataType) -> list[int | None]:
    """What events with the keys of ``numbers`` meet."""
    kind = pinned.lookup.columns["k"].type
    keys = [pa.chunked_array([pa.array(map(KEYS[kind], numbers), of)])]
    keys.append(pa.chunked_array([[number % 2 == 0 for number in numbers]]))
    times = pa.chunked_array([[START] * len(numbers)], pa.timestamp("us", tz="UTC"))
    with duckdb.connect() as connection:
        met = look_up(connection, pinned, ["v"], keys, times)
    assert met.has_no_row.to_pylist() == [value is None for value in met.columns["v"].to_pylist()]
    values: list[int | None] = met.columns["v"].to_pylist()
    return values


@pytest.mark.parametrize("folder", ["tables", "tables[1]"])
@pytest.mark.parametrize("kind", KEYS)
def test_few_and_many_events_find_rows_in_all_groups(
    kind: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB reads the files itself, or Arrow does, as it reads those on other machines."""
    monkeypatch.setattr(join, "_MOST_ROWS", 0)
    pinned = commit(tmp_path / folder, declare(kind))
    for step in (7, 9_973):
        numbers = list(range(-step, 3 * ROWS + step, step))
        found = values_of(pinned, numbers, type_of_key(pinned.lookup))
        assert found == [number if number % 3 == 0 and 0 <= number < 3 * ROWS else None for number in numbers]


def test_keys_of_another_width_find_their_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join, "_MOST_ROWS", 0)
    pinned = commit(tmp_path, declare("int"))
    beyond = (1 << 40) + ROWS // 2
    assert values_of(pinned, [3, beyond, 9], pa.int64()) == [3, None, 9]


def test_a_column_that_was_declared_since_is_null(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join, "_MOST_ROWS", 0)
    pinned = commit(tmp_path, declare("long"))
    columns = {"k": "long", "part": "boolean", "v": "long", "new": "decimal(9,2)"}
    wider = PinnedLookup(declare("long", columns=columns), pinned.layout, pinned.version)
    times = pa.chunked_array([[START]], pa.timestamp("us", tz="UTC"))
    keys = [pa.chunked_array([[9 << 20]]), pa.chunked_array([[False]])]
    with duckdb.connect() as connection:
        met = look_up(connection, wider, ["v", "new"], keys, times)
    assert met.columns.to_pylist() == [{"v": 9, "new": None}]
    assert met.columns["new"].type == pa.decimal128(9, 2)


DELETED, DAMAGED = "version 1 of lookup 'x' is no longer kept", "is damaged: its file part-"


def spoil(file: Path) -> None:
    """Other bytes of the same number."""
    content = file.read_bytes()
    middle = len(content) // 2
    file.write_bytes(content[: middle - 20_000] + b"\xff" * 40_000 + content[middle + 20_000 :])


DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "deleted": (Path.unlink, DELETED),
    "empty": (lambda file: file.write_bytes(b""), DAMAGED),
    "cut off": (lambda file: file.write_bytes(file.read_bytes()[:-100]), DAMAGED),
    "spoiled": (spoil, DAMAGED),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("folder", ["tables", "tables[1]"])
@pytest.mark.parametrize("most_rows", [0, 1_000_000])
def test_files_that_are_damaged_meanwhile_are_told_in_a_sentence(
    most_rows: int, folder: str, damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However they are read: by DuckDB, by Arrow, or as a whole."""
    monkeypatch.setattr(join, "_MOST_ROWS", most_rows)
    pinned = commit(tmp_path / folder, declare("string"))
    if not most_rows:
        assert values_of(pinned, [3], pa.string()) == [3]
    (file,) = (tmp_path / folder / "lookups" / "x").glob("*.parquet")
    harm, words = DAMAGES[damage]
    harm(file)
    with pytest.raises(TableError, match=words):
        values_of(pinned, list(range(0, 3 * ROWS, 9)), pa.string())


@pytest.mark.parametrize("damage", ["empty", "cut off", "spoiled"])
def test_a_refresh_and_a_comparison_tell_of_a_damaged_version(damage: str, tmp_path: Path) -> None:
    lookup = declare("string")
    layout = commit(tmp_path, lookup).layout
    less = read_version(layout, lookup, 1).slice(1)
    assert commit_version(layout, lookup, open_versions(layout, lookup), less).number == 2
    for file in open_table(layout.lookup(lookup), {}).file_uris():
        DAMAGES[damage][0](Path(file))
    with pytest.raises(TableError, match=DAMAGED):
        commit_version(layout, lookup, open_versions(layout, lookup), less)
    with pytest.raises(TableError, match=DAMAGED), scan_differing(layout, lookup, (1, 2)) as (before, now):
        find_changes(lookup, before, now, ["v"], tmp_path)


def test_rows_that_repeat_much_text_stay_in_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is small, and its rows in memory would not be."""
    monkeypatch.setattr(join, "_MOST_ROW_BYTES", 1 << 20)
    lookup = Lookup.model_validate(
        {"name": "x", "table": "x.parquet", "key": "k", "columns": {"k": "long", "v": "string"}}
    )
    layout, found = Layout(str(tmp_path)), []
    for size in (100, 10_000):
        rows = take(lookup, pa.table({"k": range(size), "v": ["x" * 1_000] * size})).rows
        version = commit_version(layout, lookup, open_versions(layout, lookup), rows)
        found.append(type(open_lookup(PinnedLookup(lookup, layout, version.number))))
    assert sum(file.stat().st_size for file in tmp_path.rglob("*.parquet")) < 1 << 20
    assert found == [LoadedLookup, StoredLookup]
    pinned = PinnedLookup(lookup, layout, version.number)
    times = pa.chunked_array([[START]], pa.timestamp("us", tz="UTC"))
    with duckdb.connect() as connection:
        met = look_up(connection, pinned, ["v"], [pa.chunked_array([[7]])], times)
    assert met.columns["v"].to_pylist() == ["x" * 1_000]


def test_few_versions_that_stay_in_their_files_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join, "_MOST_ROWS", 0)
    monkeypatch.setattr(join, "_MOST_STORED", 3)
    lookup = declare("long")
    layout = Layout(str(tmp_path))
    for value in range(4):
        rows = take(lookup, pa.table({"k": [1], "part": [True], "v": [value]})).rows
        commit_version(layout, lookup, open_versions(layout, lookup), rows)
    used = tuple((number, number) for number in range(1, 4))
    opened = [load(PinnedLookup(lookup, layout, number, used)) for number in range(1, 5)]
    again = [load(PinnedLookup(lookup, layout, number, used)) for number in (2, 3, 4, 1)]
    assert [one is before for one, before in zip(again, [*opened[1:], opened[0]], strict=True)] == [True] * 3 + [False]
