"""Works on the rows of a lookup, which may be more than fit in memory. The others are in files in the workspace."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from hourline_core.errors import TableError, first_line
from hourline_core.runtime.scratch_folder import scratch_folder

_MEMORY = "512MB"
"""The memory of DuckDB. A refresh must leave memory for the layers."""
_THREADS = 1
"""Each one needs a part of the memory. With two, rows with much text do not fit."""
ROWS_AT_ONCE = 12 * 8192
"""The number of rows that are held as Arrow columns at once."""


@contextmanager
def working_folder(workspace: Path) -> Iterator[Path]:
    """A folder for what does not fit in memory. Raises TableError, within the block, too, if files cannot be written
    there, or if a database needs more memory and space.
    """
    try:
        with scratch_folder(workspace, "sorted_lookups") as folder:
            yield folder
    except (OSError, duckdb.IOException, duckdb.OutOfMemoryException) as error:
        raise TableError(
            f"the rows of the lookup cannot be sorted with {_MEMORY} of memory and the space in {workspace / 'run'} "
            f"({first_line(error)}): declare fewer columns, or give that folder more space"
        ) from error


@contextmanager
def limited_database(folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB with times in UTC. Beyond its memory, it works in ``folder``."""
    settings: dict[str, str | bool | int | float | list[str]] = {"memory_limit": _MEMORY, "threads": _THREADS}
    with duckdb.connect(config={**settings, "temp_directory": str(folder / "spilled")}) as database:
        database.execute("SET TimeZone = 'UTC'")
        yield database


def scan(dataset: ds.Dataset, columns: Sequence[str]) -> ds.Scanner:
    """Scans ``columns`` in the order of the rows. By default, Arrow reads ahead, and takes several times the memory."""
    return dataset.scanner(
        columns=list(columns),
        batch_size=ROWS_AT_ONCE,
        batch_readahead=1,
        fragment_readahead=1,
        use_threads=False,
        fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=False),
    )


def map_rows(schema: pa.Schema, parts: Iterable[pa.Table], folder: Path) -> pa.Table:
    """The rows of ``parts`` in a file that is mapped into memory, so that the system can take its pages back. The
    file is in ``folder``. Once that is deleted, it ends with the table.
    """
    path = str(folder / "rows.arrow")
    with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for part in parts:
            writer.write_table(part)
    return pa.ipc.open_file(pa.memory_map(path)).read_all()
