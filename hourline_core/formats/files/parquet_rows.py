"""Parquet: each row becomes a JSON object with the columns' names."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import MappingProxyType

import pyarrow as pa
import pyarrow.parquet as pq

from hourline_core.errors import UsageError, first_line
from hourline_core.formats.files.arrow_json import has_json_form, to_json
from hourline_core.formats.files.data_file import DataFile
from hourline_core.formats.files.json_values import quote

_ROWS_AT_ONCE = 2000


class ParquetRows:
    """The rows of a file, as JSON. See ``to_json`` for the form of each type. ``constants`` are JSON texts of columns
    that all rows have, and the file has not.

    Raises UsageError when the file is no valid Parquet, two columns have the same name, or a column has a type without
    a JSON form.
    """

    def __init__(self, file: DataFile, constants: Mapping[str, str] = MappingProxyType({})) -> None:
        self._file, self._constants = file, constants
        with self._parquet() as parquet:
            self.total: int = parquet.metadata.num_rows
            schema = parquet.schema_arrow
        self.columns: list[str] = [*schema.names, *constants]
        if twice := sorted({name for name in self.columns if self.columns.count(name) > 1}):
            raise UsageError(f"{file} has more than one column '{twice[0]}'; rename one")
        for field in schema:
            if not has_json_form(field.type):
                raise UsageError(
                    f"{file}: the column '{field.name}' is of type {field.type}, which has no JSON form; "
                    "remove it from the file"
                )

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        values = [
            self._constants[name].replace("%", "%%") if name in self._constants else "%s" for name in self.columns
        ]
        names = [quote(name).replace("%", "%%") for name in self.columns]
        template = "{" + ",".join(map("{}:{}".format, names, values)) + "}"
        row = 0
        with self._parquet() as parquet:
            for batch in parquet.iter_batches(batch_size=_ROWS_AT_ONCE):
                for row, cells in enumerate(zip(*map(to_json, batch.columns), strict=True), start=row + 1):  # noqa: B020 - it counts on
                    yield row, (template % cells).encode("utf-8", "surrogateescape")

    @contextmanager
    def _parquet(self) -> Iterator[pq.ParquetFile]:
        with ExitStack() as stack:
            stream = stack.enter_context(self._file.open())
            if self._file.packed:  # Parquet is read from its end, which a packed stream does not allow
                unpacked = stack.enter_context(tempfile.TemporaryFile())
                shutil.copyfileobj(stream, unpacked)
                stream = unpacked
            try:
                yield stack.enter_context(pq.ParquetFile(stream))
            except (pa.ArrowInvalid, OSError) as error:
                raise UsageError(f"{self._file} is not a valid Parquet file: {first_line(error)}") from None
