"""How far a micro-batch has read: past each offset that Spark has looked at, with or without a record, and no further."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.ledger.progress_rows import OffsetsRead
from hourline_core.ledger.read_offsets import reading_of
from speed_layer.commit.offset_order import OffsetsReached
from speed_layer.recovery.lost_records import deleted_ranges

PARTITIONS = 3
steps = st.lists(st.lists(st.lists(st.booleans(), max_size=4), min_size=PARTITIONS, max_size=PARTITIONS), max_size=6)
"""Of each micro-batch and partition, whether each offset has a record that can be read."""


def spans(read: dict[int, list[int]]) -> dict[tuple[str, int], tuple[int, int]]:
    return {("id", partition): (offsets[0], offsets[-1]) for partition, offsets in read.items() if offsets}


@given(steps)
def test_progress_goes_on_after_the_last_offset_and_a_step_without_any_commits_nothing(
    given_steps: list[list[list[bool]]],
) -> None:
    reached, ends, committed = OffsetsReached({}), dict.fromkeys(range(PARTITIONS), 0), []
    for step in given_steps:
        begun, read = dict(ends), {}
        for partition, offsets in enumerate(step):
            ends[partition] += len(offsets)
            read[partition] = [begun[partition] + place for place, there in enumerate(offsets) if there]
        found = reached.advance(spans(read), {("id", partition): end for partition, end in ends.items()})
        assert bool(found) == any(map(len, step)), "an offset was passed"
        committed += [{"offsets": found["id"]}] if found else []
        for of in found.get("id", ()):
            assert of.last + 1 == ends[of.partition]
            assert of.first == min(read[of.partition], default=of.last + 1)
    schema = {"partition": pa.int32(), "first": pa.int64(), "last": pa.int64()}
    progress = pa.table(
        {
            "sequence": pa.array(range(1, len(committed) + 1), pa.int64()),
            "topic_id": pa.array(["id"] * len(committed), pa.string()),
            "offsets": pa.array(
                [[vars(of) for of in row["offsets"]] for row in committed], pa.list_(pa.struct(schema))
            ),
            "position": pa.nulls(len(committed), pa.list_(pa.struct({"partition": pa.int32(), "offset": pa.int64()}))),
        }
    )
    reading = reading_of(progress, "id")
    assert reading.next_offsets == (ends if committed else {}), "partitions without a record are known, too"
    # Nothing that was passed is missed when it is deleted, and all that was not is.
    assert deleted_ranges(reading, {partition: (end, end + 9) for partition, end in ends.items()}) == {}
    gone = deleted_ranges(reading, {partition: (end + 5, end + 9) for partition, end in ends.items()})
    assert gone == ({partition: (end, end + 5) for partition, end in ends.items()} if committed else {})


def test_where_ends_are_not_known_the_records_are_all_there_is() -> None:
    reached = OffsetsReached({("id", 0): 5})
    assert reached.advance(spans({0: [5, 9]}), {}) == {"id": (OffsetsRead(0, 5, 9),)}
    assert reached.advance(spans({}), {}) == {}
