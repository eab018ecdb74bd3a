"""CSV: each row becomes a JSON object with the header's names, in which every cell is a text or null.

What a cell means is told by the declared type of its field, not by the file: see ``TypedRow``. So this form stays the
same when a declaration changes.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from hourline_core.errors import UsageError
from hourline_core.formats.files.csv_cells import Row, has_mark, read_cells
from hourline_core.formats.files.data_file import DataFile
from hourline_core.formats.files.json_values import quote
from hourline_core.formats.files.text_encoding import refuse_mark


class CsvRows:
    """The rows below the header, as JSON objects of texts and nulls. Cells are not changed: 1.10 stays 1.10.

    An empty cell without quotes is null. A cell that equals ``null_text``, with or without quotes, is null too. All
    other cells are texts.

    The constructor reads the whole file, so mistakes are found before anything is sent. Raises UsageError, with the
    line, for a row with more or fewer cells than the header, two columns with the same name, a column name between
    blanks, columns that are not separated by commas, a file that cannot be read to its end, and what ``read_cells``
    refuses.
    """

    def __init__(self, file: DataFile, null_text: str | None = None) -> None:
        self._file = file
        self._null_text = null_text
        self.columns = read_header(file)
        self.total = sum(1 for _ in read_rows(file, self.columns))

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        template = "{" + ",".join(quote(name).replace("%", "%%") + ":%s" for name in self.columns) + "}"
        null_text = self._null_text
        for line, cells in read_rows(self._file, self.columns):
            values = tuple("null" if cell is None or cell == null_text else quote(cell) for cell in cells)
            # Bytes that are no UTF-8 are passed on unchanged: the speed layer rejects them.
            yield line, (template % values).encode("utf-8", "surrogateescape")


def read_header(file: DataFile) -> list[str]:
    """The names of the columns. Raises UsageError as ``CsvRows`` does."""
    with file.open() as stream:
        line, cells = next(read_cells(stream, file), (0, []))
    if not cells:
        raise UsageError(f"{file} has no header: its first line must name its columns")
    names = [cell or "" for cell in cells]
    if len(names) == 1 and (mark := next(filter(names[0].__contains__, ";\t|"), None)):
        raise UsageError(
            f"{file}: got {mark!r} between the columns of its header, allowed is a comma; "
            "write the file with commas, and with a point in numbers"
        )
    if blank := next((name for name in names if name != name.strip()), None):
        raise UsageError(
            f"{file}, line {line}: got the column {quote(blank)}, allowed is a name without blanks around "
            "it; remove them from the line, and from the cells below"
        )
    if twice := sorted({name for name in names if names.count(name) > 1}):
        what = f"column '{twice[0]}'" if twice[0] else "column without a name"
        raise UsageError(f"{file} has more than one {what}; rename one in its first line")
    return names


def read_rows(file: DataFile, columns: Sequence[str]) -> Iterator[Row]:
    """The rows below the header, which has ``columns``. Raises UsageError as ``CsvRows`` does."""
    with file.open() as stream:
        for line, cells in islice(read_cells(stream, file), 1, None):
            if len(cells) != len(columns):
                if has_mark(",".join(cell or "" for cell in cells)):
                    raise refuse_mark(file, line)
                raise UsageError(
                    f"{file}, line {line}: got {len(cells)} cells, "
                    f"but the header names {len(columns)} columns; fix or remove the line"
                )
            yield line, cells
