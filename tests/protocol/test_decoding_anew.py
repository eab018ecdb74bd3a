"""Decoding anew, chunk by chunk, killed anywhere: the table has each record once, as plain Python decodes it."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch_layer.decoding import chunks, decode_anew, tasks
from hourline_core.compute.tasks import Work
from hourline_core.errors import ConflictError, TableError
from hourline_core.model.decoding import decoding_of
from hourline_core.runtime import failpoints
from hourline_core.storage import file_slices
from hourline_core.storage.opening import open_table
from hourline_core.storage.vacuum import list_vacuumable
from tests.support.decoded_archive import (
    DECLARATIONS,
    RECORDS_SENT,
    Archive,
    LostError,
    Sent,
    raiser,
    run,
    some_archive,
    spark,
)
from tests.support.examples import examples

PLACES = [f"{side} {step} decoded" for step in ("write", "append", "create") for side in ("before", "after")]


@pytest.fixture(autouse=True, scope="module")
def two_tasks() -> Iterator[None]:
    """Small archives are divided between two tasks, too."""
    with patch.object(tasks, "_ROWS_OF_TASK", 3):
        yield


@settings(max_examples=examples(8), deadline=None)
@given(
    st.lists(st.tuples(DECLARATIONS, RECORDS_SENT), min_size=1, max_size=5),
    DECLARATIONS,
    st.lists(st.sampled_from([None, *PLACES]), max_size=3),
    st.integers(1, 8),
)
def test_each_record_is_decoded_anew_once(
    batches: list[tuple[str, list[Sent]]], now: str, killed: list[str | None], rows_in_chunk: int
) -> None:
    with TemporaryDirectory() as folder, patch.object(chunks, "_MOST_ROWS", rows_in_chunk):
        archive = Archive(Path(folder))
        for sequence, (declared, records) in enumerate(batches, 1):
            archive.declare(declared)
            archive.micro_batch(sequence, records)
        archive.declare(now)
        for place in killed:
            archive.decode(len(batches) - 1, place)
        archive.decode(len(batches))
        archive.check(len(batches))


@pytest.mark.parametrize("place", PLACES)
def test_decoding_anew_is_killed_anywhere(place: str, tmp_path: Path) -> None:
    archive = some_archive(tmp_path)
    assert archive.decode(2, place)
    assert not archive.decode(2)
    archive.check(2)


@pytest.mark.parametrize(("place", "left"), [("before write decoded", 0), ("after write decoded", 2)])
def test_the_files_of_a_task_that_ran_twice_count_once_and_are_deleted(place: str, left: int, tmp_path: Path) -> None:
    archive = some_archive(tmp_path)
    with patch.object(tasks, "run_tasks", run), patch.object(failpoints, "visit", raiser(place, LostError)):
        decode_anew.decode_anew(spark, archive.project, archive.source, 2)
    archive.check(2)
    table = open_table(archive.layout.decoded(archive.source, decoding_of(archive.source).hash), {})
    named = len(table.file_uris())
    assert len(list(Path(table.table_uri.removeprefix("file://")).glob("*.parquet"))) == named + left
    assert len(list_vacuumable(table, 0)) == left


def test_a_process_that_has_lost_its_turn_commits_nothing(tmp_path: Path) -> None:
    archive = some_archive(tmp_path)
    other = Archive.decode

    def run_late(rows: SimpleNamespace, work: Work) -> list[bytes]:
        told = run(rows, work)
        other(archive, 2)  # Another process has taken over meanwhile.
        return told

    with patch.object(tasks, "run_tasks", run_late), pytest.raises(ConflictError):
        decode_anew.decode_anew(spark, archive.project, archive.source, 2)
    archive.check(2)


def test_a_damaged_file_of_the_archive_is_named(tmp_path: Path) -> None:
    archive = some_archive(tmp_path)
    (file, *_) = sorted(Path(archive.layout.events(archive.source)).glob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(TableError, match=file.name):
        archive.decode(2)


def test_a_file_of_many_row_groups_is_read_once_by_all_tasks(tmp_path: Path) -> None:
    """In tables of a bounded size, and without the row groups of other micro-batches."""
    archive = Archive(tmp_path)
    archive.declare("numbers")
    for sequence in (1, 2, 3):
        archive.micro_batch(sequence, [Sent(n % 4, n % 3, n) for n in range(40)])
    archive.declare("sent")
    with patch.object(file_slices, "_ROWS", 7):
        archive.decode(3)
    archive.check(3)
