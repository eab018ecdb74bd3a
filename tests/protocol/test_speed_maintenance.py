"""The speed layer's tables stay small while it runs, and nobody who reads notices."""

import os
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import serving_layer
from hourline_core.storage import commits
from hourline_core.storage.compaction import compact, count_compactable
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.opening import open_table
from hourline_core.storage.version_retention import KEPT_HOURS, STREAMED
from speed_layer.commit.maintenance import MERGED, MICRO_BATCHES, maintain_after, maintain_source
from tests.support.bare_tables import SOURCE, BareTables

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize("micro_batches", [40, pytest.param(MICRO_BATCHES, marks=pytest.mark.long)])
def test_files_and_log_entries_stop_growing(micro_batches: int, tmp_path: Path) -> None:
    """Maintenance runs each hour, after so many micro-batches. Time passes by making files older, which is what Delta's
    log cleanup goes by; a vacuum goes by the log's own times, so it keeps nothing.
    """
    rounds = 4
    tables = BareTables(tmp_path, [n // 300 for n in range(rounds * micro_batches)])
    tables.start()
    most: dict[str, int] = {}
    for number in range(1, rounds * micro_batches + 1):
        tables.micro_batch(1)
        if number % micro_batches == 0:
            most = files(Path(tables.layout.root))
            maintain_source(tables.project, tables.source_tables, kept_hours=0)
            grow_older(Path(tables.layout.root), hours=1)
    # The log reaches back two hours, here two rounds, from the last time it was cleaned, which is once a round. Beside
    # the commits of micro-batches lie checkpoints, and the commits of maintenance.
    logs = {folder: size for folder, size in most.items() if folder.endswith("_delta_log")}
    assert max(logs.values()) < 3.2 * micro_batches + 20, logs
    assert max(size for folder, size in most.items() if folder not in logs) < 1.25 * micro_batches, most
    tables.start()
    tables.check()


def test_the_small_files_of_one_table_at_a_time_are_merged(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, [0] * 3 * MERGED)
    tables.start()
    merged: list[str] = []
    for number in range(1, 3 * MERGED + 1):
        tables.micro_batch(1)
        before = [table.version() for table in tables.source_tables.tables]
        maintain_after(tables.project, tables.source_tables, number)
        changed = [
            table.table_uri
            for table, version in zip(tables.source_tables.tables, before, strict=True)
            if table.version() > version
        ]
        assert len(changed) <= 1, f"after micro-batch {number}"
        merged += changed
    written = [table for table in tables.source_tables.tables if table.file_uris()]
    assert {table.table_uri for table in written} == set(merged)
    assert max(len(table.file_uris()) for table in written) <= MERGED
    tables.check()


def test_a_reader_goes_on_reading_the_same_over_all_maintenance(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, [n % 5 for n in range(100)])
    tables.start()
    for _ in range(10):
        tables.micro_batch(5)
    with serving_layer.connect(tables.project) as early:
        tables.publish(0, 1)
        with serving_layer.connect(tables.project) as late:
            before, archive = answers(early), archived(early)
            assert sum(count for _, count in before) == 50
            for numbers in ((0, 1, 2), (0, 3)):
                grow_older(Path(tables.layout.root), hours=0.9)
                maintain_source(tables.project, tables.source_tables)
                tables.micro_batch(5)
                tables.publish(*numbers)
                assert answers(early) == answers(late) == before
                assert archived(early) == archive, (
                    "it is read from files, where few provisional rows are kept in memory"
                )
            late.refresh()
            assert sum(count for _, count in answers(late)) == 60
    tables.check()


def answers(connection: serving_layer.Connection) -> list[tuple[Any, ...]]:
    return connection.sql("SELECT hour, n FROM totals ORDER BY hour").fetchall()


def archived(connection: serving_layer.Connection) -> list[tuple[Any, ...]] | str:
    """What the archive adds up to; or why it cannot be read."""
    try:
        return connection.sql("SELECT count(*), sum(sequence) FROM hourline.events_clicks").fetchall()
    except duckdb.Error as error:
        return str(error)


def files(root: Path) -> dict[str, int]:
    """By folder of events, progress and provisional, how many files lie in it."""
    folders = [
        folder
        for kind in ("events", "progress", "provisional")
        for folder in (root / kind).rglob("*")
        if folder.is_dir()
    ]
    return {str(folder.relative_to(root)): sum(file.is_file() for file in folder.iterdir()) for folder in folders}


def grow_older(root: Path, hours: float) -> None:
    for file in root.rglob("*"):
        changed = file.stat().st_mtime - hours * 3600
        os.utime(file, (changed, changed))


def test_what_came_after_a_cut_is_never_pruned(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, hours=[0, 0, 1, 0, 1, 1, 0])
    tables.start()
    tables.micro_batch(2)
    for published in ([0, 1], [0], [1]):
        tables.publish(*published)
        tables.micro_batch(2)
        maintain_source(
            tables.project, tables.source_tables
        )  # both are there: rows up to the cutoff, and rows after it
        tables.check()


def test_files_of_tasks_that_no_commit_names_are_deleted_once_they_are_older_than_any_query(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, hours=[0, 1, 0, 1])
    tables.start()
    tables.micro_batch(2)
    events = Path(tables.layout.events(SOURCE).removeprefix("file://"))
    (committed,) = (path for path in events.glob("*.parquet"))
    old, young, hidden = (events / name for name in ("old.parquet", "young.parquet", "_attempts/old.parquet"))
    hidden.parent.mkdir()
    for orphan in (old, young, hidden):
        orphan.write_bytes(committed.read_bytes())
    grow_older(Path(tables.layout.root), hours=KEPT_HOURS - 0.1)
    grow_older(old.parent, hours=0.2)
    young.touch()
    maintain_source(tables.project, tables.source_tables)
    assert not old.exists()
    assert young.exists(), "it may be named by the next commit"
    assert hidden.exists(), "Delta takes a folder whose name begins with _ for another's"
    assert committed.exists(), "it is named, however old it is"
    tables.micro_batch(2)
    tables.check()


def test_compaction_keeps_rows_of_files_that_were_written_in_different_ways(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("sequence", pa.int64()),
            ("shop", pa.string()),
            ("read", pa.list_(pa.struct([("topic", pa.string()), ("last", pa.int64())]))),
        ]
    )
    wider = pa.schema([*schema, ("note", pa.string())])
    uri = str(tmp_path / "events" / "sales")
    table = open_or_create(uri, {}, "events", schema, STREAMED, "")
    for sequence in range(1, 7):
        rows = [
            {"sequence": sequence, "shop": shop, "read": [{"topic": shop, "last": sequence}]}
            for shop in ("north", "south", None)
        ]
        commits.append(table, pa.Table.from_pylist(rows, schema), {})
    commits.delete(table, "sequence <= 4 AND shop = 'south'", {})  # delta-rs writes again what is left of these files
    table = open_or_create(uri, {}, "events", wider, STREAMED, "")
    commits.append(
        table, pa.Table.from_pylist([{"sequence": 7, "shop": "east", "read": None, "note": "new"}], wider), {}
    )
    before = table.to_pyarrow_table().sort_by("sequence").to_pylist()
    compact(table)
    assert len(table.file_uris()) == 1
    after = open_table(uri, {}).to_pyarrow_table()
    assert sorted(after.to_pylist(), key=str) == sorted(before, key=str)
    assert len(before) == 15


def test_rows_of_a_larger_file_among_merged_ones_are_kept_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([("sequence", pa.int64())])
    table = open_or_create(str(tmp_path / "events" / "sales"), {}, "events", schema, STREAMED, "")
    commits.append(table, pa.table({"sequence": list(range(0, 90_000, 3))}, schema), {})
    large = max(file.stat().st_size for file in tmp_path.rglob("*.parquet"))
    for sequence in (66, 60, 63):
        commits.append(table, pa.table({"sequence": [sequence]}, schema), {})
    before = sorted(table.to_pyarrow_table()["sequence"].to_pylist())
    monkeypatch.setattr("hourline_core.storage.compaction._FILE_BYTES", large)  # the size that is not merged again
    compact(table, below=large)
    assert len(table.file_uris()) < 4
    assert sorted(table.to_pyarrow_table()["sequence"].to_pylist()) == before


def test_files_are_merged_in_order_and_one_with_many_rows_is_left(tmp_path: Path) -> None:
    schema = pa.schema([("sequence", pa.int64())])
    table = open_or_create(str(tmp_path / "events" / "sales"), {}, "events", schema, STREAMED, "")
    for sequences in ([3, 1, 2], [5, 7], [4], [6]):  # [4], [5, 7], [6] in order of their first ones
        commits.append(table, pa.table({"sequence": sequences}, schema), {})
    (large,) = (path for path in table.file_uris() if len(pq.read_table(path)) == 3)
    compact(table, below_rows=3)
    left = table.file_uris()
    assert large in left
    assert len(left) == 2
    (merged,) = set(left) - {large}
    assert pq.read_table(merged)["sequence"].to_pylist() == [4, 5, 6, 7]


@pytest.mark.parametrize("limit", ["rows", "bytes"])
def test_no_more_rows_are_merged_at_once_than_memory_has_room_for(
    limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = pa.schema([("sequence", pa.int64())])
    table = open_or_create(str(tmp_path / "events" / "sales"), {}, "events", schema, STREAMED, "")
    for number in range(11):
        commits.append(table, pa.table({"sequence": [3 * number, 3 * number + 1, 3 * number + 2]}, schema), {})
    if limit == "rows":
        monkeypatch.setattr("hourline_core.storage.compaction._MAX_ROWS", 14)
    else:
        size = max(file.stat().st_size for file in tmp_path.rglob("*.parquet"))
        monkeypatch.setattr("hourline_core.storage.compaction._MAX_BYTES", 9 * size // 2)
    before = sorted(table.to_pyarrow_table()["sequence"].to_pylist())
    assert count_compactable(table) == 8
    compact(table)
    assert sorted(table.to_pyarrow_table()["sequence"].to_pylist()) == before
    assert sorted(len(pq.read_table(path)) for path in table.file_uris()) == [9, 12, 12]


def test_files_with_common_values_are_merged_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([("sequence", pa.int64())])
    table = open_or_create(str(tmp_path / "events" / "sales"), {}, "events", schema, STREAMED, "")
    for sequences in ([1, 2], [2, 3], [3], [4, 5], [5]):
        commits.append(table, pa.table({"sequence": sequences}, schema), {})
    monkeypatch.setattr("hourline_core.storage.compaction._MAX_ROWS", 2)
    compact(table)
    left = sorted(sorted(pq.read_table(path)["sequence"].to_pylist()) for path in table.file_uris())
    assert left == [[1, 2, 2, 3, 3], [4, 5, 5]]
