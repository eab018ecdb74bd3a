"""Which events count of a source that takes events back: an event whose id comes again in its hour does not."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from batch_layer.folding.first import find_first
from batch_layer.folding.plan import ADDRESS
from batch_layer.folding.tables import hash_ids
from batch_layer.recount.counted import keep_counted
from batch_layer.recount.read_rows import Row
from hourline_core.compute.worker_database import connect
from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.model.scratch_columns import HOUR, ID, SEQUENCE

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
rows = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 2), st.none() | st.sampled_from("abcd")), max_size=20)


@given(rows=rows)
def test_a_task_counts_the_only_event_of_an_id_and_hour(rows: list[tuple[int, int, str | None]]) -> None:
    times = Counter((hour, of) for _, hour, of in rows)
    topic, *others = ADDRESS
    events = pa.table(
        {
            SEQUENCE: pa.array([sequence for sequence, *_ in rows], pa.int64()),
            HOUR: pa.array([BEGIN + timedelta(hours=hour) for _, hour, _ in rows], TIMESTAMP),
            ID: pa.array([of for *_, of in rows], pa.string()),
            topic: pa.array(["t" for _ in rows], pa.string()),
            **{name: pa.array(range(len(rows)), pa.int64()) for name in others},
        }
    )
    connection = connect()
    found = find_first(connection, events, hash_ids(connection, events), only=True).to_pylist()
    assert found == [of is None or times[hour, of] == 1 for _, hour, of in rows]


@given(rows=rows, cutoff=st.integers(0, 5))
def test_a_recount_counts_the_only_event_of_an_id_up_to_the_cutoff(
    rows: list[tuple[int, int, str | None]], cutoff: int
) -> None:
    events = [
        Row(BEGIN + timedelta(hours=hour, minutes=1), sequence, "t", 0, number, 0, "t", of, True, True, (), {})
        for number, (sequence, hour, of) in enumerate(rows)
    ]
    there = [event for event, (_, hour, _) in zip(events, rows, strict=True) if event.sequence <= cutoff and hour == 1]
    times = Counter(event.identity for event in there)
    wanted = [event.offset for event in there if event.identity is None or times[event.identity] == 1]
    assert (
        sorted(row.offset for row in keep_counted(events, BEGIN + timedelta(hours=1), cutoff, takes_back=True))
        == wanted
    )
