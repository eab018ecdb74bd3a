"""Compaction of progress keeps the clocks of partitions, and holds none of them in Python: each row has those of all."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hourline_core.ledger.progress import Progress
from hourline_core.ledger.progress_columns import PROGRESS_SCHEMA
from hourline_core.ledger.progress_rows import HourEvents, ProgressRow, RecordCounts
from hourline_core.ledger.source_clock import PartitionClock
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.version_retention import STREAMED
from speed_layer.commit.progress_compaction import compact_progress

NOW = datetime(2024, 4, 1, 10, tzinfo=UTC)
TOPICS = ("a", "b")


def rows_of(sequence: int, late: int) -> list[ProgressRow]:
    """A micro-batch that has read two topics. All of its rows have the clocks of both."""
    clocks = tuple(PartitionClock(topic, 0, NOW + timedelta(minutes=sequence), NOW) for topic in TOPICS)
    row = ProgressRow(sequence, None, None, (), RecordCounts(5), (HourEvents(NOW, 5, late),), (), NOW, NOW, NOW)
    return [replace(row, topic_id=topic, topic=topic, partitions=clocks) for topic in TOPICS]


def test_each_row_that_is_left_has_the_clocks_of_its_sequence(tmp_path: Path) -> None:
    progress = Progress(open_or_create(f"{tmp_path}/progress/x", {}, "progress", PROGRESS_SCHEMA, STREAMED, "of x"))
    batches = [rows_of(sequence, late=int(sequence == 3)) for sequence in range(1, 6)]
    for batch in batches:
        progress.finish(batch, {})
    assert compact_progress(progress, NOW + timedelta(hours=2), cutoffs=()) == 4
    left = [2, 3, 5]  # 1 and 2, and 4 and 5, belong together
    assert [row.sequence for row in progress.rows(0, 5)] == [sequence for sequence in left for _ in TOPICS]
    for sequence in left:
        assert {row.partitions for row in progress.rows_of(sequence)} == {batches[sequence - 1][0].partitions}
    assert not any(row.partitions for row in progress.rows(0, 5))
