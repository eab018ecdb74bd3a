"""The rows of CSV text as RFC 4180 defines them: commas between cells, quotes around a cell, a quote within doubled.

Python's own reader cannot tell an empty cell from ``""``, which mean null and the empty text.
"""

import io
import re
from collections.abc import Iterator
from typing import IO

from hourline_core.errors import UsageError
from hourline_core.formats.files.data_file import DataFile
from hourline_core.formats.files.text_encoding import refuse_mark, skip_mark

_QUOTED_CELL = r'"[^"]*+(?:""[^"]*+)*+"'
_CELL = rf'(?:{_QUOTED_CELL}|[^",\r\n]*+)'
_CELLS = re.compile(rf"({_CELL}),")
_ROW = re.compile(rf"(?:{_CELL},)*+")
_OPEN_ROW = re.compile(rf'(?:{_CELL},)*+"[^"]*+(?:""[^"]*+)*+')
_QUOTED_CELLS = re.compile(_QUOTED_CELL)
_MARK = "\ufeff"
_MARK_BEFORE_CELL = re.compile(rf"(?:\A|,){_MARK}")
_LONGEST_ROW = 1 << 24

Row = tuple[int, list[str | None]]
"""The number of a row's first line, and its cells. None is an empty cell, and the empty text is one in quotes."""


def read_cells(stream: IO[bytes], file: DataFile) -> Iterator[Row]:
    """The rows of ``stream``, the header first. A line without any character is no row.

    Lines end with LF, CRLF or CR. Bytes that are no UTF-8 become the surrogates of ``surrogateescape``. Raises
    UsageError, with the line, for a quote that is not closed within 16,777,216 characters, other text beside a quoted
    cell, a quote within an unquoted one, a byte order mark that is not at the start, and UTF-16.
    """
    skip_mark(stream, file)
    lines = enumerate(io.TextIOWrapper(stream, "utf-8", "surrogateescape", newline=""), start=1)
    for number, line in lines:
        if '"' not in line:
            if text := line.rstrip("\r\n"):
                if _MARK in text and _MARK_BEFORE_CELL.search(text):
                    raise refuse_mark(file, number)
                yield number, [cell or None for cell in text.split(",")]
            continue
        text = line
        if line.count('"') % 2:
            text = _join_quoted_lines(number, line, lines, file)
        yield number, _split(text.removesuffix("\n").removesuffix("\r"), file, number)


def _join_quoted_lines(first: int, line: str, lines: Iterator[tuple[int, str]], file: DataFile) -> str:
    """The text of the row that begins on the line ``first``, where a quoted cell goes on behind the line's end."""
    if not _OPEN_ROW.fullmatch(line):
        raise _refuse_quote(line, file, first)
    parts, size = [line], len(line)
    for _, further in lines:
        parts.append(further)
        size += len(further)
        if further.count('"') % 2:
            return "".join(parts)
        if size > _LONGEST_ROW:
            break
    raise UsageError(
        f"{file}, line {first}: got a quote that is not closed, allowed is a cell with a quote at either end; "
        "close it, or double it if it belongs to the text"
    )


def _split(text: str, file: DataFile, line: int) -> list[str | None]:
    row = f"{text},"
    if not _ROW.fullmatch(row):
        raise _refuse_quote(text, file, line)
    if _MARK in row and has_mark(text, anywhere=False):
        raise refuse_mark(file, line)
    return [cell[1:-1].replace('""', '"') if cell.startswith('"') else cell or None for cell in _CELLS.findall(row)]


def has_mark(text: str, *, anywhere: bool = True) -> bool:
    """Whether a byte order mark is before a cell of the row ``text``, or ``anywhere`` outside of quotes."""
    unquoted = _QUOTED_CELLS.sub("", text)
    return _MARK in unquoted if anywhere else _MARK_BEFORE_CELL.search(unquoted) is not None


def _refuse_quote(text: str, file: DataFile, line: int) -> UsageError:
    if has_mark(text):
        return refuse_mark(file, line)
    return UsageError(
        f"{file}, line {line}: got a quote within a cell, "
        'allowed is a quote around the whole cell and doubled within it, as in "a ""b"" c"; write the cell so'
    )
