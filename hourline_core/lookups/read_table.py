"""Reads the table of somebody else that a lookup declares. For each kind, a function gives its rows as they are."""

from collections.abc import Callable, Mapping
from glob import glob
from itertools import chain
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from hourline_core.errors import TableError, first_line
from hourline_core.lookups.read_csv import read_csv
from hourline_core.lookups.read_postgres import read_postgres
from hourline_core.lookups.rows import refuse_missing, schema_of_table
from hourline_core.model.home_folder import expand_home
from hourline_core.model.lookup import Lookup, TableKind
from hourline_core.sql.literals import identifier

Reader = Callable[[Lookup, Path, Mapping[str, str]], pa.Table]
"""Takes a lookup, the folder of its project, and the options to reach Delta tables. Gives the declared columns, with
their names in the table, and at most one row more than is allowed.
"""


def read_table(lookup: Lookup, root: Path, storage_options: Mapping[str, str]) -> pa.Table:
    """The declared columns of the table, with the types that they have there. ``root`` is the project's folder.

    Raises TableError if the table is not there, cannot be read, lacks a column, or has too many rows.
    """
    try:
        rows = _READERS[lookup.kind](lookup, root, storage_options)
    except TableError:
        raise
    except Exception as error:  # What libraries raise differs by kind, and most of it is no common class.
        raise TableError(f"{lookup.table} cannot be read: {first_line(error)}") from error
    refuse_too_many(lookup, rows)
    return rows


def refuse_too_many(lookup: Lookup, rows: pa.Table) -> None:
    """Raise TableError if there are more rows than are allowed."""
    if rows.num_rows > lookup.most_rows:
        raise TableError(
            f"{lookup.table} has more than {lookup.most_rows:,} rows, which are allowed: declare a larger most_rows, "
            "or a smaller table"
        )


def _read_delta(lookup: Lookup, root: Path, storage_options: Mapping[str, str]) -> pa.Table:
    uri = lookup.table if "://" in lookup.table else str(_path(lookup.table, root))
    if "://" not in uri and not Path(uri).is_dir():
        raise TableError(f"there is no folder {uri}, allowed is that of a Delta table, or a file .csv or .parquet")
    return _take(DeltaTable(uri, storage_options=dict(storage_options)).to_pyarrow_dataset(), lookup)


def _read_parquet(lookup: Lookup, root: Path, _: Mapping[str, str]) -> pa.Table:
    return _take(ds.dataset(_files(lookup, root), format="parquet"), lookup)


def _read_csv(lookup: Lookup, root: Path, _: Mapping[str, str]) -> pa.Table:
    parts, rows = [], 0
    for part in chain.from_iterable(read_csv(lookup, path) for path in _files(lookup, root)):
        parts.append(part)
        rows += part.num_rows
        if rows > lookup.most_rows:
            break
    return pa.concat_tables(parts) if parts else schema_of_table(lookup).empty_table()


def _read_duckdb(lookup: Lookup, root: Path, _: Mapping[str, str]) -> pa.Table:
    url = urlsplit(lookup.table)
    file, name = _path(url.path, root), parse_qs(url.query)["table"][0]
    if not file.is_file():
        raise TableError(f"there is no file {file}, allowed is a database of DuckDB")
    table = ".".join(map(identifier, name.split(".")))
    with duckdb.connect(str(file), read_only=True) as database:
        database.execute("SET TimeZone = 'UTC'")
        there = [column for column, *_ in database.execute(f"DESCRIBE {table}").fetchall()]
        refuse_missing(lookup, there)
        columns = ", ".join(map(identifier, lookup.names_in_table.values()))
        return database.execute(f"SELECT {columns} FROM {table} LIMIT {lookup.most_rows + 1}").to_arrow_table()


_READERS: Mapping[TableKind, Reader] = {
    "delta": _read_delta,
    "parquet": _read_parquet,
    "csv": _read_csv,
    "duckdb": _read_duckdb,
    "postgresql": lambda lookup, root, options: read_postgres(lookup),
}


def _take(dataset: ds.Dataset, lookup: Lookup) -> pa.Table:
    refuse_missing(lookup, dataset.schema.names)
    return dataset.head(lookup.most_rows + 1, columns=list(lookup.names_in_table.values()))


def _path(path: str, root: Path) -> Path:
    return root.absolute() / expand_home(path)


def _files(lookup: Lookup, root: Path) -> list[str]:
    """The files in the order of their names."""
    path = str(_path(lookup.table, root))
    found = sorted(file for file in glob(path) if Path(file).is_file())  # noqa: PTH207 (a pattern may be absolute)
    if not found:
        raise TableError(f"there is no file {path}")
    return found
