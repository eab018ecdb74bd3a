"""A CSV file of a lookup is read by the rules of imported ones: no cell is guessed."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.errors import TableError
from hourline_core.lookups import read_csv as reading
from hourline_core.lookups.read_table import read_table
from hourline_core.model.lookup import Lookup

MOMENT = datetime(2024, 3, 1, 10, tzinfo=UTC)


def declare(kind: str = "string", **settings: Any) -> Lookup:
    columns = {"code": "string", "value": {"type": kind, "column": "v"}}
    return Lookup.model_validate({"name": "x", "table": "x.csv", "key": "code", "columns": columns, **settings})


def read(folder: Path, text: str | bytes, lookup: Lookup) -> list[Any]:
    """The values of the second column."""
    (folder / "x.csv").write_bytes(text.encode() if isinstance(text, str) else text)
    values: list[Any] = pa.concat_tables(read_table(lookup, folder, {}))["v"].to_pylist()
    return values


@pytest.mark.parametrize(
    ("kind", "cell", "value"),
    [
        ("int", "-7", -7),
        ("long", "9223372036854775807", 2**63 - 1),
        ("double", "1.5e3", 1500.0),
        ("float", "0.5", 0.5),
        ("boolean", "TRUE", True),
        ("boolean", "False", False),
        ("decimal(5,2)", "-123.45", Decimal("-123.45")),
        ("date", "2024-02-29", date(2024, 2, 29)),
        ("timestamp", "2024-03-01T12:00:00.000000+02:00", MOMENT),
        ("timestamp", "2024-03-01 10:00Z", MOMENT),
        ("string", " a ", " a "),
        ("string", '"a ""b"", c"', 'a "b", c'),
        ("string", '""', ""),
        ("string", "", None),
        ("int", "NA", None),
    ],
)
def test_a_cell_is_a_value_of_the_declared_type(kind: str, cell: str, value: Any, tmp_path: Path) -> None:
    assert read(tmp_path, f"code,v\na,{cell}\n", declare(kind, nulls=["NA"])) == [value]


@pytest.mark.parametrize(
    ("kind", "cells"),
    [
        ("int", [" 7", "7 ", "+7", "0x1F", "1e3", "7.0", "07", "2147483648", "NA"]),
        ("long", ["9223372036854775808", "1_000"]),
        ("double", ["1e400", "inf", "NaN", " 1.5", "1.", ".5"]),
        ("float", ["1e39"]),
        ("boolean", ["1", "yes", "t"]),
        ("decimal(5,2)", ["1.255", "1234.5", "1e2"]),
        ("date", ["2024-02-30", "20240201", "0000-01-01", "2024-02-01T00:00"]),
        ("timestamp", ["2024-03-01", "2024-03-01T10:00", "2024-03-01T10:00:00.1234567Z", "2024-03-01T25:00Z"]),
    ],
)
def test_a_cell_of_another_form_is_refused_with_its_line(kind: str, cells: list[str], tmp_path: Path) -> None:
    for cell in cells:
        with pytest.raises(TableError) as refused:
            read(tmp_path, f'code,v\n"a\nb",\nc,{cell}\n', declare(kind))
        told = f"x.csv, line 4: got '{cell}' in the column 'v', allowed is a value of type {kind}, "
        assert str(refused.value).startswith(told)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("code,v\na,b,c\n", "line 2: got 3 cells, but the header names 2 columns"),
        ("code,v,v\na,b,c\n", "more than one column 'v'"),
        ("code;v\na;b\n", "got ';' between the columns"),
        ('code,v\na,"b\n', "a quote that is not closed"),
        ("code\na\n", "x.csv has no column 'v'"),
        ("", "is empty"),
        (b"code,v\na,\xff\n", r"line 2: got '\udcff' in the column 'v'"),
    ],
)
def test_a_file_that_an_import_refuses_is_refused(text: str | bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(TableError) as refused:
        read(tmp_path, text, declare())
    assert words in str(refused.value)


def test_rows_come_from_all_files_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_CHUNK", 2)
    for number in range(2):
        lines = "".join(f"{row},{10 * number + row}\n" for row in range(3))
        (tmp_path / f"x{number}.csv").write_text(f"code,v\n{lines}")
    found = pa.concat_tables(read_table(declare("int", table="x*.csv"), tmp_path, {}))
    assert found["v"].to_pylist() == [0, 1, 2, 10, 11, 12]


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53))
def test_a_number_is_read_as_python_reads_it(number: float) -> None:
    column = declare("double").columns["value"]
    (found,) = reading._convert(declare("double"), column, "v", [repr(number)], [2]).to_pylist()
    assert found == float(number)
    assert math.copysign(1, found) == math.copysign(1, number)
