"""The cells of a row of CSV, as RFC 4180 has them: quotes around a cell, a quote within doubled.

Readers guess where a text is no such row. So Arrow's only gets texts that this grammar takes, and guesses nothing.
"""

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from hourline_core.model.csv_format import MARK

_QUOTED = '"[^"]*(?:""[^"]*)*"'
_QUOTED_CELL = re.compile('"[^"]*+(?:""[^"]*+)*+"')
_UNFIT = re.compile(r'["\r\n]')
_LINE_ENDS = "\r\n"


class RowGrammar:
    """Rows with a cell for each of ``columns``, and ``delimiter`` between them."""

    def __init__(self, columns: Sequence[str], delimiter: str) -> None:
        self._columns, self._delimiter = list(columns), delimiter
        between = re.escape(delimiter)
        unquoted = rf'(?:[^"\r\n{between}{MARK}][^"\r\n{between}]*)?'
        cell = f"(?:{_QUOTED}|{unquoted})"
        self._row = rf"\A(?:{cell}{between})*{cell}\z"

    def are_rows(self, texts: pa.Array) -> pa.Array:
        """Whether each of ``texts`` (string) is a row. Null, if it is null."""
        are_rows = pc.match_substring_regex(texts, self._row)
        between = pc.count_substring(pc.replace_substring_regex(texts, _QUOTED, ""), self._delimiter)
        return pc.and_(are_rows, pc.equal(between, len(self._columns) - 1))

    def cells(self, rows: pa.Array, columns: Sequence[str]) -> dict[str, pa.Array]:
        """The cells of each of ``rows`` (string), which are rows, in some of the columns. An empty cell without quotes
        is null, and one in quotes is the empty text.
        """
        if not len(rows) or not columns:
            return {name: pa.array([], pa.string()) for name in columns}
        # The empty text ends the last row, which may be empty.
        ended = pa.concat_arrays([rows, pa.array([""])])
        whole = pa.ListArray.from_arrays(pa.array([0, len(ended)], pa.int32()), ended)
        data = pc.binary_join(whole, "\n")[0].as_buffer()
        table = csv.read_csv(
            pa.BufferReader(data),
            csv.ReadOptions(column_names=self._columns, use_threads=False, block_size=len(data) + 1),
            csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True, ignore_empty_lines=False),
            csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()),
                include_columns=columns,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        return {name: table[name].combine_chunks() for name in columns}

    def explain(self, text: str) -> str:
        """Why ``text`` is no row: its first fault. Bytes are counted from 0."""
        place = 0
        for name in self._columns:
            if place > len(text):
                return f"got {self._columns.index(name)} of {len(self._columns)} cells: column '{name}' has none"
            end, fault = self._end_of_cell(text, place)
            if fault:
                return f"column '{name}': got {fault}, at byte {_bytes(text, end)}"
            place = end + 1
        more = f"another one is behind column '{self._columns[-1]}', at byte {_bytes(text, place)}"
        return f"got more than {len(self._columns)} cells: {more}"

    def _end_of_cell(self, text: str, place: int) -> tuple[int, str]:
        """The end of the cell that begins at ``place``, or the place of a fault in it, and what is wrong."""
        if text.startswith(MARK, place):
            return place, "a byte order mark"
        if not text.startswith('"', place):
            end = text.find(self._delimiter, place)
            end = len(text) if end < 0 else end
            if unfit := _UNFIT.search(text, place, end):
                what = "a line end" if unfit[0] in _LINE_ENDS else "a quote"
                return unfit.start(), f"{what} in a cell without quotes around it"
            return end, ""
        quoted = _QUOTED_CELL.match(text, place)
        if quoted is None:
            return place, "a quote that is not closed"
        if quoted.end() < len(text) and text[quoted.end()] != self._delimiter:
            return quoted.end(), "text behind the quote that closes the cell"
        return quoted.end(), ""


def _bytes(text: str, place: int) -> int:
    """The number of bytes before ``place``."""
    return len(text[:place].encode())
