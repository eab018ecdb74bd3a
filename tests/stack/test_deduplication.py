"""Which events are duplicates of ones seen before, against a plain Python set."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.model import EventTime, Field, Project, Settings, Source
from hourline_core.runtime.spark import spark_session
from speed_layer.deduplication import Deduplicator, archived_id_hashes

BASE = datetime(2024, 3, 1, tzinfo=UTC)
SCHEMA = pa.schema({"hour": TIMESTAMP, "id_hash": pa.int64(), "partition": pa.int32(), "offset": pa.int64()})

# An id's hash is that of (id, hour), so one hash belongs to one hour.
events = st.tuples(st.integers(0, 5), st.none() | st.integers(0, 4), st.integers(0, 2))


def table(batch: list[tuple[int, int | None, int]]) -> pa.Table:
    rows = [
        {
            "hour": BASE + timedelta(hours=hour),
            "id_hash": None if identity is None else hour * 100 + identity,
            "partition": partition,
            "offset": offset,
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


@pytest.mark.stack
def test_archived_ids_are_those_of_the_hours_asked_for_wherever_they_lie(tmp_path: Path) -> None:
    settings = Settings.model_validate({"spark": {"master": "local[2]"}})
    source = Source(
        name="scans",
        topic="scans",
        fields={"scan": Field(type="string")},
        event_time=EventTime(expression="scan"),
        id="scan",
    )
    address = str(tmp_path / "a b{c,d}*?é" / "scans")  # which Spark would take for a pattern
    for hour, ids in ((0, ["x"]), (1, ["x", "y", None]), (1, ["x"])):
        write_deltalake(
            address,
            pa.table({"hour": pa.array([BASE + timedelta(hours=hour)] * len(ids), TIMESTAMP), "scan": ids}),
            mode="append",
        )
    spark = spark_session(Project(tmp_path, settings, {"scans": source}, {}), "test")
    try:
        every, second, none = (
            archived_id_hashes(
                spark, source, address, DeltaTable(address), BASE + timedelta(minutes=minutes)
            ).to_pylist()
            for minutes in (0, 60, 61)
        )
    finally:
        spark.stop()
    assert none == []
    assert [row["hour"] for row in second] == [BASE + timedelta(hours=1)] * 4
    hashes = [row["id_hash"] for row in second]
    assert sorted(hashes.count(one) for one in set(hashes) - {None}) == [1, 2], "x twice, y once"
    assert hashes.count(None) == 1
    (first,) = (row["id_hash"] for row in every if row["hour"] == BASE)
    assert first is not None and first not in hashes, "the same id in another hour"
