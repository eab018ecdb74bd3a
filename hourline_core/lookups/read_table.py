"""Reads the table of somebody else that a lookup declares. For each kind, a function gives its rows as they are."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from glob import glob
from itertools import chain
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from hourline_core.errors import TableError, first_line
from hourline_core.lookups.limited_memory import ROWS_AT_ONCE, scan
from hourline_core.lookups.read_csv import read_csv
from hourline_core.lookups.read_postgres import read_postgres
from hourline_core.lookups.rows import refuse_missing
from hourline_core.model.home_folder import expand_home
from hourline_core.model.lookup import Lookup, TableKind
from hourline_core.sql.literals import identifier

Reader = Callable[[Lookup, Path, Mapping[str, str]], Iterable[pa.Table]]
"""Takes a lookup, the folder of its project, and the options to reach Delta tables. Gives the rows in parts, of which
one may be empty: the declared columns, with their names in the table.
"""


def read_table(lookup: Lookup, root: Path, storage_options: Mapping[str, str]) -> Iterator[pa.Table]:
    """The declared columns of the table, with the types that they have there, in parts. ``root`` is the project's
    folder.

    Raises TableError if the table is not there, cannot be read, lacks a column, or has too many rows.
    """
    count = 0
    try:
        for part in _READERS[lookup.kind](lookup, root, storage_options):
            count += part.num_rows
            refuse_too_many(lookup, count)
            yield part
    except TableError:
        raise
    except Exception as error:  # What libraries raise differs by kind, and most of it is no common class.
        raise TableError(f"{lookup.table} cannot be read: {first_line(error)}") from error


def refuse_too_many(lookup: Lookup, rows: int) -> None:
    """Raise TableError if there are more ``rows`` than are allowed."""
    if rows > lookup.most_rows:
        raise TableError(
            f"{lookup.table} has more than {lookup.most_rows:,} rows, which are allowed: declare a larger most_rows, "
            "or a smaller table"
        )


def _read_delta(lookup: Lookup, root: Path, storage_options: Mapping[str, str]) -> Iterator[pa.Table]:
    uri = lookup.table if "://" in lookup.table else str(_path(lookup.table, root))
    if "://" not in uri and not Path(uri).is_dir():
        raise TableError(f"there is no folder {uri}, allowed is that of a Delta table, or a file .csv or .parquet")
    return _read_dataset(DeltaTable(uri, storage_options=dict(storage_options)).to_pyarrow_dataset(), lookup)


def _read_parquet(lookup: Lookup, root: Path, _: Mapping[str, str]) -> Iterator[pa.Table]:
    return _read_dataset(ds.dataset(_files(lookup, root), format="parquet"), lookup)


def _read_csv(lookup: Lookup, root: Path, _: Mapping[str, str]) -> Iterator[pa.Table]:
    return chain.from_iterable(read_csv(lookup, path) for path in _files(lookup, root))


def _read_duckdb(lookup: Lookup, root: Path, _: Mapping[str, str]) -> Iterator[pa.Table]:
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
        rows = database.execute(f"SELECT {columns} FROM {table}").to_arrow_reader(ROWS_AT_ONCE)
        yield rows.schema.empty_table()
        yield from map(_as_table, rows)


_READERS: Mapping[TableKind, Reader] = {
    "delta": _read_delta,
    "parquet": _read_parquet,
    "csv": _read_csv,
    "duckdb": _read_duckdb,
    "postgresql": lambda lookup, root, options: [read_postgres(lookup)],
}


def _read_dataset(dataset: ds.Dataset, lookup: Lookup) -> Iterator[pa.Table]:
    refuse_missing(lookup, dataset.schema.names)
    scanner = scan(dataset, list(lookup.names_in_table.values()))
    yield scanner.projected_schema.empty_table()
    yield from map(_as_table, scanner.to_batches())


def _as_table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


def _path(path: str, root: Path) -> Path:
    return root.absolute() / expand_home(path)


def _files(lookup: Lookup, root: Path) -> list[str]:
    """The files in the order of their names."""
    path = str(_path(lookup.table, root))
    found = sorted(file for file in glob(path) if Path(file).is_file())  # noqa: PTH207 (a pattern may be absolute)
    if not found:
        raise TableError(f"there is no file {path}")
    return found
