"""A rejected record that is read again counts once: by the speed layer, or by decoding anew. A recompute and a reset take
their steps in every order.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from batch_layer.decoding import decode_anew, tasks
from hourline_core.compute.tasks import Work
from hourline_core.errors import ConflictError, ReadAgainError
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.progress import Progress
from hourline_core.model.decoding import decoding_of
from hourline_core.model.scratch_columns import DECODING
from hourline_core.storage import opening
from hourline_core.storage.opening import exists, open_table
from speed_layer.recovery.reprocessing import drop_reprocessed
from tests.support.decoded_archive import Archive, Sent, run, spark

SENT = [Sent(0, 1, 1), Sent(1, 2, "x"), Sent(2, 3, 2)]
"""By the first declaration, numbers are rejected. By that of now, the text is."""
STEPS = ("reset", "start", "read", "finish", "drop")
"""What the speed layer does, in this order."""
POINTS = ("before", "open", "look", "decode", "after")
"""Where a recompute has got to when it does so: before it, before and after it has opened its table, when it knows what
is read again, and when it has committed.
"""


def speed_layer(archive: Archive) -> Iterator[None]:
    """Take one of STEPS at each ``next``."""
    archive.reset()
    yield
    archive.start()
    yield
    sequence = archive.tables.first_sequence
    part = archive.read(sequence, 0, SENT)
    yield
    row = archive.finish(sequence, part, 0, len(SENT) - 1)
    yield
    drop_reprocessed(archive.tables.events, archive.tables.rejected, row)
    yield


def recompute(archive: Archive, reach: Callable[[str], None] = lambda point: None) -> None:
    """Decode anew up to what is finished. ``reach`` is called at each of POINTS."""
    looks = iter(("look", "", ""))

    def update(table: object) -> None:
        opening.update(table)  # type: ignore[arg-type]
        reach(next(looks))

    def run_then(rows: SimpleNamespace, work: Work) -> list[bytes]:
        reach("decode")
        return run(rows, work)

    progress = open_table(archive.layout.progress(archive.source), {})
    reach("open")
    with patch.object(decode_anew, "update", update), patch.object(tasks, "run_tasks", run_then):
        decode_anew.decode_anew(spark, archive.project, archive.source, Progress(progress).sequence)


def counted(archive: Archive) -> Counter[int]:
    """By offset, how often its event counts after a recompute of all that is finished."""
    layout, source, now = archive.layout, archive.source, decoding_of(archive.source).hash
    finished = Progress(open_table(layout.progress(source), {})).sequence
    rows = open_table(layout.events(source), {}).to_pyarrow_table(filters=[("sequence", "<=", finished)]).to_pylist()
    found = Counter(row["offset"] for row in rows if row[DECODING] == now)
    return found + Counter(row["offset"] for row in _decoded(layout, archive) if row["hour"])


def _decoded(layout: Layout, archive: Archive) -> list[dict[str, Any]]:
    uri = layout.decoded(archive.source, decoding_of(archive.source).hash)
    return open_table(uri, {}).to_pyarrow_table().to_pylist() if exists(uri, {}) else []


ORDERS = list(combinations_with_replacement(POINTS, len(STEPS)))
"""The point of each step."""
TOLD = [
    # The recompute has looked, and then the source is read again: it has opened its table before the fence.
    ("decode", "decode", "decode", "decode", "decode"),
    # It commits when the start has looked already.
    ("look", "look", "decode", "decode", "decode"),
    # It is done before the start looks.
    ("look", "after", "after", "after", "after"),
    # It begins when the start has looked already, or when what was read has not been deleted yet.
    ("before", "before", "after", "after", "after"),
    ("before", "before", "before", "before", "after"),
]


@pytest.mark.parametrize(
    "order", [*TOLD, *(pytest.param(order, marks=pytest.mark.long) for order in ORDERS if order not in TOLD)]
)
@pytest.mark.parametrize("has_table", [False, True])
def test_a_rejected_record_that_is_read_again_counts_once(
    order: tuple[str, ...], has_table: bool, tmp_path: Path
) -> None:
    archive = Archive(tmp_path)
    archive.declare("texts")
    archive.micro_batch(1, SENT)
    archive.declare("numbers")
    if has_table:
        archive.start()
        with patch.object(decode_anew, "count_rejected_ahead", return_value=1), pytest.raises(ReadAgainError):
            recompute(archive)
    speed, left = speed_layer(archive), list(order)

    def reach(point: str) -> None:
        while left and POINTS.index(left[0]) <= POINTS.index(point or "look"):
            left.pop(0)
            next(speed)
            assert not [offset for offset, times in counted(archive).items() if times > 1]

    reach("before")
    waits = False
    try:
        recompute(archive, reach)
    except (ConflictError, ReadAgainError) as error:
        waits = isinstance(error, ReadAgainError)
    assert not waits or order[0] != "after"
    reach("after")
    recompute(archive)
    assert counted(archive) == {0: 1, 2: 1}
