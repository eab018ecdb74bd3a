"""Which events are duplicates of ones seen before, against a plain Python set."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.model.scratch_columns import HOUR, ID_HASH, OFFSET, PARTITION
from speed_layer.deduplication import Deduplicator

BASE = datetime(2024, 3, 1, tzinfo=UTC)


SCHEMA = pa.schema({HOUR: TIMESTAMP, ID_HASH: pa.int64(), PARTITION: pa.int32(), OFFSET: pa.int64()})

# An id's hash is that of (id, hour), so one hash belongs to one hour.
events = st.tuples(st.integers(0, 5), st.none() | st.integers(0, 4), st.integers(0, 2))


def table(batch: list[tuple[int, int | None, int]]) -> pa.Table:
    rows = [
        {
            HOUR: BASE + timedelta(hours=hour),
            ID_HASH: None if identity is None else hour * 100 + identity,
            PARTITION: partition,
            OFFSET: offset,
        }
        for offset, (hour, identity, partition) in enumerate(batch)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


@given(st.lists(st.lists(events, max_size=12), max_size=6))
def test_the_first_of_each_id_and_hour_counts_and_no_other(batches: list[list[tuple[int, int | None, int]]]) -> None:
    known = Deduplicator(timedelta(days=1))
    seen: set[tuple[int, int]] = set()
    for batch in batches:
        rows = table(batch)
        expected = []
        for place, (hour, identity, partition) in sorted(enumerate(batch), key=lambda item: (item[1][2], item[0])):
            expected.append((place, identity is not None and (hour, identity) in seen))
            if identity is not None:
                seen.add((hour, identity))
            del partition
        got = known.duplicates(rows)
        assert got.tolist() == [repeated for _, repeated in sorted(expected)]
        known.remember(rows.filter(pa.array(~got)), BASE + timedelta(hours=6))


def test_an_hour_beyond_the_horizon_is_forgotten() -> None:
    known = Deduplicator(timedelta(hours=2))
    known.remember(table([(0, 1, 0), (3, 1, 0)]), BASE + timedelta(hours=4))
    assert known.duplicates(table([(0, 1, 0), (3, 1, 0)])).tolist() == [False, True]


def test_events_without_an_id_are_never_duplicates() -> None:
    known = Deduplicator(timedelta(days=1))
    known.remember(table([(0, None, 0)]), BASE)
    assert known.duplicates(table([(0, None, 0), (0, None, 0)])).tolist() == [False, False]
