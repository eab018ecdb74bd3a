"""Which events are duplicates of ones seen before, against a plain Python set."""

import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.model.scratch_columns import HOUR, ID_HASH, OFFSET, PARTITION, PLACE, TOPIC_ID
from speed_layer.intake.deduplication import Deduplicator

BASE = datetime(2024, 3, 1, tzinfo=UTC)


SCHEMA = pa.schema(
    {
        HOUR: TIMESTAMP,
        ID_HASH: pa.int64(),
        TOPIC_ID: pa.string(),
        PARTITION: pa.int32(),
        OFFSET: pa.int64(),
        PLACE: pa.int32(),
    }
)

Address = tuple[str, int, int, int]
"""Topic id, partition, offset and place."""
Seen = tuple[int, int | None, Address]
"""An event's hour, id and address."""

# An id's hash is that of (id, hour), so one hash belongs to one hour.
addresses = st.tuples(st.sampled_from(["-a", "Z", "b"]), st.integers(0, 1), st.integers(0, 1), st.integers(0, 2))
events = st.tuples(st.integers(0, 2), st.none() | st.integers(0, 2), addresses)


def table(batch: list[Seen]) -> pa.Table:
    rows = [
        {
            HOUR: BASE + timedelta(hours=hour),
            ID_HASH: None if identity is None else hour * 10_000 + identity,
            TOPIC_ID: topic_id,
            PARTITION: partition,
            OFFSET: offset,
            PLACE: place,
        }
        for hour, identity, (topic_id, partition, offset, place) in batch
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


@given(st.lists(st.lists(events, max_size=12, unique_by=lambda event: event[2]), max_size=6))
def test_the_first_of_each_id_and_hour_counts_and_no_other(batches: list[list[Seen]]) -> None:
    known = Deduplicator(timedelta(days=1))
    seen: set[tuple[int, int]] = set()
    for batch in batches:
        rows = table(batch)
        expected = {}
        for hour, identity, address in sorted(batch, key=lambda event: event[2]):
            expected[address] = identity is not None and (hour, identity) in seen
            if identity is not None:
                seen.add((hour, identity))
        got = known.duplicates(rows)
        assert got.tolist() == [expected[address] for _, _, address in batch]
        known.remember(rows.filter(pa.array(~got)), BASE + timedelta(hours=6))


def test_many_ids_of_few_hours_in_many_batches() -> None:
    known, chance = Deduplicator(timedelta(days=1)), random.Random(1)  # noqa: S311 (the same numbers each time)
    seen: set[tuple[int, int]] = set()
    for batch in range(60):
        ids = [(chance.randint(0, 3), chance.randint(0, 5_000)) for _ in range(chance.choice([1, 10, 300]))]
        ids = list(dict.fromkeys(ids))
        rows = table([(hour, identity, ("a", 0, offset, 0)) for offset, (hour, identity) in enumerate(ids)])
        assert known.duplicates(rows).tolist() == [one in seen for one in ids], f"batch {batch}"
        known.remember(rows, BASE + timedelta(hours=6))
        seen.update(ids)


def test_an_hour_beyond_the_horizon_is_forgotten() -> None:
    known = Deduplicator(timedelta(hours=2))
    rows = table([(0, 1, ("a", 0, 0, 0)), (3, 1, ("a", 0, 1, 0))])
    known.remember(rows, BASE + timedelta(hours=4))
    assert known.duplicates(rows).tolist() == [False, True]


def test_events_without_an_id_are_never_duplicates() -> None:
    known = Deduplicator(timedelta(days=1))
    rows = table([(0, None, ("a", 0, 0, 0)), (0, None, ("a", 0, 0, 1))])
    known.remember(rows, BASE)
    assert known.duplicates(rows).tolist() == [False, False]
