"""What late events changed, in one short cell."""

import pytest

from hourline.cli.late import _format_moves
from serving_layer.reports.late import Move

NUMBER, NONE = Move(amount=5, cells=1), Move(amount=None, cells=1)


@pytest.mark.parametrize(
    ("moves", "said"),
    [
        ({}, ""),
        ({"views": NUMBER}, "views +5"),
        ({"views": NUMBER, "top": NONE}, "views +5, 1 other changed"),
        ({"added": NONE, "removed": NONE}, "added, removed changed"),
        ({f"m{number}": NONE for number in range(19)}, "19 changed"),
        ({f"m{number}": NUMBER for number in range(19)}, "m0 +5, m1 +5, m2 +5, m3 +5, 15 others changed"),
    ],
)
def test_many_changes_are_counted_and_not_listed(moves: dict[str, Move], said: str) -> None:
    assert _format_moves(moves) == said
