"""A refresh that changes a few rows of a large table writes the files with these rows alone."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hourline_core.errors import ConflictError, TableError
from hourline_core.ledger.layout import Layout
from hourline_core.lookups import version_files
from hourline_core.lookups.versions import LookupVersion, commit_version, is_kept, open_versions, read_version
from hourline_core.model import Lookup
from hourline_core.storage.opening import open_table
from tests.support.examples import examples
from tests.support.lookup_rows import take
from tests.unit.lookups.test_lookup_rows import LATEST, MOMENT, PRICE, READ, prices

SINCE = datetime(2026, 3, 2, tzinfo=UTC)
HISTORY = Lookup.model_validate(
    {
        "name": "rate",
        "table": "rates.csv",
        "key": "k",
        "columns": {"k": "long", "since": "timestamp", "until": "timestamp", "rate": "long"},
        "valid_from": "since",
        "valid_to": "until",
    }
)
READ_HISTORY = pa.schema({"k": pa.int64(), "since": MOMENT, "until": MOMENT, "rate": pa.int64()})


def commit(layout: Layout, lookup: Lookup, rows: pa.Table) -> LookupVersion:
    return commit_version(layout, lookup, open_versions(layout, lookup), take(lookup, rows).rows)


@settings(max_examples=examples(50))
@given(st.lists(prices, min_size=2, max_size=4), st.sampled_from([LATEST, PRICE]), st.integers(1, 3))
def test_each_version_has_its_rows_however_they_are_divided(
    contents: Sequence[list[dict[str, Any]]], lookup: Lookup, rows_of_file: int
) -> None:
    expected: dict[int, list[dict[str, Any]]] = {}
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(version_files, "_ROWS_OF_FILE", rows_of_file)
        layout = Layout(folder)
        for content in contents:
            try:
                rows = take(lookup, pa.Table.from_pylist(content, READ)).rows
            except TableError:
                continue
            before = list(expected.values())[-1:]
            version = commit_version(layout, lookup, open_versions(layout, lookup), rows)
            assert (version.number not in expected) == (before != [rows.to_pylist()])
            expected[version.number] = rows.to_pylist()
            assert version.rows == rows.num_rows
        for number, rows in expected.items():
            found = read_version(layout, lookup, number).to_pylist()
            assert sorted(map(repr, found)) == sorted(map(repr, rows))


def history(keys: Sequence[int], changed: int | None = None) -> pa.Table:
    """Two rows of each key, of which the first one is valid until the second one is. That of ``changed`` is another."""
    middle = SINCE + timedelta(days=1)
    rows = [
        {"k": key, "since": since, "until": until, "rate": key + (key == changed and since is not None)}
        for key in keys
        for since, until in ((None, middle), (middle, None))
    ]
    return pa.Table.from_pylist(rows, READ_HISTORY)


def files_of(layout: Layout, number: int) -> set[str]:
    return set(open_table(layout.lookup(HISTORY), {}, number).file_uris())


def test_a_table_that_grows_everywhere_has_no_small_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_files, "_ROWS_OF_FILE", 10)
    layout, keys = Layout(str(tmp_path)), list(range(0, 1000, 50))
    for added in range(10, 0, -1):  # always into the first files
        keys = sorted({*keys, *range(added, 1000, 250)})
        version = commit(layout, HISTORY, history(keys))
    assert version.rows == 2 * len(keys)
    assert len(files_of(layout, version.number)) <= 2 * version.rows // 10


def test_only_files_with_changed_rows_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_files, "_ROWS_OF_FILE", 5)  # in the midst of a key
    layout, keys = Layout(str(tmp_path)), range(10, 30)
    contents = [
        history(keys),
        history(keys, 17),
        history([*keys, 99]),
        history([1, *keys, 99]),
        history([key for key in keys if key != 20]),
        history(range(100, 110)),
    ]
    versions = [commit(layout, HISTORY, content) for content in contents]
    assert [version.number for version in versions] == list(range(1, len(contents) + 1))
    files = [files_of(layout, version.number) for version in versions]
    # A range with more rows than a file may have is divided, and one without rows has no file.
    assert [len(of) for of in files] == [8, 8, 9, 10, 10, 4]
    assert [len(now - before) for before, now in pairwise(files)] == [1, 3, 2, 3, 4]
    for version, content in zip(versions, contents, strict=True):
        assert is_kept(layout, HISTORY, version.number)
        found = read_version(layout, HISTORY, version.number).to_pylist()
        assert sorted(map(repr, found)) == sorted(map(repr, content.to_pylist()))
    assert commit(layout, HISTORY, contents[-1]) == versions[-1]


@pytest.mark.parametrize("versions", [0, 1])
def test_files_are_deleted_whose_commit_loses(versions: int, tmp_path: Path) -> None:
    """With a version before, only changed files are written."""
    layout = Layout(str(tmp_path))
    for _ in range(versions):
        commit(layout, HISTORY, history(range(10)))
    ours, theirs = open_versions(layout, HISTORY), open_versions(layout, HISTORY)
    commit_version(layout, HISTORY, theirs, take(HISTORY, history(range(10), 3)).rows)
    there = {str(file) for file in Path(layout.lookup(HISTORY)).glob("*.parquet")}
    with pytest.raises(ConflictError, match="another process has written"):
        commit_version(layout, HISTORY, ours, take(HISTORY, history(range(10), 4)).rows)
    assert {str(file) for file in Path(layout.lookup(HISTORY)).glob("*.parquet")} == there


def test_of_a_file_with_more_rows_only_the_columns_of_its_range_are_read(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path))
    commit(layout, HISTORY, history(range(10)))
    (file,) = Path(layout.lookup(HISTORY)).glob("*.parquet")
    rate = pq.read_metadata(file).row_group(0).column(3)
    content = bytearray(file.read_bytes())
    first = rate.dictionary_page_offset or rate.data_page_offset
    content[first : first + rate.total_compressed_size] = b"\xff" * rate.total_compressed_size
    file.write_bytes(content)
    assert commit(layout, HISTORY, history(range(11))).rows == 22
