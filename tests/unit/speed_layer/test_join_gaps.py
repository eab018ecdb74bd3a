"""A gap of an input, as the joined source passes it on."""

from datetime import UTC, datetime, timedelta

import pytest

from hourline_core.ledger.progress_rows import Gap, Position, ProgressRow, RecordCounts
from speed_layer.derived.gaps import gap_row

EIGHT = datetime(2026, 3, 2, 8, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("earlier", "later", "hours"),
    [
        (timedelta(0), timedelta(0), (EIGHT, EIGHT)),
        (timedelta(0), timedelta(minutes=1), (EIGHT, EIGHT + HOUR)),
        (timedelta(minutes=1), timedelta(0), (EIGHT - HOUR, EIGHT)),
        (3 * HOUR, 2 * HOUR, (EIGHT - 3 * HOUR, EIGHT + 2 * HOUR)),
    ],
)
def test_the_hours_of_a_gap_are_those_in_which_pairs_or_partners_may_lack(
    earlier: timedelta, later: timedelta, hours: tuple[datetime, datetime]
) -> None:
    lost = Gap(2, 70, 80, None, None, EIGHT, EIGHT)
    row = ProgressRow(5, "id", "payments", (), RecordCounts(), (), (), EIGHT, EIGHT, EIGHT, gaps=(lost,))
    passed = gap_row(None, 9, ("id", "payments"), [row], (earlier, later), EIGHT)
    assert passed.gaps == (Gap(0, 5, 6, None, None, *hours),)
    assert passed.position == (Position(0, 5, 6),)
