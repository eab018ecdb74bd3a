"""Whether Kafka may have more than a micro-batch has read, and which rows keep the bytes of their record."""

import numpy as np
import pyarrow as pa
import pytest

from hourline_core.model.scratch_columns import OFFSET, OUTCOME, PARTITION, PLACE, TOPIC_ID, VALUE
from speed_layer.intake.record_rows import is_full, offsets_by_partition, with_kept_values


def rows(*offsets: tuple[int, int]) -> dict[tuple[str, int], tuple[int, int]]:
    """The offsets of records of one topic, given by partition and offset."""
    return offsets_by_partition(
        pa.table(
            {
                TOPIC_ID: pa.array(["t"] * len(offsets), pa.string()),
                PARTITION: pa.array([partition for partition, _ in offsets], pa.int32()),
                OFFSET: pa.array([offset for _, offset in offsets], pa.int64()),
            }
        )
    )


def test_a_micro_batch_of_as_many_offsets_as_allowed_is_full() -> None:
    assert is_full(rows(*((0, offset) for offset in range(100))), most=100)


def test_spark_rounds_the_share_of_each_partition_down() -> None:
    assert is_full(rows(*((partition, offset) for partition in range(3) for offset in range(33))), most=100)


def test_offsets_without_a_record_count() -> None:
    assert is_full(rows((0, 0), (0, 99)), most=100)


def test_a_micro_batch_with_much_less_is_not_full() -> None:
    assert not is_full(rows((0, 0), (0, 1), (1, 7)), most=100)
    assert not is_full(rows(), most=100)


@pytest.mark.parametrize(
    ("raw", "skipped", "kept"),
    [
        (True, (), [b"a", None, b"a", None, b"b", b"c", None, None, b"d", None, None]),
        (False, (), [None, None, b"a", None, b"b", None, None, None, b"d", None, None]),
        (True, (0, 8), [b"a", None, b"a", None, b"b", b"c", None, None, None, b"d", None]),
        (False, (2, 8, 9), [None, None, None, None, b"b", None, None, None, None, None, b"d"]),
    ],
)
def test_the_value_of_an_exploded_record_is_on_its_first_event_and_on_its_first_rejected_one(
    raw: bool, skipped: tuple[int, ...], kept: list[bytes | None]
) -> None:
    outcomes = ["accepted", "accepted", "rejected", "accepted", "rejected", "empty", "tombstone", "not_taken"]
    outcomes += ["rejected"] * 3
    rows = pa.table(
        {
            PLACE: pa.array([0, 1, 2, 3, 0, 0, 0, 0, 0, 1, 2], pa.int32()),
            OUTCOME: outcomes,
            VALUE: pa.array([b"a", None, None, None, b"b", b"c", None, None, b"d", None, None], pa.binary()),
        }
    )
    marks = np.isin(np.arange(len(outcomes)), skipped)
    assert with_kept_values(rows, marks, raw=raw)[VALUE].to_pylist() == kept


def test_of_no_rows_none_keeps_a_value() -> None:
    rows = pa.table(
        {PLACE: pa.array([], pa.int32()), OUTCOME: pa.array([], pa.string()), VALUE: pa.array([], pa.binary())}
    )
    assert with_kept_values(rows, np.zeros(0, dtype=np.bool_), raw=True).num_rows == 0
