"""Data files that a task writes, and no commit names yet."""

import errno
import gc
import os
import resource
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hourline_core.storage.new_files import NewFileWriter

ROWS = pa.table({"value": pa.array([os.urandom(1000) for _ in range(1000)], pa.binary())})


def test_a_file_that_cannot_be_written_raises_its_cause_and_writes_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", written.append)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(OSError) as raised:
            write(tmp_path)
        number = raised.value.errno
        del raised
        gc.collect()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert number == errno.EFBIG
    assert written == []


def write(folder: Path) -> None:
    writer = NewFileWriter(str(folder), {}, "events", sample=ROWS)
    writer.write(ROWS)
    writer.close()
