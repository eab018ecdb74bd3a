"""A reset brings the bytes of records whose events were archived without them, and changes nothing else."""

from pathlib import Path

from hourline_core.model.decoding import BYTES_ALONE
from hourline_core.storage.opening import open_table
from tests.support.decoded_archive import Archive, Sent

SENT = [Sent(0, 1, 1), Sent(1, 2, "x"), Sent(2, 3, 2), Sent(3, 0, None)]
"""The second one is rejected: its bytes are kept."""


def rows_of(archive: Archive, kind: str) -> list[dict[str, object]]:
    table = open_table(getattr(archive.layout, kind)(archive.source), {}).to_pyarrow_table()
    return sorted(table.to_pylist(), key=lambda row: (row["offset"], row["sequence"]))


def test_a_reset_brings_the_bytes_of_archived_records_once(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.declare("not_kept")
    archive.micro_batch(1, SENT)
    archive.declare("numbers")
    archive.micro_batch(2, [Sent(0, 0, 5)])
    events = rows_of(archive, "events")
    read = archive.read_again()
    assert (read.brought_bytes, read.already_counted, read.validated_again) == (3, 4, 1)
    assert read.counts().records == 0, "each record was counted before"
    assert rows_of(archive, "events") == events
    brought = [row for row in rows_of(archive, "rejected") if row["decoding"] == BYTES_ALONE]
    assert [(row["offset"], row["value"], row["reason"]) for row in brought] == [
        (offset, SENT[offset].value(), None) for offset in (0, 2, 3)
    ]
    assert archive.read_again().brought_bytes == 0
    assert [row for row in rows_of(archive, "rejected") if row["decoding"] == BYTES_ALONE] == brought


def test_a_source_that_keeps_no_bytes_is_brought_none(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.declare("not_kept")
    archive.micro_batch(1, SENT)
    assert archive.read_again().brought_bytes == 0
    assert [row["offset"] for row in rows_of(archive, "rejected")] == [1]
