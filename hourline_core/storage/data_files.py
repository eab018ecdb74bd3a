"""The data files of a table at one version: which they are, and whether they can be read."""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSystem, FileType, LocalFileSystem, PyFileSystem, SubTreeFileSystem

from hourline_core.errors import TableError, first_line

BACKUP = "bring it back from a backup; `hourline query --degraded SQL` answers what does not need it"
"""How to mend a table that cannot be computed again."""

BY_HANDLE = ("progress", "coverage", "provisional", "final")
"""The kinds of tables whose data files a reader gets from an open table, if they are on this machine. So it does not
read the log again.
"""

_PARTS_OF_PLACE = {
    "events": 2,
    "rejected": 2,
    "quarantine": 2,
    "progress": 2,
    "lookups": 2,
    "decoded": 3,
    "provisional": 3,
    "staged": 3,
    "final": 3,
}
"""By kind of table, the number of names in its place: the kind, and then the source or lookup, or the metric and its
declaration. Tables of other kinds have only that.
"""

_PIECE = 1024 * 1024


@dataclass(frozen=True)
class DataFiles:
    """The data files of a table at one version."""

    paths: list[str]
    size: int
    """The size in bytes of all of them."""
    has_unsafe_ranges: bool = False
    """Whether one has the range of a column that NaN may be missing in: an older version of Hourline wrote it."""


def place_of(uri: str, kind: str) -> str:
    """The path of a table below the root of the tables, from its ``uri`` and its ``kind`` (``events``, ``final``…).

    A source or a metric may have the name of a kind, and so may the folder that is the root.
    """
    names = uri.rstrip("/").split("/")[-_PARTS_OF_PLACE.get(kind, 1) :]
    return "/".join(names[names.index(kind) :])


def name_of(table: DeltaTable) -> str:
    """The table's path below the root of the tables, such as ``events/clicks``."""
    return place_of(table.table_uri, str(table.metadata().name))


def is_whole(table: DeltaTable) -> bool:
    """Whether all data files of the version that ``table`` is open at exist with their sizes. A vacuum may have
    deleted some of an older one.
    """
    return next(_wrong_files(table), None) is None


def data_size(table: DeltaTable) -> int:
    """The size in bytes of all data files of the version that ``table`` is open at."""
    return sum(pa.table(table.get_add_actions())["size_bytes"].to_pylist())


def damage_of(table: DeltaTable, decoding: bool = True) -> str | None:
    """A sentence about the first unreadable data file of the version that ``table`` is open at. None: all can be
    read. Without ``decoding``, only their existence and sizes are checked.
    """
    for path, wrong in chain(_wrong_files(table), _undecodable_files(table) if decoding else ()):
        return describe_damage(table, path, wrong)
    return None


def describe_damage(table: DeltaTable, path: str, wrong: str) -> str:
    """The sentence about a damaged data file, with how to mend it."""
    return f"the table at {table.table_uri.rstrip('/')} is damaged: its file {path} {wrong}; {_remedy(name_of(table))}"


def data_files(table: DeltaTable) -> list[str]:
    """The paths, below the table, of the data files of the version that ``table`` is open at."""
    paths: list[str] = pa.table(table.get_add_actions())["path"].to_pylist()
    return paths


def read_rows(table: DeltaTable, paths: Iterable[str], columns: Collection[str] | None = None) -> pa.Table:
    """The rows of some of the data files, with all columns or those of ``columns``. Columns that an older file lacks
    are null. Raises TableError. With many small files, it takes a seventh of the time of a scan by Arrow.
    """
    schema, files = pa.schema(table.schema().to_arrow()), file_system(table)
    if columns is not None:
        schema = pa.schema([column for column in schema if column.name in columns])
    parts = [schema.empty_table()]
    for path in paths:
        try:
            with files.open_input_file(path) as file:
                rows = pq.ParquetFile(file).read(None if columns is None else schema.names, use_threads=False)
        except (OSError, pa.ArrowInvalid) as error:
            raise TableError(describe_damage(table, path, f"cannot be read ({first_line(error)})")) from error
        parts.append(with_schema(rows, schema))
    return pa.concat_tables(parts)


def with_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """``rows`` with the columns of ``schema``. Those that they lack are null."""
    if rows.schema.equals(schema):
        return rows
    # delta-rs writes text as another Arrow type (string_view) when it deletes rows.
    columns = [
        rows[c.name].cast(c.type) if c.name in rows.column_names else pa.nulls(rows.num_rows, c.type) for c in schema
    ]
    return pa.table(columns, schema=schema)


