"""What a replay reads of a CSV file: every cell as a text or null, and which files are refused as a whole."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.formats.files import csv_cells
from tests.support.data_files import TEXT, Pack, as_csv, packings, plain, records, refusal, repeatable, rows

MARK = "\ufeff"
CELL = (
    st.none() | TEXT.filter(lambda text: not text.startswith(MARK)) | st.sampled_from(["", '"', '""', ",", "\r", "\n"])
)


@packings
@repeatable
@given(cells=st.lists(st.lists(TEXT.map(lambda text: "x" + text), min_size=2, max_size=2), min_size=1))
def test_csv_text_comes_back_whatever_is_in_it(tmp_path: Path, pack: Pack, cells: list[list[str]]) -> None:
    assert rows(pack(tmp_path / "a.csv", as_csv(["100%", 'b "q"'], cells))) == [
        {"100%": a, 'b "q"': b} for a, b in cells
    ]


def test_bytes_that_are_no_utf8_are_passed_on(tmp_path: Path) -> None:
    read = records(plain(tmp_path / "a.csv", b"a,b\nx,caf\xe9\n"))
    assert read[0].payload == b'{"a":"x","b":"caf\xe9"}'


def test_csv_mistakes_are_named_with_their_line_before_anything_is_read(tmp_path: Path) -> None:
    assert "got ';' between the columns" in refusal(plain(tmp_path / "s.csv", b"a;b\n1,5;2\n"))
    assert r"got '\t' between the columns" in refusal(plain(tmp_path / "t.csv", b"a\tb\n1\t2\n"))
    assert "line 3: got 1 cells, but the header names 2" in refusal(plain(tmp_path / "a.csv", b"a,b\n1,2\n3\n4,5\n"))
    assert "more than one column 'a'" in refusal(plain(tmp_path / "b.csv", b"a,a\n1,2\n"))
    assert "a quote that is not closed" in refusal(plain(tmp_path / "c.csv", b'a,b\n1,"2\n3,4\n'))
    assert "no header" in refusal(plain(tmp_path / "d.csv", b"\n\n"))


@st.composite
def tables(draw: st.DrawFn) -> list[list[str | None]]:
    width = draw(st.integers(2, 5))
    return draw(st.lists(st.lists(CELL, min_size=width, max_size=width), min_size=1, max_size=8))


@packings
@repeatable
@given(table=tables(), quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC]))
def test_what_pythons_writer_wrote_is_read_cell_by_cell(
    tmp_path: Path, pack: Pack, table: list[list[str | None]], quoting: int
) -> None:
    text = io.StringIO(newline="")
    header = [f"c{number}" for number in range(len(table[0]))]
    writer = csv.writer(text, quoting=quoting)  # type: ignore[arg-type] # one of its constants
    writer.writerows([header, *table])
    # With quotes around everything, nothing is null. With quotes where they must be, an empty cell is.
    nothing = None if quoting == csv.QUOTE_MINIMAL else ""
    expected = [dict(zip(header, (cell or nothing for cell in row), strict=True)) for row in table]
    assert rows(pack(tmp_path / "a.csv", text.getvalue().encode())) == expected


@repeatable
@given(table=tables(), end=st.sampled_from(["\n", "\r\n", "\r"]), last=st.booleans())
def test_null_and_the_empty_text_are_told_apart_by_the_quotes(
    tmp_path: Path, table: list[list[str | None]], end: str, last: bool
) -> None:
    header = [f"c{number}" for number in range(len(table[0]))]
    lines = [",".join(header), *(",".join(map(quoted, row)) for row in table)]
    content = end.join(lines) + (end if last else "")
    read = rows(plain(tmp_path / "a.csv", content.encode()))
    assert read == [dict(zip(header, row, strict=True)) for row in table]


def quoted(cell: str | None) -> str:
    return "" if cell is None else '"' + cell.replace('"', '""') + '"'


def test_every_cell_is_a_text_as_it_is_written(tmp_path: Path) -> None:
    cells = ["1", "1.10", "007", "+1", "TRUE", " 1", "n/a", "NA", "NaN", "NULL", "1e999", "2013-01-05T14:00:00Z"]
    content = "v,w\n" + "".join(f"{cell},\n" for cell in cells)
    assert rows(plain(tmp_path / "a.csv", content.encode())) == [{"v": cell, "w": None} for cell in cells]


def test_the_null_text_is_null_with_and_without_quotes(tmp_path: Path) -> None:
    content = b'a,b,c,d\nNA,"NA",na,""\n'
    file = plain(tmp_path / "a.csv", content)
    assert rows(file) == [{"a": "NA", "b": "NA", "c": "na", "d": ""}]
    assert rows(file, null_text="NA") == [{"a": None, "b": None, "c": "na", "d": ""}]
    assert rows(file, null_text="") == [{"a": "NA", "b": "NA", "c": "na", "d": None}]


def test_a_row_has_the_number_of_its_first_line_and_blank_lines_are_no_rows(tmp_path: Path) -> None:
    read = records(plain(tmp_path / "a.csv", b'\na,b\n\n"1\n\n""2",x\r\n3,4\n\n'))
    assert [(record.line, record.payload) for record in read] == [
        (4, b'{"a":"1\\n\\n\\"2","b":"x"}'),
        (7, b'{"a":"3","b":"4"}'),
    ]
    assert rows(plain(tmp_path / "b.csv", b'a\n\n""\nx\n')) == [{"a": ""}, {"a": "x"}]


@pytest.mark.parametrize(
    ("content", "line"),
    [(b'a,b\n1,5" pipe\n', 2), (b'a,b\n1, "x"\n', 2), (b'a,b\n"1"x,2\n', 2), (b'a,b\n"1\n",2\n"x"y\n",2\n', 4)],
)
def test_a_quote_within_a_cell_is_refused_with_its_line(tmp_path: Path, content: bytes, line: int) -> None:
    assert f"line {line}: got a quote within a cell" in refusal(plain(tmp_path / "a.csv", content))


def test_a_quote_that_is_not_closed_is_refused_before_the_file_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_cells, "_LONGEST_ROW", 1000)
    file = plain(tmp_path / "a.csv", b'a,b\n1,"2\n' + b"3,4\n" * 1000 + b'"')
    assert "line 2: got a quote that is not closed" in refusal(file)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("a,b\n1,2\n\ufeffa,b\n3,4\n", 3),
        ('a,b\n1,2\n\ufeff"a","b"\n', 3),
        ('a,b\n1,2\n\ufeff"a\n",b\n', 3),
        ("a,b\n1,\ufeff2\n", 2),
        ("a,b\n1,2\ufeffa,b\n3,4\n", 2),
        ('a,b\n1,"2"\ufeff"a","b"\n3,4\n', 2),
        ("\ufeff\ufeffa,b\n1,2\n", 1),
    ],
)
def test_a_byte_order_mark_where_files_were_joined_is_refused_with_its_line(
    tmp_path: Path, content: str, line: int
) -> None:
    assert f"line {line}: got a byte order mark" in refusal(plain(tmp_path / "a.csv", content.encode()))


def test_a_byte_order_mark_at_the_start_or_in_quotes_is_none_of_a_joined_file(tmp_path: Path) -> None:
    content = '\ufeff"a",b\n"\ufeffx",y\ufeffz\n'
    assert rows(plain(tmp_path / "a.csv", content.encode())) == [{"a": "\ufeffx", "b": "y\ufeffz"}]


def test_the_names_of_columns_are_as_they_are_written(tmp_path: Path) -> None:
    assert 'line 1: got the column " b", allowed is a name without blanks' in refusal(
        plain(tmp_path / "a.csv", b"a, b\n1,2\n")
    )
    assert "more than one column without a name" in refusal(plain(tmp_path / "b.csv", b"a,,\n1,2,3\n"))
    assert rows(plain(tmp_path / "c.csv", b",a,A\n0,1,2\n")) == [{"": "0", "a": "1", "A": "2"}]


def test_cells_that_are_numbers_are_ordered_as_numbers_and_choose_a_partition(tmp_path: Path) -> None:
    file = plain(tmp_path / "a.csv", b"n,p,k\n10,0,1.10\n9,1,007\n007,x,\n,2,a\n1e400,3,b\n" + b"9" * 5000 + b",4,c\n")
    read = records(file, order_by="n", partition="p", key="k")
    assert [(record.line, record.partition, record.key) for record in read] == [
        (3, 1, b"007"),
        (2, 0, b"1.10"),
        (6, 3, b"b"),
        (4, None, None),
        (7, 4, b"c"),
        (5, 2, b"a"),
    ]
