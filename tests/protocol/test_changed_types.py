"""The type of a field may change until an event was archived."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import serving_layer
from hourline_core.errors import ConflictError, TableError
from hourline_core.storage import commits, creation
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.opening import open_table
from hourline_core.storage.version_retention import STREAMED
from speed_layer.commit.source_tables import open_source_tables
from tests.support.visits import FIELDS, Visit, Visits

OLD = pa.schema({"sequence": pa.int64(), "weight": pa.bool_()})
NEW = pa.schema({"sequence": pa.int64(), "weight": pa.string(), "note": pa.string()})


def opened(folder: Path, schema: pa.Schema) -> DeltaTable:
    return open_or_create(str(folder / "events" / "scans"), {}, "events", schema, STREAMED, "scans")


def test_an_empty_table_takes_columns_of_other_types(tmp_path: Path) -> None:
    before = opened(tmp_path, OLD)
    after = opened(tmp_path, NEW)
    assert pa.schema(after.schema().to_arrow()) == NEW
    assert after.metadata().configuration == before.metadata().configuration
    assert (after.metadata().name, after.metadata().description) == ("events", "scans")
    commits.append(after, pa.Table.from_pylist([{"sequence": 1, "weight": "heavy", "note": None}], NEW), {})
    assert open_table(str(tmp_path / "events" / "scans"), {}).to_pyarrow_table().column("weight").to_pylist() == [
        "heavy"
    ]


def test_a_table_with_rows_keeps_its_types(tmp_path: Path) -> None:
    table = opened(tmp_path, OLD)
    commits.append(table, pa.Table.from_pylist([{"sequence": 1, "weight": None}], OLD), {})
    with pytest.raises(TableError, match=r"column 'weight' of the table .* is bool, and now declared as string"):
        opened(tmp_path, NEW)


def test_a_name_may_change_its_case_until_there_are_rows(tmp_path: Path) -> None:
    renamed = pa.schema({"sequence": pa.int64(), "Weight": pa.bool_()})
    opened(tmp_path, OLD)
    table = opened(tmp_path, renamed)
    assert pa.schema(table.schema().to_arrow()) == renamed
    commits.append(table, pa.Table.from_pylist([{"sequence": 1, "Weight": True}], renamed), {})
    with pytest.raises(
        TableError, match=r"has a column 'Weight' \(bool\), and the field 'weight' .* only in case; .*key"
    ):
        opened(tmp_path, OLD)


def test_a_row_that_comes_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = opened(tmp_path, OLD)
    row = pa.Table.from_pylist([{"sequence": 1, "weight": True}], OLD)
    replace_columns = creation._replace_columns

    def after_another_process(found: DeltaTable, schema: pa.Schema) -> None:
        commits.append(table, row, {})
        replace_columns(found, schema)

    monkeypatch.setattr(creation, "_replace_columns", after_another_process)
    with pytest.raises(ConflictError):
        opened(tmp_path, NEW)
    assert open_table(str(tmp_path / "events" / "scans"), {}).to_pyarrow_table().equals(row)


def test_a_stream_of_which_nothing_was_archived_starts_with_another_type(tmp_path: Path) -> None:
    site = Visits(tmp_path)
    site.start()
    other = pa.schema([field.with_type(pa.float64()) if field.name == "ms" else field for field in FIELDS])
    open_source_tables(site.layout, site.source, other, [site.aggregation])
    with serving_layer.connect(site.project) as connection:
        ((kind,),) = connection.sql(
            "SELECT DISTINCT typeof(ms) FROM (SELECT ms FROM events_visits UNION ALL SELECT NULL)"
        ).fetchall()
        assert kind == "DOUBLE"
        assert connection.sql("FROM loads").fetchall() == []


def leave_unfinished(site: Visits) -> None:
    """As a kill between the commits of the events and of progress does."""
    tables = site.source_tables
    columns = pa.schema([column for column in tables.events_schema if column.name != "sequence"])
    rows = pa.Table.from_pylist([{"topic_id": "topic-id", "partition": 0, "offset": 7, "ms": 5}], columns)
    tables.append(tables.events, tables.events_schema, rows, site.sequence)


def start_with_another_type(site: Visits) -> None:
    other = pa.schema([field.with_type(pa.float64()) if field.name == "ms" else field for field in FIELDS])
    open_source_tables(site.layout, site.source, other, [site.aggregation])


def test_what_a_kill_left_unfinished_keeps_no_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Visits(tmp_path)
    site.start()
    leave_unfinished(site)
    delete = commits.delete

    def after_a_frozen_writer(*arguments: Any) -> None:
        with pytest.raises(ConflictError):  # It was not killed, and must not finish what is deleted.
            commits.fence(site.source_tables.progress.table)
        delete(*arguments)

    monkeypatch.setattr(commits, "delete", after_a_frozen_writer)
    start_with_another_type(site)
    events = open_table(site.layout.events(site.source), {})
    assert (pa.schema(events.schema().to_arrow()).field("ms").type, events.file_uris()) == (pa.float64(), [])


def test_what_is_archived_keeps_its_type_and_the_new_one_has_a_column_of_its_own(tmp_path: Path) -> None:
    site = Visits(tmp_path)
    site.start()
    site.micro_batch(Visit(0, "home", 5))
    leave_unfinished(site)
    start_with_another_type(site)
    events = open_table(site.layout.events(site.source), {}).to_pyarrow_table()
    (own,) = [name for name in events.column_names if name.startswith("_hourline_field_ms_")]
    assert (events["offset"].to_pylist(), events["ms"].to_pylist(), events[own].to_pylist()) == ([0], [5], [None])
    assert (events["ms"].type, events[own].type) == (pa.int64(), pa.float64())