def count_nulls(table: DeltaTable, path: str, column: str) -> int:
    """The number of rows of a data file in which ``column`` (with dots for a nested one) is null, or all, if the file
    lacks it. Raises TableError.
    """
    name, *parts = column.split(".")
    try:
        with file_system(table).open_input_file(path) as file:
            rows = pq.ParquetFile(file).read([column])
    except (OSError, pa.ArrowInvalid) as error:
        raise TableError(describe_damage(table, path, f"cannot be read ({first_line(error)})")) from error
    if not rows.num_columns:
        return int(rows.num_rows)
    return int(pc.struct_field(rows[name], parts).null_count if parts else rows[name].null_count)


def path_of(table: DeltaTable) -> str:
    """The folder of ``table`` on this machine, else its address. Spark takes an address as a path: it would look for a
    folder with ``%20`` in its name.
    """
    uri = urlsplit(table.table_uri)
    return unquote(uri.path).rstrip("/") if uri.scheme == "file" else table.table_uri


def local_files(table: DeltaTable) -> DataFiles | None:
    """The data files of the version that ``table`` is open at, for readers without delta-rs. None: there are none,
    they are not on this machine, or the name of their folder would be taken for a pattern.
    """
    folder = path_of(table)
    added = pa.table(table.get_add_actions(flatten=True))
    if "://" in folder or not added.num_rows or set(folder) & set("*?["):
        return None
    ranges = (added[of.name] for of in added.schema if of.name.startswith("min.") and pa.types.is_floating(of.type))
    return DataFiles(
        [f"{folder}/{path}" for path in added["path"].to_pylist()],
        sum(added["size_bytes"].to_pylist()),
        any(values.null_count < len(values) for values in ranges),
    )


def checksum(table: DeltaTable, path: str) -> str:
    """BLAKE2b of 128 bits of a data file, as hexadecimal digits. Raises OSError when it cannot be read."""
    digest = hashlib.blake2b(digest_size=16)
    with file_system(table).open_input_stream(path) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def file_system(table: DeltaTable | str, storage_options: Mapping[str, str] | None = None) -> FileSystem:
    """The files of a table, by paths below it. The table is an open one, or the one at an address that is reached by
    ``storage_options``. Local files are read tens of times faster without delta-rs.
    """
    folder = local_folder(table if isinstance(table, str) else table.table_uri)
    if folder is not None:
        return _local_file_system(folder)
    if isinstance(table, str):
        return PyFileSystem(DeltaStorageHandler(table, dict(storage_options or {})))
    return PyFileSystem(DeltaStorageHandler.from_table(table._table))


def local_folder(address: str) -> str | None:
    """The folder of the table at ``address``. None: it is not on this machine."""
    uri = urlsplit(address)
    if uri.scheme not in ("", "file"):
        return None
    return unquote(uri.path) if uri.scheme else address


@lru_cache(maxsize=1024)
def _local_file_system(folder: str) -> FileSystem:
    return SubTreeFileSystem(folder, LocalFileSystem())


def _wrong_files(table: DeltaTable) -> Iterator[tuple[str, str]]:
    """The data files that are missing or have another size than they were written with, and which of the two it is."""
    added = pa.table(table.get_add_actions()).select(["path", "size_bytes"]).to_pydict()
    there = file_system(table).get_file_info(added["path"])
    for path, size, file in zip(*added.values(), there, strict=True):
        if file.type != FileType.File:
            yield path, "is missing"
        elif file.size != size:
            yield path, f"has {file.size:,} bytes instead of {size:,}"


def find_decoding_error(table: DeltaTable, path: str) -> str | None:
    """Why a data file cannot be decoded. None: it can."""
    try:
        with file_system(table).open_input_file(path) as file:
            for _ in pq.ParquetFile(file).iter_batches():
                pass
    except (OSError, pa.ArrowInvalid) as error:
        return f"cannot be decoded ({first_line(error)})"
    return None


def _undecodable_files(table: DeltaTable) -> Iterator[tuple[str, str]]:
    return ((path, wrong) for path in data_files(table) if (wrong := find_decoding_error(table, path)))


def _remedy(name: str) -> str:
    """How to mend a damaged data file of the table ``name``."""
    kind, _, rest = name.partition("/")
    metric = rest.partition("/")[0]
    if kind in ("final", "provisional"):
        return f"`hourline reset {metric}` and `hourline recompute` compute the metric again from the archived events"
    return BACKUP
