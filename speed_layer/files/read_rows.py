"""Reads the rows of a file in chunks, each of which becomes a micro-batch, as records like those of Kafka."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from hourline_core.errors import UsageError
from hourline_core.formats.files.data_file import DataFile, Format
from hourline_core.formats.files.own_format import FORMATS_OF_RECORDS, refuse_other_format
from hourline_core.formats.files.reading import Rows
from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.model import Project, Source
from hourline_core.validation.file_rows import CONTENT_TYPE, CSV, OWN_FORMAT

_ROWS_LOOKED_AT = 1000
_CONTENT_TYPES: Mapping[Format, bytes] = {"csv": CSV, "text": OWN_FORMAT, "protobuf": OWN_FORMAT}
_ROWS_OF_CHUNK = 100_000
BYTES_OF_CHUNK = 64 << 20
"""A chunk ends when it has reached one of both, or ``max_records_per_batch``."""


@dataclass(frozen=True)
class Chunk:
    """Successive rows of a file, as JSON. This process holds them."""

    first: int
    """The number of the first row; that of the file's first row is 0."""
    payloads: Sequence[bytes]

    @property
    def end(self) -> int:
        """One past the number of the last row."""
        return self.first + len(self.payloads)


def most_rows(project: Project) -> int:
    """The maximum number of rows of a chunk, and of a micro-batch of files."""
    return min(project.settings.speed.max_records_per_batch, _ROWS_OF_CHUNK)


def read_chunks(rows: Rows, first: int, project: Project) -> Iterator[Chunk]:
    """The rows from number ``first`` on. Raises UsageError for a file that cannot be read to its end."""
    most = most_rows(project)
    payloads, size = list[bytes](), 0
    for _, payload in islice(rows, first, None):
        payloads.append(payload)
        size += len(payload)
        if len(payloads) >= most or size >= BYTES_OF_CHUNK:
            yield Chunk(first, payloads)
            first, payloads, size = first + len(payloads), [], 0
    if payloads:
        yield Chunk(first, payloads)


def as_records(name: str, chunk: Chunk, format: Format) -> pa.Table:
    """A chunk of the file ``name`` as records, with the columns of ``read_topics``."""
    size, entry = len(chunk.payloads), pa.struct({"key": pa.string(), "value": pa.binary()})
    content_type = _CONTENT_TYPES.get(format)
    headers = [{"key": CONTENT_TYPE, "value": content_type}] if content_type else None
    return pa.table(
        {
            "key": pa.nulls(size, pa.binary()),
            "value": pa.array(chunk.payloads, pa.binary()),
            "topic": pa.array([name] * size, pa.string()),
            "partition": pa.array([0] * size, pa.int32()),
            "offset": pa.array(range(chunk.first, chunk.end), pa.int64()),
            "timestamp": pa.nulls(size, TIMESTAMP),
            "timestampType": pa.nulls(size, pa.int32()),
            "headers": pa.array([headers] * size, pa.list_(entry)),
        }
    )


def hash_content(file: DataFile) -> str:
    """A number in hexadecimal that stands for the unpacked content of a file."""
    with file.open() as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:32]  # type: ignore[arg-type] # whatever can be read


def refuse_foreign(file: DataFile, rows: Rows, source: Source) -> None:
    """Raise UsageError for a file that cannot belong to ``source``, before its rows are archived."""
    if file.format in FORMATS_OF_RECORDS:
        instead = "if the file is CSV, JSON lines, Parquet or Avro, say so, as in --format jsonl"
        refuse_other_format(file.format, str(file), source, instead)
        return
    keys = {field.key or name for name, field in source.fields.items()}
    if rows.columns is not None:
        if not keys & set(rows.columns):
            raise UsageError(
                f"{file} has none of the fields of source '{source.name}' ({', '.join(sorted(keys))}); "
                f"its columns are {', '.join(rows.columns)}"
            )
    elif not any(_is_object(payload) for _, payload in islice(rows, _ROWS_LOOKED_AT)):
        raise UsageError(
            f"{file} holds no JSON object in its first lines; if it is CSV, Parquet or Avro, say so, as in --format csv"
        )


def _is_object(payload: bytes) -> bool:
    try:
        return isinstance(json.loads(payload), dict)
    except (ValueError, RecursionError):
        return False
