"""Which events are duplicates of ones seen before, against a plain Python set; in memory and in files."""

import errno
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import gettempdir

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.errors import ResourceError
from hourline_core.faults import explain_fault
from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.machine import Surroundings
from hourline_core.model.scratch_columns import HOUR, ID_HASH, OFFSET, PARTITION, PLACE, TOPIC_ID
from speed_layer.intake.deduplication import Deduplicator

BASE = datetime(2024, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)
IN_MEMORY = 1 << 20
TEMPORARY = Path(gettempdir())


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


def holding(horizon: timedelta = DAY, memory: int = IN_MEMORY, folder: Path = TEMPORARY) -> Deduplicator:
    return Deduplicator(horizon, memory, folder)


@given(
    st.lists(st.lists(events, max_size=12, unique_by=lambda event: event[2]), max_size=6),
    st.sampled_from([0, 24, IN_MEMORY]),
)
def test_the_first_of_each_id_and_hour_counts_and_no_other(batches: list[list[Seen]], memory: int) -> None:
    known = holding(memory=memory)
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


@given(
    st.lists(st.tuples(st.lists(events, max_size=12, unique_by=lambda event: event[2]), st.integers(0, 4)), max_size=6),
    st.integers(0, 3),
    st.sampled_from([0, 8, 24, 64]),
)
def test_ids_in_files_are_known_as_those_in_memory(
    batches: list[tuple[list[Seen], int]], horizon: int, memory: int
) -> None:
    held, bounded = (holding(timedelta(hours=horizon), bound) for bound in (IN_MEMORY, memory))
    clock = BASE
    for batch, moved in batches:
        rows, clock = table(batch), max(clock, BASE + timedelta(hours=moved))
        assert bounded.duplicates(rows).tolist() == held.duplicates(rows).tolist()
        for known in (held, bounded):
            known.remember(rows, clock)


def mapped(folder: Path) -> list[int]:
    """The sizes of the files below ``folder`` that this process has mapped, and that have no name any more."""
    maps = (line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines())
    ranges = [one[0].split("-") for one in maps if len(one) == 6 and one[5].startswith(str(folder))]
    return [int(end, 16) - int(first, 16) for first, end in ranges]


def test_the_oldest_ids_beyond_the_bound_are_in_files_that_go_with_the_horizon(tmp_path: Path) -> None:
    hours, ids = 6, 10_000
    known = holding(timedelta(hours=hours), 2 * ids * 8, tmp_path)
    rows = [table([(hour, identity, ("a", 0, identity, 0)) for identity in range(ids)]) for hour in range(hours)]
    open_files = len([*Path("/proc/self/fd").iterdir()])
    for number, some in enumerate(rows):
        known.remember(some, BASE + timedelta(hours=number))
        assert len(mapped(tmp_path)) == max(0, number - 1)
    assert sum(mapped(tmp_path)) >= 4 * ids * 8
    assert not [*tmp_path.iterdir()], "what has a name would outlive the process"
    assert len([*Path("/proc/self/fd").iterdir()]) == open_files, "a process may have few"
    for some in rows:
        assert known.duplicates(some).all()
    known.remember(rows[0].slice(0, 0), BASE + timedelta(hours=hours + 2))
    assert len(mapped(tmp_path)) == 2
    assert [known.duplicates(some).any() for some in rows] == [False, False, True, True, True, True]
    known.remember(rows[0].slice(0, 0), BASE + timedelta(hours=3 * hours))
    assert mapped(tmp_path) == []


def test_a_full_disk_is_told_and_all_ids_stay_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class FullDisk:
        """A file on it, which takes no byte."""

        def __enter__(self) -> "FullDisk":
            return self

        def __exit__(self, *_: object) -> None: ...

        def write(self, _: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    known = holding(memory=0, folder=tmp_path)
    first, second = (table([(hour, 1, ("a", 0, hour, 0))]) for hour in range(2))
    known.remember(first, BASE)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left") as raised:
        patch.setattr("speed_layer.intake.sorted_arrays.TemporaryFile", lambda **_: FullDisk())
        known.remember(second, BASE)
    told = explain_fault(raised.value, Surroundings([tmp_path]))
    assert isinstance(told, ResourceError)
    assert str(told) == f"the disk of {tmp_path} is full; make room there"
    assert known.duplicates(first).all()
    assert known.duplicates(second).all()


def test_many_ids_of_few_hours_in_many_batches() -> None:
    known, chance = holding(memory=20_000), random.Random(1)  # noqa: S311 (the same numbers each time)
    seen: set[tuple[int, int]] = set()
    for batch in range(60):
        ids = [(chance.randint(0, 3), chance.randint(0, 5_000)) for _ in range(chance.choice([1, 10, 300]))]
        ids = list(dict.fromkeys(ids))
        rows = table([(hour, identity, ("a", 0, offset, 0)) for offset, (hour, identity) in enumerate(ids)])
        assert known.duplicates(rows).tolist() == [one in seen for one in ids], f"batch {batch}"
        known.remember(rows, BASE + timedelta(hours=6))
        seen.update(ids)


def test_an_hour_beyond_the_horizon_is_forgotten() -> None:
    known = holding(timedelta(hours=2))
    rows = table([(0, 1, ("a", 0, 0, 0)), (3, 1, ("a", 0, 1, 0))])
    known.remember(rows, BASE + timedelta(hours=4))
    assert known.duplicates(rows).tolist() == [False, True]


def test_events_without_an_id_are_never_duplicates() -> None:
    known = holding()
    rows = table([(0, None, ("a", 0, 0, 0)), (0, None, ("a", 0, 0, 1))])
    known.remember(rows, BASE)
    assert known.duplicates(rows).tolist() == [False, False]
