"""Data files that a task writes where its rows are, and the commit that makes them part of a table.

A file that no commit names does not exist for any reader: a task can be run twice, or end half-way. Maintenance deletes
what it leaves.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, Transaction
from deltalake.transaction import AddAction, RemoveAction

from hourline_core.errors import TableError
from hourline_core.runtime import failpoints
from hourline_core.storage.commits import LOG_KEPT, commit_properties, durable_step
from hourline_core.storage.data_files import file_system
from hourline_core.storage.durable import sync_files
from hourline_core.storage.statistics import columns_with_range, leaves

_SAMPLE = 1000
_LONGEST_TEXT = 64
"""In characters. The range of a column with a longer text is left out: a part of it is no upper bound."""


@dataclass(frozen=True)
class NewFile:
    """A data file that no commit names yet."""

    path: str
    """Below the table."""
    size: int
    """In bytes."""
    rows: int
    statistics: str
    """Those of Delta, as JSON: the number of rows, and for each column the lowest and highest value and the nulls."""


class NewFileWriter:
    """Writes rows, chunk by chunk, into one new data file of the table of the kind ``kind`` at ``uri``. ``sample`` are
    some of them.
    """

    def __init__(self, uri: str, storage_options: Mapping[str, str], kind: str, sample: pa.Table) -> None:
        self._files = file_system(uri, storage_options)
        self._kind = kind
        self._path = f"part-{uuid4()}.parquet"
        self._schema = sample.schema
        self._collected: list[pq.FileMetaData] = []
        failpoints.visit(f"before write {kind}")
        self._writer = _Writer(
            self._path,
            self._schema,
            filesystem=self._files,
            compression="zstd",
            compression_level=1,
            use_dictionary=_repeating(sample.slice(0, _SAMPLE)),
            write_statistics=columns_with_range(self._schema),
            metadata_collector=self._collected,
        )

    def write(self, rows: pa.Table) -> None:
        """Append ``rows``, which have the columns of the sample."""
        self._writer.write_table(rows)

    def close(self) -> NewFile:
        """End the file."""
        self._writer.close()
        failpoints.visit(f"after write {self._kind}")
        (written,) = self._collected
        size = self._files.get_file_info(self._path).size
        return NewFile(self._path, size, written.num_rows, json.dumps(_statistics(written, self._schema)))


class _Writer(pq.ParquetWriter):  # type: ignore[misc]  # Its module has no types.
    """One that is not closed has failed, or its task has: no commit will name its file."""

    def __del__(self) -> None:
        """Leave the file as it is. Arrow's own writer tries to end it, and prints the trace when the disk is full."""


def append_files(
    table: DeltaTable,
    files: Sequence[NewFile],
    metadata: Mapping[str, Any],
    writers: Sequence[str] = (),
    sequence: int = 0,
) -> None:
    """Append the rows of ``files``. ``metadata``, ``writers``, ``sequence`` and errors are as in ``commits.append``.

    Raises TableError if one of the files is gone: maintenance deletes files that no commit has named for hours, as
    while the machine slept.
    """
    _commit("append", table, files, metadata, writers, sequence)


def overwrite_files(
    table: DeltaTable,
    files: Sequence[NewFile],
    schema: pa.Schema,
    metadata: Mapping[str, Any],
    writers: Sequence[str] = (),
    sequence: int = 0,
) -> None:
    """Replace all rows by those of ``files``. The table has the columns of ``schema`` then. The rest is as in
    ``append_files``.
    """
    _commit("overwrite", table, files, metadata, writers, sequence, schema=schema)


def exchange_files(
    table: DeltaTable,
    removed: Sequence[str],
    files: Sequence[NewFile],
    metadata: Mapping[str, Any],
    writers: Sequence[str] = (),
    sequence: int = 0,
) -> None:
    """Replace the rows of the data files ``removed`` by those of ``files``. The rest is as in ``append_files``."""
    _commit("overwrite", table, files, metadata, writers, sequence, removed=removed)


def _commit(
    step: str,
    table: DeltaTable,
    files: Sequence[NewFile],
    metadata: Mapping[str, Any],
    writers: Sequence[str],
    sequence: int,
    *,
    schema: pa.Schema | None = None,
    removed: Sequence[str] = (),
) -> None:
    """With a ``schema``, all rows are replaced."""
    sizes = {info.path: info.size for info in file_system(table).get_file_info([file.path for file in files])}
    for file in files:
        if sizes.get(file.path) != file.size:
            raise TableError(
                f"the file {file.path} of the table at {table.table_uri} was deleted before it was committed; run "
                "the command again"
            )
    now = int(time.time() * 1000)
    added = [AddAction(file.path, file.size, {}, now, True, file.statistics) for file in files]
    recorded = [Transaction(writer, sequence) for writer in writers]
    following = table.version() + 1
    sync_files(table, [file.path for file in files])
    with durable_step(step, table):
        table.create_write_transaction(
            [*added, *(RemoveAction(path, True, now) for path in removed)],
            "append" if schema is None else "overwrite",
            table.schema() if schema is None else schema,
            commit_properties=commit_properties(metadata, recorded),
            post_commithook_properties=LOG_KEPT,
        )
        # delta-rs leaves the handle at the version before. A commit of another process must still be noticed.
        table.load_as_version(following)


def delete_files(table: DeltaTable, files: Iterable[NewFile]) -> None:
    """Delete files of ``table`` that no commit will name."""
    there = file_system(table)
    for file in files:
        there.delete_file(file.path)


def _repeating(rows: pa.Table) -> list[str]:
    """The plain columns in which values repeat, by Parquet's names. The others are written faster without a
    dictionary.
    """
    most = rows.num_rows // 2
    names = []
    for name, path in leaves(rows.schema):
        column = rows[path[0]].combine_chunks()
        for part in path[1:]:
            column = column.field(part)
        if pc.count_distinct(column).as_py() <= most:
            names.append(name)
    return names


def _statistics(written: pq.FileMetaData, schema: pa.Schema) -> dict[str, Any]:
    """Delta's statistics of a file: those of Parquet."""
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    paths = dict(leaves(schema))
    for number in range(written.num_columns):
        parts = [written.row_group(group).column(number) for group in range(written.num_row_groups)]
        path = paths.get(parts[0].path_in_schema) if parts else None
        known = [part.statistics for part in parts if part.is_stats_set and part.statistics.has_null_count]
        if path is None or len(known) < len(parts):
            continue
        _put(nulls, path, sum(part.null_count for part in known))
        ranges = [(part.min, part.max) for part in known if part.has_min_max]
        some = [part for part in known if part.num_values]
        if ranges and len(ranges) == len(some):
            least, most = min(low for low, _ in ranges), max(high for _, high in ranges)
            if (low := _told(least)) is not None and (high := _told(most)) is not None:
                _put(lowest, path, low)
                _put(highest, path, high)
    return {"numRecords": written.num_rows, "minValues": lowest, "maxValues": highest, "nullCount": nulls}


def _put(values: dict[str, Any], path: Sequence[str], value: Any) -> None:
    *structs, name = path
    for struct in structs:
        values = values.setdefault(struct, {})
    values[name] = value


def _told(value: Any) -> int | str | None:
    """A value as Delta's statistics have it. None: they leave it out."""
    match value:
        case bool():
            return None
        case int():
            return value
        case str():
            return value if len(value) <= _LONGEST_TEXT else None
        case datetime():
            text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
            return f"{text}Z" if value.tzinfo is not None else text
        case date():
            return value.isoformat()
        case _:
            return None
