"""Rows of CSV are decided as a reader by hand decides them, and cells are what they are in an imported file."""

import random
import string
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from docs.generate.text_contract import CELLS
from hourline_core.formats.csv.decoder import CsvDecoder
from hourline_core.formats.files.json_values import quote
from hourline_core.formats.files.typed_row import TypedRow
from hourline_core.formats.json.decoder import JsonDecoder
from hourline_core.model.csv_format import CsvFormat
from hourline_core.model.fields import Field
from tests.support.data_files import plain, repeatable, rows

MARK = "\ufeff"
CHARACTERS = st.sampled_from(["a", "é", ",", ";", '"', "\r", "\n", MARK, " ", "\0", "\t", '""', '","', "NA"])
DELIMITERS = [one for one in map(chr, range(1, 128)) if one not in '"\r\n']
Cells = list[str | None] | None


def read(value: bytes, columns: int, delimiter: str = ",", null_text: str | None = None) -> Cells:  # noqa: PLR0912
    """The cells of a record, character by character. None: it is refused."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    if text.endswith("\r\n"):
        text = text[:-2]
    elif text.endswith(("\r", "\n")):
        text = text[:-1]
    cells: list[str | None] = []
    state, cell = "start", ""
    for character in [*text, delimiter + "end"]:
        is_end = character in (delimiter, delimiter + "end")
        if state == "quoted" and character != '"':
            if character == delimiter + "end":
                return None
            cell += character
        elif state == "quoted":
            state = "after a quote"
        elif state == "after a quote" and character == '"':
            cell, state = cell + '"', "quoted"
        elif is_end:
            is_null = (state == "start" and not cell) or cell == null_text
            cells.append(None if is_null else cell)
            state, cell = "start", ""
        elif state == "after a quote" or character in "\r\n" or (state == "start" and character == MARK):
            return None
        elif character == '"':
            if state != "start":
                return None
            state = "quoted"
        else:
            cell, state = cell + character, "unquoted"
    return cells if len(cells) == columns else None


def decode(values: Sequence[bytes], columns: int, **options: str | None) -> list[Cells]:
    names = list(string.ascii_lowercase[:columns])
    decoder = CsvDecoder(
        CsvFormat.model_validate({"columns": names, **options}), {name: Field(type="string") for name in names}
    )
    decoded = decoder.decode(pa.array(values, pa.binary()))
    found = zip(pa.table(decoded.columns).to_pylist(), decoded.reasons.to_pylist(), strict=True)
    return [None if reason else list(row.values()) for row, reason in found]


@settings(max_examples=300)
@given(
    texts=st.lists(st.lists(CHARACTERS, min_size=1, max_size=9).map("".join), max_size=8),
    columns=st.integers(1, 4),
    delimiter=st.sampled_from(",;\t"),
    null_text=st.sampled_from([None, "", "NA", "a"]),
)
@example(texts=['""', "\n", '"', '"\n'], columns=1, delimiter=",", null_text=None)
def test_each_record_is_decided_as_by_hand(
    texts: list[str], columns: int, delimiter: str, null_text: str | None
) -> None:
    values = [text.encode() for text in texts]
    expected = [read(value, columns, delimiter, null_text) for value in values]
    assert decode(values, columns, delimiter=delimiter, null_text=null_text) == expected


@given(
    table=st.lists(st.lists(st.none() | st.text(), min_size=3, max_size=3), min_size=1),
    delimiter=st.sampled_from(DELIMITERS),
)
def test_what_a_writer_wrote_comes_back(table: list[list[str | None]], delimiter: str) -> None:
    def written(cell: str | None) -> str:
        return "" if cell is None else '"' + cell.replace('"', '""') + '"'

    values = [delimiter.join(map(written, cells)).encode() for cells in table]
    assert decode(values, 3, delimiter=delimiter) == table


@pytest.mark.parametrize("delimiter", DELIMITERS)
def test_each_delimiter_is_only_itself(delimiter: str) -> None:
    others = [one for one in DELIMITERS if one != delimiter]
    rows = [f"{one}{delimiter}{one}{one}".encode() for one in others]
    assert decode(rows, 2, delimiter=delimiter) == [[one, one + one] for one in others]


def test_long_cells_and_many_columns_are_read_as_short_ones() -> None:
    long = "x" * 3_000_000
    assert decode([b"1,2", f'"{long}\n",{long}'.encode(), b'3,"4"'], 2) == [["1", "2"], [f"{long}\n", long], ["3", "4"]]
    names = [f"c{number}" for number in range(3000)]
    decoder = CsvDecoder(CsvFormat(columns=tuple(names)), {"c2999": Field(type="int")})
    row = ",".join(map(str, range(3000))).encode()
    decoded = decoder.decode(pa.array([row, row + b",", row[:-5], b'"' + row]))
    assert decoded.columns["c2999"].to_pylist() == [2999, None, None, None]
    assert decoded.reasons.null_count == 1


def _mutated(row: bytes, random: random.Random) -> bytes:
    place = random.randrange(len(row))
    byte = random.choice([*b'",\r\n;a\xff\xc3', *"\ufeff".encode()])
    match random.choice(["cut", "insert", "replace", "end", "twice"]):
        case "cut":
            return row[:place] + row[place + 1 :]
        case "insert":
            return row[:place] + bytes([byte]) + row[place:]
        case "replace":
            return row[:place] + bytes([byte]) + row[place + 1 :]
        case "end":
            return row[: place + 1]
    return row[:place] + row[place // 2 :]


def test_rows_that_were_broken_are_decided_as_by_hand() -> None:
    chosen = random.Random(1)  # noqa: S311
    good = [b'1,"a ""b"", c",2.5\n', b'"x\ny",,""\r\n', 'é,"😀",\'\n'.encode(), b'a,b,"c"']
    broken = [_mutated(chosen.choice(good), chosen) for _ in range(4000)]
    broken = [value for value in broken if value]
    expected = [read(value, 3) for value in broken]
    assert len({value for value, cells in zip(broken, expected, strict=True) if cells is None}) > 400
    assert sum(cells is not None for cells in expected) > 400
    assert decode(broken, 3) == expected


SPELLINGS = sorted(
    {row.written for row in CELLS} | {"", '"', "\\", "\\u0031", "\n", "e", "-", "1e5", "null", "[", "0" * 40}
)
PIECES = st.sampled_from([*'0159-+.eE:TZ {}[]"\\n', "é", "2013-01-05", "T14:30:00", "true", "null", "00", "-0"])
FIELDS = [Field(type=row.declared, **row.options) for row in CELLS]
DISTINCT = {str(field): field for field in FIELDS}


def as_imported(field: Field, cells: Sequence[str | None]) -> tuple[list[object], list[str | None]]:
    """What an imported file makes of cells, by way of the JSON of each."""
    typed = TypedRow({"x": field})
    written = [f'{{"x":{"null" if cell is None else quote(cell)}}}'.encode() for cell in cells]
    decoded = JsonDecoder({"x": field}).decode(pa.array([typed(value) for value in written], pa.binary()))
    return decoded.columns["x"].to_pylist(), decoded.reasons.to_pylist()


@pytest.mark.parametrize("field", DISTINCT.values(), ids=DISTINCT)
@given(more=st.lists(st.lists(PIECES, min_size=1, max_size=5).map("".join), max_size=20))
@example(more=SPELLINGS)
@settings(max_examples=20)
def test_a_cell_is_what_it_is_in_an_imported_file(field: Field, more: list[str]) -> None:
    cells = [None, *more, None]
    values, reasons = as_imported(field, cells)
    decoder = CsvDecoder(CsvFormat(columns=("y", "x")), {"x": field})
    rows = ["," if cell is None else ',"' + cell.replace('"', '""') + '"' for cell in cells]
    decoded = decoder.decode(pa.array([row.encode() for row in rows], pa.binary()))
    assert repr(decoded.columns["x"].to_pylist()) == repr(values)
    assert decoded.reasons.to_pylist() == reasons


@repeatable
@given(
    table=st.lists(
        st.sampled_from(['""', "", '"a,""b"""', '"1\n2"', "é", " x", f"a{MARK}", f'"{MARK}"', '"', f"{MARK}a"])
        | st.lists(CHARACTERS, max_size=3).map("".join),
        min_size=2,
        max_size=9,
    )
)
def test_the_rows_of_an_imported_file_have_the_same_cells(tmp_path: Path, table: list[str]) -> None:
    pairs = ["x,y", *map(",".join, pairwise(table))]
    one_line = [text for text in pairs if read(text.encode(), 2) and not text.endswith(("\r", "\n"))]
    file = plain(tmp_path / "a.csv", "\n".join(["a,b", *one_line]).encode())
    assert [list(row.values()) for row in rows(file)] == decode([text.encode() for text in one_line], 2)
