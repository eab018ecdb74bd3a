"""Rows keep their order in a data file, so that a question about a day reads a few groups of them."""

from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from hourline_core.storage import commits
from hourline_core.storage.compaction import compact
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.version_retention import PUBLISHED

COLUMNS = pa.schema({"hour": pa.int64(), "n": pa.int64()})
ROWS, FILES = 150_000, 5


def make(folder: Path) -> DeltaTable:
    return open_or_create(f"{folder}/final/totals", {}, "final", COLUMNS, PUBLISHED, "totals")


def numbers(hours: range) -> pa.Table:
    return pa.table({"hour": list(hours), "n": list(hours)}, COLUMNS)


def hours_as_they_lie(table: DeltaTable) -> list[int]:
    (file,) = table.file_uris()
    hours: list[int] = pq.read_table(urlsplit(file).path)["hour"].to_pylist()
    return hours


@pytest.mark.parametrize("interleaved", [True, False])
def test_compacted_rows_lie_in_order_whatever_the_order_of_what_was_merged(tmp_path: Path, interleaved: bool) -> None:
    table, piece = make(tmp_path), ROWS // FILES
    for number in range(FILES):
        consecutive = range(number * piece, (number + 1) * piece)
        write_deltalake(table, numbers(range(number, ROWS, FILES) if interleaved else consecutive), mode="append")
    compact(table, "hour")
    assert hours_as_they_lie(table) == list(range(ROWS))


@pytest.mark.parametrize("predicate", [None, "hour >= 0"])
def test_rows_in_many_pieces_are_written_in_their_order(tmp_path: Path, predicate: str | None) -> None:
    table = make(tmp_path)
    pieces = [numbers(range(first, min(first + 1000, ROWS))) for first in range(0, ROWS, 1000)]
    commits.overwrite(table, pa.concat_tables(pieces), predicate, {})
    assert hours_as_they_lie(table) == list(range(ROWS))
