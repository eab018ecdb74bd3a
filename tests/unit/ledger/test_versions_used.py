"""The versions of a lookup that micro-batches have used, against a pass over the micro-batches."""

import itertools
import tempfile
from datetime import UTC, datetime, timedelta

from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from hourline_core.ledger.progress import Progress
from hourline_core.ledger.progress_rows import HourEvents, ProgressRow, RecordCounts, to_arrow

BASE = datetime(2026, 3, 2, tzinfo=UTC)

# The version that each micro-batch has used, if any, and the hours of its events.
micro_batches = st.lists(st.tuples(st.none() | st.integers(1, 3), st.sets(st.integers(0, 2))), min_size=1, max_size=8)


@settings(max_examples=50, deadline=None)
@given(micro_batches, st.none() | st.sets(st.integers(0, 2)))
def test_each_micro_batch_has_the_version_that_it_used_or_the_next_one(
    batches: list[tuple[int | None, set[int]]], hours: set[int] | None
) -> None:
    rows = [
        ProgressRow(
            sequence,
            f"id-{topic}",
            topic,
            (),
            RecordCounts(),
            tuple(HourEvents(BASE + timedelta(hours=hour), 1, 0) for hour in sorted(touched)),
            (),
            None,
            BASE,
            BASE,
            lookups={"other": 7} if version is None else {"other": 7, "plane": version},
        )
        for sequence, (version, touched) in enumerate(batches, start=1)
        for topic in ("a", "b")
    ]
    asked = None if hours is None else [BASE + timedelta(hours=hour) for hour in hours]
    with tempfile.TemporaryDirectory() as folder:
        write_deltalake(folder, to_arrow(reversed(rows)))
        found = Progress(DeltaTable(folder)).versions_used("plane", asked)

    assert [one.last for one in found] == sorted({one.last for one in found})
    needed = set[int]()
    for sequence, (version, touched) in enumerate(batches, start=1):
        used = next((of for of, _ in batches[sequence - 1 :] if of is not None), None)
        told = next(((place, one) for place, one in enumerate(found) if sequence <= one.last), None)
        assert (told and told[1].version) == used
        if told and touched and (hours is None or touched & hours):
            needed.add(told[0])
        assert version in (None, used)
    assert {place for place, one in enumerate(found) if one.has_events} == needed
    assert all(one.version != two.version for one, two in itertools.pairwise(found)), "successive ones"
