"""Files of records that a test writes, and what a replay reads of them."""

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from hourline_core.errors import UsageError
from hourline_core.formats.files.reading import open_recording
from hourline_core.formats.files.record import Record

repeatable = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def records(path: Path | str, **options: Any) -> list[Record]:
    with open_recording(str(path), **options) as recording:
        read = list(recording.records)
    assert len(read) == recording.total
    return read


def rows(path: Path | str, **options: Any) -> list[dict[str, Any]]:
    return [json.loads(record.payload or b"", parse_float=Decimal) for record in records(path, **options)]


def plain(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def gzipped(path: Path, content: bytes) -> Path:
    return plain(path.with_name(path.name + ".gz"), gzip.compress(content))


def zipped(path: Path, content: bytes) -> Path:
    packed = path.with_name(path.name + ".zip")
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(path.name, content)
    return packed


def refusal(path: Path | str, **options: Any) -> str:
    with pytest.raises(UsageError) as caught:
        records(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


packings = pytest.mark.parametrize("pack", [plain, gzipped, zipped])
Pack = Callable[[Path, bytes], Path]


def as_csv(header: Sequence[str], cells: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([header, *cells])
    return text.getvalue().encode()


def as_parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()
