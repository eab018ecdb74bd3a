"""Each of many damaged rows of CSV is taken as Python reads it, or refused with the column and byte at fault."""

import csv
import io
import json
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from hourline_core.formats.csv.decoder import CsvDecoder
from hourline_core.model.csv_format import CsvFormat
from hourline_core.model.fields import Field
from tests.support.json_oracle import SCALARS, Number
from tests.support.malformed import cut, end_of_text, flipped, with_no_utf8

TYPES = {"name": "string", "n": "int", "price": "decimal(4,1)", "day": "date", "note": "string", "paid": "boolean"}
NAMES = list(TYPES)
ROWS = [
    ["ann", "10", "1.5", "2013-01-05", "x", "true"],
    ['"\u00e9, ""b"""', '"-7"', "", '"2013-01-05"', '"a\n\r\nb"', "false"],
    ["", "2147483647", "999.9", "", "\0\U0001f600 '", '"True"'],
]
"""The cells of rows, as they are written."""
LINE_END = "a line end in a cell without quotes around it"
QUOTE = "a quote in a cell without quotes around it"
BEHIND = "text behind the quote that closes the cell"
BROKEN_CELLS = {
    "a\rb": (LINE_END, 1),
    "\nb": (LINE_END, 0),
    "\u00e9\r\n": (LINE_END, 2),
    'a"b': (QUOTE, 1),
    ' "b"': (QUOTE, 1),
    '\u20ac""': (QUOTE, 3),
    '"a"b': (BEHIND, 3),
    '"\u00e9" ': (BEHIND, 4),
    '""\0': (BEHIND, 2),
    '"a"\n"b"': (BEHIND, 3),
    "\ufeffa": ("a byte order mark", 0),
    '\ufeff"a"': ("a byte order mark", 0),
    '"a': ("a quote that is not closed", 0),
    '"a""': ("a quote that is not closed", 0),
    '"': ("a quote that is not closed", 0),
}
"""Cells that are none, with what is wrong, and its byte in the cell."""
OTHER_CELLS = {
    "n": ("x", "1_0", "+1", " 1", "2147483648", "5.0", "0x1", "true", "\0", "\u0661"),
    "price": ("x", "1.25", "1000", "1e1", "1.", "-", "$5"),
    "day": ("2013-02-29", "5.1.2013", "20130105", "0", "2013-01-05T00:00:00Z"),
    "paid": ("yes", "0", "tRUE", "null"),
}
"""Cells that their types do not take."""


def broken() -> Iterator[tuple[bytes, str]]:
    """Rows that are refused, and how the reasons begin."""
    for cells in ROWS:
        for place, name in enumerate(NAMES):
            before = "".join(f"{cell}," for cell in cells[:place])
            for cell, (what, byte) in BROKEN_CELLS.items():
                # What is behind an open quote has none that would close it.
                behind = ["x"] * (len(NAMES) - place - 1) if "not closed" in what else cells[place + 1 :]
                row = ",".join([before + cell, *behind])
                if place < len(NAMES) - 1 or not cell.endswith(("\r", "\n")):
                    yield row.encode(), f"column '{name}': got {what}, at byte {len(before.encode()) + byte}"
            for cell in OTHER_CELLS.get(name, ()):
                got = cell if cell in ("2147483648", "5.0") else json.dumps(cell, ensure_ascii=False)
                yield (
                    ",".join([before + cell, *cells[place + 1 :]]).encode(),
                    f"field '{name}': got {got}, want {TYPES[name]}",
                )
            if place:
                reason = f"got {place} of {len(NAMES)} cells: column '{name}' has none"
                if before != ",":
                    yield before.removesuffix(",").encode(), reason
                yield f"{before.removesuffix(',')}\r\n".encode(), reason
        row = ",".join(cells)
        for more in (",", ",x", ',"a,b"', ",,\n"):
            end = len(row.encode()) + 1
            reason = f"got more than {len(NAMES)} cells: another one is behind column 'paid', at byte {end}"
            yield (row + more).encode(), reason
        for place, written in with_no_utf8(row.encode()):
            yield written, f"invalid UTF-8 at byte {place}"


def cells_of(written: bytes) -> list[str] | None:
    """The cells of a row as Python reads it. None: it is none, or it has what Python guesses about."""
    text = re.sub(r"(?:\r?\n|\r)\Z", "", written.decode())
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error:
        return None
    unquoted = re.sub(r'(?:(?<=,)|\A)"(?:[^"]|"")*"(?=,|\Z)', "", text)
    is_row = len(rows) == 1 and len(rows[0]) == len(NAMES) and not re.search('"|(?:\\A|,)\ufeff', unquoted)
    return rows[0] if is_row else None


def value_of(name: str, cell: str) -> Any:
    """What a cell is in its type. Raises ValueError, ArithmeticError or AssertionError if it is refused."""
    if not cell or name in ("name", "note"):
        return cell or None
    if name == "n":
        assert re.fullmatch("-?(?:0|[1-9][0-9]*)", cell)
        return SCALARS["int"](Number(cell))
    if name == "paid":
        return {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}[cell]
    return SCALARS[TYPES[name]](cell)


def expected(written: bytes) -> dict[str, Any] | str:
    """The values of a row, or how the reason begins."""
    if (end := end_of_text(written)) < len(written):
        return f"invalid UTF-8 at byte {end}"
    cells = cells_of(written)
    if cells is None:
        return ""
    values = {}
    for name, cell in zip(NAMES, cells, strict=True):
        try:
            values[name] = value_of(name, cell)
        except (ValueError, ArithmeticError, AssertionError, KeyError):
            return f"field '{name}': got "
    return values


def decode(records: list[bytes]) -> list[tuple[dict[str, Any], str | None]]:
    fields = {name: Field(type=kind) for name, kind in TYPES.items()}
    decoded = CsvDecoder(CsvFormat(columns=tuple(NAMES)), fields).decode(pa.array(records, pa.binary()))
    return list(zip(pa.table(decoded.columns).to_pylist(), decoded.reasons.to_pylist(), strict=True))


def test_each_broken_row_is_refused_with_its_fault() -> None:
    cases = list(broken())
    got = decode([written for written, _ in cases])
    for (written, reason), (row, said) in zip(cases, got, strict=True):
        assert (said or "").startswith(reason), (written, said)
        assert said == reason or reason.startswith("field "), (written, said)
        assert set(row.values()) == {None}
        assert isinstance(expected(written), str), written
    assert len(cases) > 600


def test_each_damaged_row_is_taken_as_python_reads_it_or_refused() -> None:
    whole = [",".join(cells).encode() for cells in ROWS]
    damaged = [one for written in whole for one in (written, *cut(written), *flipped(written))]
    refused = taken = 0
    for written, (row, said) in zip(damaged, decode(damaged), strict=True):
        match expected(written):
            case str(reason):
                assert said is not None, written
                assert said.startswith(reason or ("column '", "got ")), (written, said)
                refused += 1
            case values:
                # Python does not tell an empty cell in quotes from one without.
                assert (said, {name: value if value != "" else None for name, value in row.items()}) == (None, values)
                taken += 1
    assert refused > 600
    assert taken > 200
