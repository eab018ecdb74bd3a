"""A task holds its records in chunks, which are bounded in rows and in bytes. Only one record may be larger."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.model.scratch_columns import OFFSET, PARTITION, PLACE, TOPIC, VALUE
from speed_layer.intake import tasks

MB = 1_000_000
MOST_ROWS, MOST_BYTES = 50_000, 64 * 1024 * 1024


def batch_of(offsets: Sequence[int], values: Sequence[bytes | None]) -> pa.RecordBatch:
    columns = {
        TOPIC: pa.array(["visits"] * len(offsets), pa.string()),
        PARTITION: pa.array(np.zeros(len(offsets), np.int32)),
        OFFSET: pa.array(offsets, pa.int64()),
        PLACE: pa.array(np.arange(len(offsets)), pa.int32()),
        VALUE: pa.array(values, pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def test_large_records_among_small_ones_end_a_chunk_by_its_bytes() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(100):
            large = [b"x" * 8 * MB] if number % 3 == 0 else []
            values = [b"small"] * 99 + large
            yield batch_of(range(100 * number, 100 * number + len(values)), values)

    sizes, records = [], 0
    for chunk in tasks._chunks(batches()):
        sizes.append(chunk.nbytes)
        records += chunk.num_rows
    assert records == 99 * 100 + 34
    assert max(sizes) < MOST_BYTES + 8.1 * MB
    assert len(sizes) == 5, "and chunks are no smaller than they need be"


def test_small_records_end_a_chunk_by_their_number() -> None:
    batches = (batch_of(range(first, first + 8_000), [b"small"] * 8_000) for first in range(0, 400_000, 8_000))
    sizes = [chunk.num_rows for chunk in tasks._chunks(batches)]
    assert sum(sizes) == 400_000
    assert MOST_ROWS <= max(sizes) < MOST_ROWS + 8_000


def test_a_record_of_many_events_is_a_chunk_of_its_own_and_looked_at_once() -> None:
    events, looked = 200_000, 0

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch_of(range(10), [b"small"] * 10)
        for first in range(0, events, 1_000):
            yield batch_of([10] * 1_000, [b"v" * MB if first + place == 0 else None for place in range(1_000)])
        yield batch_of(range(11, 60_011), [b"small"] * 60_000)

    look = tasks._rows_of_last_record

    def count(rows: pa.Table) -> int:
        nonlocal looked
        looked += rows.num_rows
        return look(rows)

    with patch.object(tasks, "_rows_of_last_record", count):
        chunks = [(chunk.num_rows, chunk.nbytes) for chunk in tasks._chunks(batches())]
    assert [rows for rows, _ in chunks] == [10, events + 59_999, 1]
    assert max(size for _, size in chunks) < 60 * events + 60 * 60_000 + MB, "the record's bytes are there once"
    assert looked == 10 + events + 60_000


def test_records_that_fill_a_batch_each_are_a_chunk_each() -> None:
    with patch.object(tasks, "_ROWS_OF_CHUNK", 2):
        chunks = tasks._chunks(batch_of([offset] * 2, [b"v"] * 2) for offset in range(4))
        assert [chunk[OFFSET].to_pylist() for chunk in chunks] == [[0, 0], [1, 1], [2, 2], [3, 3]]


@pytest.mark.parametrize("by", ["_ROWS_OF_CHUNK", "_BYTES_OF_CHUNK"])
@given(st.lists(st.lists(st.integers(1, 5), max_size=6), max_size=6), st.integers(1, 300))
def test_a_chunk_ends_where_a_record_does(by: str, batches: list[list[int]], most: int) -> None:
    """Each number is a record of so many events; the next batch may begin with more of the last one."""
    offsets = [
        [offset for offset, events in enumerate(of, 3 * place) for _ in range(events)]
        for place, of in enumerate(batches)
    ]
    with patch.object(tasks, by, most):
        chunks = [
            chunk[OFFSET].to_pylist() for chunk in tasks._chunks(batch_of(of, [b"v"] * len(of)) for of in offsets)
        ]
    assert [offset for chunk in chunks for offset in chunk] == [offset for of in offsets for offset in of]
    ends = [(one[-1], other[0]) for one, other in pairwise(chunks)]
    assert all(last != first for last, first in ends)
