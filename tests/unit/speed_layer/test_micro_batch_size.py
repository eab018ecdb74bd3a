"""A micro-batch is planned by the sizes of the records before, so that a backlog of large ones makes small ones."""

from hypothesis import given
from hypothesis import strategies as st

from speed_layer.intake.micro_batch_size import MicroBatchSize

MEGABYTE = 1 << 20


def test_a_first_micro_batch_is_small_whatever_its_records_are() -> None:
    assert MicroBatchSize(400_000, 128 * MEGABYTE).records == 1_000
    assert MicroBatchSize(7, 128 * MEGABYTE).records == 7


def test_large_records_make_small_micro_batches_and_small_ones_large_ones_again() -> None:
    size = MicroBatchSize(400_000, 128 * MEGABYTE)
    size.learn(1_000, 1_000, 1_000 * MEGABYTE)
    assert size.records == 120
    for _ in range(20):
        size.learn(size.records, size.records, size.records * 100)
    assert size.records == 400_000


def test_records_of_many_events_make_small_micro_batches() -> None:
    size = MicroBatchSize(400_000, 128 * MEGABYTE)
    size.learn(10, 10_000_000, 1_000)
    assert size.records == 1


def test_a_micro_batch_without_records_teaches_nothing() -> None:
    size = MicroBatchSize(400_000, 128 * MEGABYTE)
    size.learn(0, 0, 0)
    assert size.records == 1_000


def test_small_micro_batches_have_one_task_and_large_ones_several() -> None:
    size = MicroBatchSize(400_000, 128 * MEGABYTE)
    assert [size.bounds(records).tasks for records in (0, 1, 10_000, 10_001, 400_000)] == [1, 1, 1, 2, 40]
    size.learn(100, 100, 100 * MEGABYTE)
    assert [size.bounds(records).tasks for records in (0, 1, 16, 17, 120)] == [1, 1, 1, 2, 8]


def test_rows_are_small_only_if_those_before_were() -> None:
    size = MicroBatchSize(400_000, 128 * MEGABYTE)
    assert not size.bounds(1).small_rows
    size.learn(100, 100, 100 * 4095)
    assert size.bounds(1).small_rows
    size.learn(100, 100, 100 * MEGABYTE)
    assert not size.bounds(1).small_rows
    size.learn(100, 100_000, 100 * MEGABYTE)
    assert size.bounds(1).small_rows, "of a record, one row has the value"


@given(
    st.integers(1, 10**6),
    st.integers(1, 10**9),
    st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 10**4), st.integers(0, 10**7)), min_size=1, max_size=20),
)
def test_a_micro_batch_of_records_like_those_before_keeps_both_bounds(
    most_records: int, most_bytes: int, of_each: list[tuple[int, int, int]]
) -> None:
    """Of the means of all micro-batches before, the one that would allow most is an upper bound."""
    size = MicroBatchSize(most_records, most_bytes)
    for records, events, each in of_each:
        size.learn(records, records * events, records * each)
    assert 1 <= size.records <= most_records
    assert size.records == 1 or size.records * min(each for *_, each in of_each) <= most_bytes
    assert size.records == 1 or size.records * min(events for _, events, _ in of_each) <= most_records
