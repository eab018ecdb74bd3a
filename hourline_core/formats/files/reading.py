"""Reads the records of a file for a replay or an import, in the file's order or sorted by a column."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from types import MappingProxyType

from hourline_core.errors import UsageError, did_you_mean
from hourline_core.formats.files.avro_rows import AvroRows
from hourline_core.formats.files.csv_rows import CsvRows
from hourline_core.formats.files.data_file import DataFile, Format, find_data_file
from hourline_core.formats.files.delimited_messages import DelimitedMessages
from hourline_core.formats.files.json_lines import JsonLines
from hourline_core.formats.files.ordering import sort_records
from hourline_core.formats.files.parquet_rows import ParquetRows
from hourline_core.formats.files.record import Record, rank_of
from hourline_core.formats.files.text_lines import TextLines
from hourline_core.formats.files.typed_row import TypedRow
from hourline_core.model.fields import Field

ANY_PARTITION = -1
# A column that is missing in all of the first records is a typing error.
_RECORDS_CHECKED = 1000
# Longer ones are texts. A whole number of more than 4,300 digits is none to Python.
_NUMBER = re.compile(r"(?=.{1,300}\Z)-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")

Rows = CsvRows | JsonLines | ParquetRows | AvroRows | TextLines | DelimitedMessages


class NoRecordsError(UsageError):
    """A file holds no records."""


@dataclass(frozen=True)
class Recording:
    """The records of a file, which can be read once, and their number."""

    records: Iterator[Record]
    total: int


@contextmanager
def open_recording(
    name: str,
    *,
    format: Format | None = None,
    order_by: str | None = None,
    key: str | None = None,
    partition: str | int | None = None,
    null_text: str | None = None,
    fields: Mapping[str, Field] = MappingProxyType({}),
    avro_schema: str | None = None,
) -> Iterator[Recording]:
    """The records of the file ``name``: JSON objects, or the unchanged lines of a JSON lines file; or what a file of
    text or Protobuf has. With ``avro_schema``, those of an Avro file of that schema are bytes.

    ``format`` overrides the file's ending. ``order_by``, ``key`` and ``partition`` name columns, with dots for a field
    of a nested object. If ``partition`` is an int, all records get that partition. In CSV, cells that equal
    ``null_text`` are null, like empty ones, and ``fields``, those of the source, decide the type of each cell. There, a
    cell that is a number is ordered as a number, whatever its field is.

    Raises UsageError for a file that is missing, empty or invalid, and for a missing column. Of other files than CSV,
    it may also be raised later, while their records are read.
    """
    file = find_data_file(name, format)
    as_bytes = file.format == "avro" and avro_schema is not None
    rows = rows_of(file, null_text, avro_schema)
    for column in {order_by, key, partition}:
        if isinstance(column, str) and (as_bytes or file.format in ("text", "protobuf")):
            raise UsageError(f"{file} holds records as they are sent, which have no column '{column}'; leave it out")
        if isinstance(column, str):
            _require_column(column, rows, file)
    records = _records(_Columns(order_by, key, partition), rows, TypedRow(fields) if file.format == "csv" else None)
    with ExitStack() as stack:
        yield Recording(stack.enter_context(sort_records(records)) if order_by else records, rows.total)


def rows_of(file: DataFile, null_text: str | None, avro_schema: str | None = None) -> Rows:
    """The rows of ``file``, each with its line number and as JSON. Raises UsageError as ``open_recording``, among them
    NoRecordsError.
    """
    if null_text is not None and file.format != "csv":
        raise UsageError(f"{file} is no CSV, and --null-text is for CSV only; leave --null-text out")
    match file.format:
        case "csv":
            rows: Rows = CsvRows(file, null_text)
        case "jsonl":
            rows = JsonLines(file)
        case "parquet":
            rows = ParquetRows(file)
        case "avro":
            rows = AvroRows(file, avro_schema)
        case "text":
            rows = TextLines(file)
        case "protobuf":
            rows = DelimitedMessages(file)
    if rows.total == 0:
        raise NoRecordsError(f"{file} holds no records")
    return rows


def _require_column(column: str, rows: Rows, file: DataFile) -> None:
    names = rows.columns
    if names is None:
        objects = [_object(payload) for _, payload in islice(rows, _RECORDS_CHECKED)]
        if any(_has(one, column) for one in objects):
            return
        names = sorted({name for one in objects for name in one})
    elif column in names or column.partition(".")[0] in names:
        return
    raise UsageError(f"{file} has no column '{column}'{did_you_mean(column, names)}")


@dataclass(frozen=True)
class _Columns:
    """The columns that tell a record's rank, key and partition."""

    order_by: str | None
    key: str | None
    partition: str | int | None


def _records(columns: _Columns, rows: Iterable[tuple[int, bytes]], typed: TypedRow | None) -> Iterator[Record]:
    order_by, key, partition = columns.order_by, columns.key, columns.partition
    fixed = partition if isinstance(partition, int) else ANY_PARTITION
    if order_by is None and key is None and not isinstance(partition, str):
        for line, payload in rows:  # the payload need not be parsed
            yield Record(line, typed(payload) if typed else payload, None, fixed, None)
        return
    for line, payload in rows:
        fields = _object(payload)
        value = partial(_number, fields) if typed else partial(_value, fields)
        yield Record(
            line,
            typed(payload) if typed else payload,
            _key(_value(fields, key)) if key else None,
            _partition(value(partition)) if isinstance(partition, str) else fixed,
            rank_of(value(order_by)) if order_by else None,
        )


def _object(payload: bytes) -> dict[str, object]:
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _value(fields: dict[str, object], column: str) -> object:
    if column in fields or "." not in column:
        return fields.get(column)
    first, _, rest = column.partition(".")
    inner = fields.get(first)
    return _value(inner, rest) if isinstance(inner, dict) else None


def _number(cells: dict[str, object], column: str) -> object:
    """The cell of a CSV row: as a number if it is a whole or decimal one, and otherwise as text."""
    cell = _value(cells, column)
    if not isinstance(cell, str) or not _NUMBER.fullmatch(cell):
        return cell
    return json.loads(cell)


def _has(fields: dict[str, object], column: str) -> bool:
    first, _, rest = column.partition(".")
    inner = fields.get(first)
    return column in fields or (bool(rest) and isinstance(inner, dict) and _has(inner, rest))


def _key(value: object) -> bytes | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def _partition(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
