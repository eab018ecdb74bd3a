"""CSV: each row becomes a JSON object with the header's names.

A column has numbers if all of its cells are JSON numbers, booleans if all are true or false, and text otherwise. Values
are not reformatted: 1.10 stays 1.10, and times stay as they are. A cell such as 007 or +1 makes its whole column text.
An empty cell is null. In a column of numbers or booleans, NA, NaN and NULL are null, too.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import IO

from hourline_core.errors import UsageError
from hourline_core.formats.files.arrow_json import quote
from hourline_core.formats.files.data_file import DataFile

_ROWS_AT_ONCE = 2000
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_BOOLEAN = re.compile(r"true|True|TRUE|false|False|FALSE")
_NO_VALUE = frozenset({"", "NA", "N/A", "NaN", "nan", "NULL", "null"})

Row = tuple[int, list[str]]
"""The number of a row's last line, and its cells."""


class CsvRows:
    """The rows below the header, as JSON.

    The constructor reads the whole file to type its columns, so mistakes are found before anything is sent. A cell that
    equals ``null_text`` is null, also in columns of text.

    Raises UsageError, with the line, for cells without a column, an unclosed quote, two columns with the same name,
    columns that are not separated by commas, and a file that cannot be read to its end.
    """

    def __init__(self, file: DataFile, null_text: str | None = None) -> None:
        self._file = file
        self._null = {"", null_text}
        self.columns = self._header()
        self.total = 0
        possible: list[list[re.Pattern[str]]] = [[_NUMBER, _BOOLEAN] for _ in self.columns]
        for rows in self._batches():
            self.total += len(rows)
            for patterns, cells in zip(possible, zip(*(cells for _, cells in rows), strict=True), strict=True):
                if patterns:
                    values = set(cells) - _NO_VALUE - self._null
                    patterns[:] = [pattern for pattern in patterns if all(map(pattern.fullmatch, values))]
        self._encoders = [self._encoder(patterns) for patterns in possible]

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        template = "{" + ",".join(quote(name).replace("%", "%%") + ":%s" for name in self.columns) + "}"
        for rows in self._batches():
            by_column = zip(*(cells for _, cells in rows), strict=True)
            encoded = [list(map(encode, cells)) for encode, cells in zip(self._encoders, by_column, strict=True)]
            for (line, _), cells in zip(rows, zip(*encoded, strict=True), strict=True):
                # Bytes that are no UTF-8 are sent unchanged: the speed layer rejects them.
                yield line, (template % cells).encode("utf-8", "surrogateescape")

    def _encoder(self, patterns: list[re.Pattern[str]]) -> Callable[[str], str]:
        if not patterns:
            return lambda cell: "null" if cell in self._null else quote(cell)
        nothing = _NO_VALUE | self._null
        if patterns == [_BOOLEAN]:
            return lambda cell: "null" if cell in nothing else cell.lower()
        return lambda cell: "null" if cell in nothing else cell

    def _header(self) -> list[str]:
        with self._file.open() as stream:
            header = next(_rows(stream, self._file), None)
        if header is None:
            raise UsageError(f"{self._file} has no header: its first line must name its columns")
        names = header[1]
        if len(names) == 1 and (mark := next(filter(names[0].__contains__, ";\t|"), None)):
            raise UsageError(
                f"{self._file}: got {mark!r} between the columns of its header, allowed is a comma; "
                "write the file with commas, and with a point in numbers"
            )
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise UsageError(f"{self._file} has more than one column '{twice[0]}'; rename one in its first line")
        return names

    def _batches(self) -> Iterator[list[Row]]:
        with self._file.open() as stream:
            rows = islice(_rows(stream, self._file), 1, None)
            while batch := list(islice(rows, _ROWS_AT_ONCE)):
                for line, cells in batch:
                    if len(cells) != len(self.columns):
                        raise UsageError(
                            f"{self._file}, line {line}: got {len(cells)} cells, "
                            f"but the header names {len(self.columns)} columns; fix or remove the line"
                        )
                yield batch


def _rows(stream: IO[bytes], file: DataFile) -> Iterator[Row]:
    reader = csv.reader(io.TextIOWrapper(stream, "utf-8-sig", "surrogateescape", newline=""), strict=True)
    try:
        for cells in reader:
            if cells:  # a blank line is no row
                yield reader.line_num, cells
    except csv.Error as error:
        raise UsageError(
            f"{file}, line {reader.line_num}: {error}; "
            "look for a quote that is not closed or not doubled, at or above that line"
        ) from None
