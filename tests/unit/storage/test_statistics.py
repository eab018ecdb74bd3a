"""The statistics of data files change no answer: of Hourline, and of whoever else reads the tables."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from hourline_core.sql.database import connect
from hourline_core.storage import commits
from hourline_core.storage.compaction import compact
from hourline_core.storage.file_ranges import last_with_nulls
from hourline_core.storage.new_files import NewFileWriter, append_files
from tests.support.edge_values import PLACES, ROW, SCHEMA, Question, questions
from tests.support.examples import examples

NUMBERED = SCHEMA.append(pa.field("sequence", pa.int64()))


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    return connect()


def append(table: DeltaTable, rows: pa.Table) -> None:
    commits.append(table, rows, {})


def append_a_file(table: DeltaTable, rows: pa.Table) -> None:
    writer = NewFileWriter(str(table.table_uri), {}, "events", rows)
    writer.write(rows)
    append_files(table, [writer.close()], {})


def overwrite_some(table: DeltaTable, rows: pa.Table) -> None:
    append(table, pa.concat_tables([rows, rows.set_column(len(SCHEMA), "sequence", pa.nulls(len(rows), pa.int64()))]))
    commits.overwrite(table, rows, "sequence >= 0", {})
    commits.delete(table, "sequence IS NULL", {})


def compact_files(table: DeltaTable, rows: pa.Table) -> None:
    for place in range(len(rows)):
        append(table, rows.take([place]))
    compact(table)


@pytest.mark.parametrize("write", [append, append_a_file, overwrite_some, compact_files])
def test_a_plain_duckdb_finds_the_rows_that_a_copy_has(
    write: Callable[[DeltaTable, pa.Table], None], duck: duckdb.DuckDBPyConnection
) -> None:
    @settings(max_examples=examples(15), deadline=None)
    @given(st.lists(ROW, min_size=1, max_size=6), questions(PLACES))
    def check(given_rows: list[dict[str, Any]], asked: list[Question]) -> None:
        rows = pa.Table.from_pylist([{**row, "sequence": place} for place, row in enumerate(given_rows)], NUMBERED)
        with TemporaryDirectory() as folder:
            write(DeltaTable.create(folder, NUMBERED), rows)
            duck.register("given", rows)
            duck.execute("CREATE OR REPLACE TABLE copied AS FROM given")
            duck.execute(f"CREATE OR REPLACE VIEW read AS FROM delta_scan('{folder}')")
            for question in asked:
                assert question.ask(duck, "read") == question.ask(duck, "copied"), question

    check()


@pytest.mark.parametrize("write", [append, append_a_file])
def test_delta_rs_itself_finds_not_a_number_beyond_all_numbers(
    write: Callable[[DeltaTable, pa.Table], None], tmp_path: Path
) -> None:
    rows = pa.Table.from_pylist(
        [{"real": value, "pair": {"real": value}, "sequence": 1} for value in (1.0, 9.0, float("nan"))], NUMBERED
    )
    write(DeltaTable.create(tmp_path, NUMBERED), rows)
    engine = QueryBuilder().register("read", DeltaTable(tmp_path))
    for column in ("real", "pair['real']"):
        found = pa.table(engine.execute(f"SELECT count(*) AS n FROM read WHERE {column} > 9").read_all())
        assert found["n"].to_pylist() == [1], column


@pytest.mark.parametrize("write", [append, append_a_file])
def test_a_column_of_which_the_log_tells_no_nulls_is_read(
    write: Callable[[DeltaTable, pa.Table], None], tmp_path: Path
) -> None:
    table = DeltaTable.create(tmp_path, NUMBERED)
    full = {"real": 1.0, "pair": {"real": 2.0, "deep": {"amount": 1}}}
    write(table, pa.Table.from_pylist([{**full, "sequence": 1}], NUMBERED))
    write(table, pa.Table.from_pylist([{**full, "pair": {"real": 1.0}, "sequence": 2}], NUMBERED))
    write(table, pa.Table.from_pylist([{**full, "sequence": 3}], NUMBERED))
    table = DeltaTable(tmp_path)
    assert [last_with_nulls(table, column, "sequence") for column in ("pair.real", "pair.deep.amount")] == [None, 2]
    assert last_with_nulls(table, "pair.gone", "sequence") == 3
