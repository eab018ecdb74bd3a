"""A disk that does not keep what is written ends the step, in one sentence."""

import errno
import os
from pathlib import Path

import pyarrow as pa
import pytest

from hourline_core.errors import TableError
from hourline_core.storage.commits import append
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.durable import syncing
from hourline_core.storage.version_retention import STREAMED

ROWS = pa.table({"n": [1]})


def refuse(fd: int) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_commit_that_the_disk_does_not_keep_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = open_or_create(str(tmp_path / "events" / "clicks"), {}, "events", ROWS.schema, STREAMED, "clicks")
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(TableError, match=r"the disk does not keep .*events/clicks: Input/output error; see the log"):
        append(table, ROWS, {})


def test_without_sync_a_commit_does_not_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = open_or_create(str(tmp_path / "events" / "clicks"), {}, "events", ROWS.schema, STREAMED, "clicks")
    monkeypatch.setattr(os, "fsync", refuse)
    with syncing(on=False):
        append(table, ROWS, {})
    assert table.to_pyarrow_table().num_rows == 1
