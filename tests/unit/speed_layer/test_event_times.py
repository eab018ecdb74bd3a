"""The event times by which a micro-batch moves the clock."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.model.scratch_columns import EVENT_TIME, OFFSET, PARTITION, TOPIC_ID
from speed_layer.intake.record_rows import event_times_by_partition

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

partitions = st.tuples(st.sampled_from(["b", "a", "Z"]), st.integers(0, 2))


@given(st.lists(st.tuples(partitions, st.integers(0, 6), st.integers(-9, 9)), max_size=20))
def test_a_record_shows_its_highest_event_time_alone_whatever_the_order(
    events: list[tuple[tuple[str, int], int, int]],
) -> None:
    highest: dict[tuple[str, int], dict[int, int]] = {}
    for partition, offset, micros in events:
        of_partition = highest.setdefault(partition, {})
        of_partition[offset] = max(micros, of_partition.get(offset, micros))
    rows = pa.table(
        {
            TOPIC_ID: pa.array([topic for (topic, _), _, _ in events], pa.string()),
            PARTITION: pa.array([number for (_, number), _, _ in events], pa.int32()),
            OFFSET: pa.array([offset for _, offset, _ in events], pa.int64()),
            EVENT_TIME: pa.array([EPOCH + timedelta(microseconds=micros) for _, _, micros in events], TIMESTAMP),
        }
    )
    found = {partition: times.tolist() for partition, times in event_times_by_partition(rows).items()}
    assert found == {partition: [times[offset] for offset in sorted(times)] for partition, times in highest.items()}
