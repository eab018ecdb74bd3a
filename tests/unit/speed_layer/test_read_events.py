"""Events of some hours and sequences, as tasks read them of an archive."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.model.scratch_columns import HOUR, SEQUENCE
from hourline_core.storage.file_ranges import FileRange
from hourline_core.storage.file_slices import read_slices
from speed_layer.derived import read_events
from speed_layer.derived.spans import spans_of

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
COLUMNS = {HOUR: "hour", SEQUENCE: "sequence"}
TYPES = {HOUR: TIMESTAMP, SEQUENCE: pa.int64()}


def hour(number: int) -> datetime:
    return BEGIN + timedelta(hours=number)


def write(folder: Path, files: list[list[tuple[int, int]]]) -> list[FileRange]:
    """Files with these hours and sequences, in groups of two rows."""
    written = []
    for number, rows in enumerate(files):
        path = folder / f"{number}.parquet"
        hours = [hour(of) for of, _ in rows]
        table = pa.table({"hour": pa.array(hours, TIMESTAMP), "sequence": [sequence for _, sequence in rows]})
        pq.write_table(table, path, row_group_size=2)
        written.append(FileRange(path.name, 0, len(rows), min(hours), max(hours)))
    return written


def read(plan: Any, files: list[FileRange], hours: set[int], after: int, up_to: int) -> list[tuple[datetime, int]]:
    chosen = read_events.choose_files(files, spans_of(map(hour, hours)), frozenset())
    tables = read_events.read_events(plan, chosen, COLUMNS, after, up_to)
    return sorted((row[HOUR], row[SEQUENCE]) for table in tables for row in table.to_pylist())


@given(
    files=st.lists(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 4)), min_size=1, max_size=6), max_size=3),
    hours=st.sets(st.integers(0, 12)),
    after=st.integers(0, 3),
    up_to=st.integers(0, 4),
)
def test_they_are_those_of_the_hours_and_sequences(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[list[tuple[int, int]]],
    hours: set[int],
    after: int,
    up_to: int,
) -> None:
    folder = tmp_path_factory.mktemp("archive")
    plan = SimpleNamespace(archive=str(folder), storage_options={}, types=TYPES, anew=None)
    expected = [(hour(of), at) for rows in files for of, at in rows if of in hours and after < at <= up_to]
    assert read(plan, write(folder, files), hours, after, up_to) == sorted(expected)


def test_a_file_is_read_once_however_many_spans_its_hours_are_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = write(tmp_path, [[(24 * day, 1) for day in range(50)]])
    plan = SimpleNamespace(archive=str(tmp_path), storage_options={}, types=TYPES, anew=None)
    reads = []

    def count(*given: Any) -> Any:
        reads.append(given)
        return read_slices(*given)

    monkeypatch.setattr(read_events, "read_slices", count)
    assert len(read(plan, files, {24 * day for day in range(50)}, 0, 1)) == 50
    assert len(reads) == 1
