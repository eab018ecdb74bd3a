"""Which hours are published at once: those that moves of events connect, and no others."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from batch_layer.decoding.changed_hours import ChangedHours
from hourline_core.ledger.coverage_rows import CoveredHour
from hourline_core.ledger.decodings import ArchiveDecodings
from hourline_core.model import DeclaredMetric
from hourline_core.model.decoding import Decoding

BASE = datetime(2024, 3, 1, tzinfo=UTC)
NUMBERS = st.integers(0, 9)
NOW, BEFORE = "now", "before"


@given(
    st.sets(st.tuples(NUMBERS, NUMBERS, st.integers(1, 5)).filter(lambda move: move[0] != move[1]), max_size=8),
    st.dictionaries(NUMBERS, st.tuples(st.sampled_from([NOW, BEFORE]), st.integers(1, 5))),
    st.sets(NUMBERS, max_size=3),
)
def test_hours_that_moves_connect_are_published_at_once(
    moves: set[tuple[int, int, int]], published: dict[int, tuple[str, int]], chosen: set[int]
) -> None:
    covered = {
        hour(of): CoveredHour("m", "d", "s", hour(of), cutoff, 1, BASE, decoding)
        for of, (decoding, cutoff) in published.items()
    }
    declared = cast(DeclaredMetric, SimpleNamespace(metric=SimpleNamespace(name="m"), declaration="d"))
    coverage = SimpleNamespace(of=lambda *_: SimpleNamespace(covered=lambda hours: covered))
    changed = ChangedHours(
        ArchiveDecodings(Decoding(NOW, {}), []), [(hour(one), hour(other), 1, last) for one, other, last in moves]
    )
    snapshot = cast(Any, SimpleNamespace(coverage=coverage))
    found = changed.to_publish_at_once(declared, snapshot, [hour(of) for of in chosen])

    # Groups of hours, merged until no unfinished move leaves its group.
    def is_there(of: int, last: int) -> bool:
        return of in published and published[of][0] == NOW and published[of][1] >= last

    unfinished = [(one, other) for one, other, last in moves if not (is_there(one, last) and is_there(other, last))]
    group = {of: of for pair in unfinished for of in pair}
    for _ in range(10):
        for one, other in unfinished:
            group[one] = group[other] = min(group[one], group[other])
    wanted = {of for of in group if group[of] in {group.get(one) for one in chosen}}
    assert found == {hour(of) for of in wanted}


def hour(number: int) -> datetime:
    return BASE + timedelta(hours=number)
