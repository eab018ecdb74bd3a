"""Works on the rows of a lookup, which may be more than fit in memory. What does not fit is in temporary files."""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from hourline_core.errors import TableError, first_line

_MEMORY = "512MB"
"""The memory of DuckDB. A refresh must leave memory for the layers."""
_THREADS = 1
"""Each one needs a part of the memory. With two, rows with much text do not fit."""
ROWS_AT_ONCE = 12 * 8192
"""The number of rows that are held as Arrow columns at once."""


@contextmanager
def limited_database() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB with times in UTC. Beyond its memory, it works in the system's temporary folder. Within the block, it
    raises TableError if neither is enough.
    """
    with (
        tempfile.TemporaryDirectory(prefix="hourline-lookup-") as folder,
        duckdb.connect(
            config={"memory_limit": _MEMORY, "threads": _THREADS, "temp_directory": str(Path(folder) / "spilled")}
        ) as database,
    ):
        database.execute("SET TimeZone = 'UTC'")
        try:
            yield database
        except duckdb.OutOfMemoryException as error:
            raise TableError(
                f"the rows of the lookup cannot be sorted with {_MEMORY} of memory and the space in {folder} "
                f"({first_line(error)}): declare fewer columns, or set TMPDIR to a folder with space"
            ) from error


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


def map_rows(schema: pa.Schema, parts: Iterable[pa.Table]) -> pa.Table:
    """The rows of ``parts`` in a file that is mapped into memory, so that the system can take its pages back. The file
    has no name any more, and ends with the table.
    """
    with tempfile.NamedTemporaryFile(prefix="hourline-lookup-") as file:
        with pa.ipc.new_file(file, schema) as writer:
            for part in parts:
                writer.write_table(part)
        file.flush()
        return pa.ipc.open_file(pa.memory_map(file.name)).read_all()
