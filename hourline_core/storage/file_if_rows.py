"""A new data file of a task, which may have no rows for it."""

from collections.abc import Mapping

import pyarrow as pa

from hourline_core.storage.data_files import with_schema
from hourline_core.storage.new_files import NewFile, NewFileWriter


class FileIfRows:
    """A new data file of the table of the kind ``kind`` at ``uri``, with ``schema``. It is made with the first rows. An
    empty ``uri`` is that of no table: nothing is written.
    """

    def __init__(self, uri: str, storage_options: Mapping[str, str], kind: str, schema: pa.Schema) -> None:
        self._writer: NewFileWriter | None = None
        self._place = (uri, storage_options, kind)
        self._schema = schema

    def write(self, rows: pa.Table) -> None:
        """Append ``rows``. Columns of the file that they lack are null."""
        if not self._place[0]:
            return
        rows = with_schema(rows, self._schema)
        if self._writer is None:
            self._writer = NewFileWriter(*self._place, sample=rows)
        self._writer.write(rows)

    def close(self) -> list[NewFile]:
        """The file. Empty: there is none."""
        return [] if self._writer is None else [self._writer.close()]
