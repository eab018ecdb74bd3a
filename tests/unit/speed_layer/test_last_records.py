"""The last record of each partition: found among what was read, kept in progress, and the same as Kafka gives it."""

import random
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.ledger.last_read import LastRead, last_read_of
from hourline_core.ledger.last_records import LastRecord, checksum_of
from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.ledger.progress import Progress
from hourline_core.ledger.progress_columns import PROGRESS_SCHEMA
from hourline_core.ledger.progress_rows import Position, ProgressRow, RecordCounts, to_arrow
from hourline_core.model.scratch_columns import (
    HEADERS,
    KEY,
    OFFSET,
    PARTITION,
    RECORD_TIMESTAMP,
    TOPIC_ID,
    VALUE_CRC,
)
from hourline_core.storage import commits
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.version_retention import STREAMED
from speed_layer.commit.progress_compaction import compact_progress
from speed_layer.intake.record_rows import last_records_of

NOW = datetime(2024, 4, 1, 10, tzinfo=UTC)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(0, 30)), min_size=1), st.randoms())
def test_of_each_partition_the_highest_offset_is_the_last(
    addresses: list[tuple[str, int, int]], rand: random.Random
) -> None:
    addresses += rand.choices(addresses, k=3)  # of an exploded record, there are several rows
    rows = pa.table(
        {
            TOPIC_ID: [of for of, _, _ in addresses],
            PARTITION: pa.array([number for _, number, _ in addresses], pa.int32()),
            OFFSET: [offset for _, _, offset in addresses],
            RECORD_TIMESTAMP: pa.array([NOW + timedelta(seconds=offset) for _, _, offset in addresses], TIMESTAMP),
            KEY: pa.array([f"{offset}".encode() for _, _, offset in addresses], pa.binary()),
            VALUE_CRC: [zlib.crc32(f"{of}{offset}".encode()) for of, _, offset in addresses],
            HEADERS: pa.array([None] * len(addresses), pa.map_(pa.string(), pa.binary())),
        }
    )
    highest: dict[tuple[str, int], int] = {}
    for of, number, offset in addresses:
        highest[of, number] = max(offset, highest.get((of, number), 0))
    assert last_records_of(rows) == {
        (of, number): LastRecord(
            number,
            offset,
            NOW + timedelta(seconds=offset),
            checksum_of(f"{offset}".encode(), zlib.crc32(f"{of}{offset}".encode()), {}),
        )
        for (of, number), offset in highest.items()
    }


@pytest.mark.parametrize(
    ("key", "crc", "headers"),
    [(b"", 1, {}), (None, 2, {}), (None, None, {}), (None, 1, {"a": b""}), (None, 1, {"a": None}), (b"None", 1, {})],
)
def test_each_part_of_a_record_is_in_its_checksum(
    key: bytes | None, crc: int | None, headers: dict[str, bytes]
) -> None:
    assert checksum_of(key, crc, headers) != checksum_of(None, 1, {})
    assert checksum_of(None, 1, {"a": b"1", "b": b"2"}) == checksum_of(None, 1, {"b": b"2", "a": b"1"})


def record(offset: int, partition: int = 0) -> LastRecord:
    return LastRecord(partition, offset, NOW, f"checksum of {offset}")


def row(
    sequence: int,
    *last: LastRecord,
    topic: tuple[str, str] = ("id-1", "visits"),
    position: tuple[Position, ...] | None = None,
    cluster: str | None = "c1",
) -> ProgressRow:
    return ProgressRow(
        sequence, *topic, (), RecordCounts(), (), (), NOW, NOW, NOW, position, cluster=cluster, last_records=last
    )


def test_progress_says_what_was_read_last() -> None:
    rows = [
        row(1, record(4), record(7, 1)),
        row(2, record(9)),
        row(3, topic=("file:ab", "visits"), cluster=None),
        row(4, record(2), topic=("id-5", "views")),
        row(5),  # silence
    ]
    read = LastRead(
        "c1",
        {"visits": "id-1", "views": "id-5"},
        {("id-1", 0): record(9), ("id-1", 1): record(7, 1), ("id-5", 0): record(2)},
    )
    assert last_read_of(to_arrow(rows)) == read

    # A reset says which of these count. Then what is read again is not behind them.
    rows += [row(6, record(9), position=(Position(0, 10, 0),)), row(7, record(3), record(1, 1))]
    assert last_read_of(to_arrow(rows)).records == {
        ("id-1", 0): record(9),
        ("id-1", 1): record(1, 1),
        ("id-5", 0): record(2),
    }
    rows += [row(8, topic=("id-2", "visits"), position=(), cluster="c2")]
    assert last_read_of(to_arrow(rows)) == LastRead("c2", {"visits": "id-2", "views": "id-5"}, {("id-5", 0): record(2)})
    assert last_read_of(PROGRESS_SCHEMA.empty_table()) == LastRead()


def test_compacted_progress_says_the_same(tmp_path: Path) -> None:
    progress = Progress(open_or_create(f"{tmp_path}/progress", {}, "progress", PROGRESS_SCHEMA, STREAMED, "of visits"))
    for written in (
        row(1, record(4), record(7, 1)),
        row(2, record(9)),
        row(3, record(2), topic=("id-0", "visits")),
        row(4, record(5), topic=("id-0", "visits")),
    ):
        progress.finish([written], {})
    told = progress.last_read()
    assert told.topic_ids == {"visits": "id-0"}
    assert compact_progress(progress, NOW + timedelta(hours=2), cutoffs=()) == 2
    assert progress.last_read() == told


def test_progress_of_an_older_version_says_which_topics_were_read(tmp_path: Path) -> None:
    rows = to_arrow([row(1, record(4))]).drop_columns(["cluster", "last_records"])
    table = open_or_create(f"{tmp_path}/progress", {}, "progress", rows.schema, STREAMED, "of visits")
    commits.append(table, rows, {})
    assert Progress(table).last_read() == LastRead(None, {"visits": "id-1"}, {})
