"""Whether Kafka may have more than a micro-batch has read."""

import pyarrow as pa

from hourline_core.model.scratch_columns import OFFSET, PARTITION, TOPIC_ID
from speed_layer.intake.record_rows import is_full, offsets_by_partition


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
