"""How far a topic was read, and what resets have skipped, against counting offsets one by one."""

from typing import Any

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from hourline_core.ledger.progress_columns import PROGRESS_SCHEMA
from hourline_core.ledger.read_offsets import offsets_in, reading_of


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40), st.integers(1, 9)), max_size=12), st.integers(0, 60))
# Skipped by a reset, to be read after another one, and deleted before that.
@example([(False, 0, 5), (True, 20, 0), (False, 0, 5), (True, 5, 0), (False, 0, 5)], 15)
def test_what_was_read_skipped_and_deleted_is_told_as_by_counting_offsets(
    steps: list[tuple[bool, int, int]], earliest: int
) -> None:
    rows: list[dict[str, Any]] = []
    at, read, jumped = 0, set[int](), set[int]()
    for sequence, (is_reset, position, count) in enumerate(steps, start=1):
        row: dict[str, Any] = {"sequence": sequence, "topic_id": "t", "offsets": [], "position": None}
        if is_reset:
            unread = max(read, default=-1) + 1
            row["position"] = [{"partition": 1, "unread": unread, "offset": position}]
            jumped |= set(range(unread, position))
            at = position
        else:
            row["offsets"] = [{"partition": 1, "first": at, "last": at + count - 1}]
            read |= set(range(at, at + count))
            at += count
        rows.append(row)
    other = {
        "sequence": 0,
        "topic_id": "another",
        "offsets": [{"partition": 1, "first": 0, "last": 99}],
        "position": None,
    }
    columns = pa.schema([PROGRESS_SCHEMA.field(name) for name in ("sequence", "topic_id", "offsets", "position")])
    found = reading_of(pa.Table.from_pylist([other, *rows], columns), "t")
    assert found.next_offsets.get(1, 0) == at
    assert {offset for first, end in found.read.get(1, []) for offset in range(first, end)} == read
    assert offsets_in(found.skipped.get(1, [])) == len(jumped - read)
    gone = set(range(at, earliest)) - read if steps else set()
    assert found.deleted(1, earliest) == ((min(gone), max(gone) + 1) if gone else None)
