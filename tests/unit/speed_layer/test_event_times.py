"""The event times by which a micro-batch moves the clock."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.model.scratch_columns import EVENT_TIME, OFFSET
from speed_layer.record_rows import event_times_in_order

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=12))
def test_a_record_shows_its_highest_event_time_alone_whatever_the_order(events: list[tuple[int, int]]) -> None:
    highest: dict[int, int] = {}
    for offset, micros in events:
        highest[offset] = max(micros, highest.get(offset, 0))
    times = pa.array([EPOCH + timedelta(microseconds=micros) for _, micros in events], TIMESTAMP)
    rows = pa.table({OFFSET: pa.array([offset for offset, _ in events], pa.int64()), EVENT_TIME: times})
    assert event_times_in_order(rows).tolist() == [highest[offset] for offset in sorted(highest)]
