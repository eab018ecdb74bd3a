"""Data files that are written before their commit: their statistics leave out no file that a reader needs."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from hourline_core.errors import TableError
from hourline_core.storage.file_if_rows import FileIfRows
from hourline_core.storage.new_files import NewFile, NewFileWriter, append_files
from tests.support.examples import examples

FIRST = datetime(2024, 3, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    {
        "number": pa.int64(),
        "text": pa.string(),
        "at": pa.timestamp("us", "UTC"),
        "share": pa.float64(),
        "inner": pa.struct({"number": pa.int32()}),
        "items": pa.list_(pa.int64()),
    }
)
ROW = st.fixed_dictionaries(
    {
        "number": st.none() | st.integers(-5, 5),
        "text": st.none() | st.text("aé€😀", max_size=3),
        "at": st.none() | st.integers(0, 5_000_000).map(lambda micros: FIRST + timedelta(microseconds=micros)),
        "share": st.none() | st.sampled_from([-1.0, 0.5, float("nan")]),
        "inner": st.fixed_dictionaries({"number": st.none() | st.integers(-5, 5)}),
        "items": st.lists(st.integers(0, 3), max_size=2),
    }
)
CHUNKS = st.lists(st.lists(ROW, min_size=1, max_size=4), min_size=1, max_size=3)


def write(folder: Path, chunks: list[list[dict[str, Any]]]) -> NewFile:
    tables = [pa.Table.from_pylist(chunk, SCHEMA) for chunk in chunks]
    writer = NewFileWriter(str(folder), {}, "events", sample=tables[0])
    for table in tables:
        writer.write(table)
    return writer.close()


def told(value: Any) -> Any:
    return f"{value:%Y-%m-%dT%H:%M:%S.%f}Z" if isinstance(value, datetime) else value


@settings(max_examples=examples(40), deadline=None)
@given(CHUNKS)
def test_the_statistics_of_a_file_are_those_of_all_its_chunks(chunks: list[list[dict[str, Any]]]) -> None:
    with TemporaryDirectory() as name:
        file = write(Path(name), chunks)
    rows = [row for chunk in chunks for row in chunk]
    statistics = json.loads(file.statistics)
    assert file.rows == statistics["numRecords"] == len(rows)
    flat = [{**row, "inner": row["inner"]["number"]} for row in rows]
    for column in ("number", "text", "at", "inner"):
        values = [row[column] for row in flat if row[column] is not None]
        lowest, highest, nulls = (
            of.get(column, {}).get("number") if column == "inner" else of.get(column)
            for of in (statistics["minValues"], statistics["maxValues"], statistics["nullCount"])
        )
        expected = (told(min(values)), told(max(values))) if values else (None, None)
        assert (lowest, highest, nulls) == (*expected, len(rows) - len(values)), column


@settings(max_examples=examples(40), deadline=None)
@given(CHUNKS)
def test_a_number_with_a_fraction_and_a_list_have_no_range(chunks: list[list[dict[str, Any]]]) -> None:
    with TemporaryDirectory() as name:
        statistics = json.loads(write(Path(name), chunks).statistics)
    for bounds in (statistics["minValues"], statistics["maxValues"]):
        assert not bounds.keys() & {"share", "items"}


def test_a_column_with_a_longer_text_has_no_range(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"text": "a", "inner": {}, "items": []}, {"text": "b" * 65, "inner": {}, "items": []}]
    statistics = json.loads(write(tmp_path, [rows]).statistics)
    assert "text" not in statistics["minValues"] | statistics["maxValues"]
    assert statistics["nullCount"]["text"] == 0


def test_a_file_is_read_once_it_is_committed(tmp_path: Path) -> None:
    table = DeltaTable.create(str(tmp_path), SCHEMA)
    row = {"number": 1, "text": "x", "at": FIRST, "share": 0.5, "inner": {"number": 2}, "items": [3]}
    committed, left = write(tmp_path, [[row], [{**row, "number": 7}]]), write(tmp_path, [[row]])
    append_files(table, [committed], {"sequence": 1})
    assert table.version() == 1
    assert [Path(uri).name for uri in table.file_uris()] == [committed.path] != [left.path]
    found = DeltaTable(str(tmp_path)).to_pyarrow_table(filters=[("number", "=", 1)])
    assert found.to_pylist() == [row]


def test_a_file_that_was_deleted_meanwhile_is_not_committed(tmp_path: Path) -> None:
    table = DeltaTable.create(str(tmp_path), SCHEMA)
    file = write(tmp_path, [[{"inner": {}, "items": []}]])
    (tmp_path / file.path).unlink()
    with pytest.raises(
        TableError, match=f"^the file {file.path} of the table at .* was deleted before it was committed"
    ):
        append_files(table, [file], {"sequence": 1})
    assert table.version() == 0


def test_rows_of_no_table_are_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = pa.table({"n": [1]})
    nowhere = FileIfRows("", {}, "rejected", rows.schema)
    nowhere.write(rows)
    assert nowhere.close() == []
    assert list(tmp_path.iterdir()) == []
