"""The declared type of a field decides what a cell of a CSV file is; a cell that does not fit stays a text."""

import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.formats.files.typed_row import TypedRow
from hourline_core.model import Field
from tests.support.data_files import TEXT, as_csv, plain, records, repeatable, rows

CELLS = ["1", "-2.50", "1e3", "007", "+1", " 1", "1.", ".5", "1_0", "١", "NaN", "n/a", "", "TRUE", "False", "yes"]
CELLS += ["{}", '{"a": 1.10}', "[1, 2]", '"x"', "null", "{", "[1,]", "2013-01-05", "2013-01-05T14:00:00Z"]
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
NUMBERS = {"1", "-2.50", "1e3"}
VALUES = {*NUMBERS, " 1", "{}", '{"a": 1.10}', "[1, 2]", '"x"', "null"}


def typed(cell: str | None, **field: str) -> str:
    row = TypedRow({"v": Field.model_validate(field)})(_encode({"v": cell, "w": cell}).encode())
    start, end = b'{"v":', f',"w":{_encode(cell)}}}'.encode()
    assert row.startswith(start)
    assert row.endswith(end), "a column that is not declared stays a text"
    return row.removeprefix(start).removesuffix(end).decode()


@pytest.mark.parametrize("kind", ["string", "date", "timestamp", "decimal(9,2)"])
def test_a_text_a_time_and_a_decimal_are_the_text_of_the_cell(kind: str) -> None:
    assert [json.loads(typed(cell, type=kind)) for cell in CELLS] == CELLS


@pytest.mark.parametrize("kind", ["int", "long", "float", "double"])
def test_a_number_is_written_as_in_the_cell_and_all_else_stays_a_text(kind: str) -> None:
    for cell in CELLS:
        assert typed(cell, type=kind) == (cell if cell in NUMBERS else _encode(cell))


@pytest.mark.parametrize("encoding", ["epoch_seconds", "epoch_milliseconds"])
def test_a_time_that_is_encoded_as_an_epoch_is_a_number(encoding: str) -> None:
    row = TypedRow({"at": Field.model_construct(type="timestamp", encoding=encoding)})
    assert row(b'{"at":"1709287200"}') == b'{"at":1709287200}'
    assert row(b'{"at":"2024-03-01"}') == b'{"at":"2024-03-01"}'


def test_a_number_of_any_length_is_passed_on_to_be_judged_by_the_decoder() -> None:
    for cell in ("9" * 5000, "1e999999999", "-0.0"):
        assert typed(cell, type="double") == cell


def test_a_boolean_has_six_spellings() -> None:
    six = {"true": "true", "True": "true", "TRUE": "true", "false": "false", "False": "false", "FALSE": "false"}
    assert {cell: typed(cell, type="boolean") for cell in six} == six
    for cell in {*CELLS, "tRUE", "1", "t"} - six.keys():
        assert json.loads(typed(cell, type="boolean")) == cell


@pytest.mark.parametrize("kind", ["struct<a: double>", "array<int>", "map<string, int>"])
def test_a_nested_value_is_the_json_of_the_cell(kind: str) -> None:
    for cell in CELLS:
        assert typed(cell, type=kind) == (cell if cell in VALUES else _encode(cell))


def test_null_stays_null_for_every_type() -> None:
    for kind in ("string", "int", "boolean", "array<int>", "decimal(3,1)", "timestamp"):
        assert typed(None, type=kind) == "null"


def test_a_field_is_found_by_its_key_and_a_name_with_another_case_is_another_one() -> None:
    fields = {"n": Field(type="int", key="N r."), "m": Field(type="int")}
    assert TypedRow(fields)(b'{"N r.":"1","n":"2","M":"3","m":"4"}') == b'{"N r.":1,"n":"2","M":"3","m":4}'


def test_bytes_that_are_no_utf8_stay_what_they_are() -> None:
    fields = {"n": Field(type="int"), "a": Field(type="array<string>")}
    row = b'{"n":"1","s":"caf\xe9","a":"[\xe9]"}'
    assert TypedRow(fields)(row) == b'{"n":1,"s":"caf\xe9","a":"[\xe9]"}'
    for other in (b'{"caf\xe9":"1","n":"1"}', b"{", b""):
        assert TypedRow(fields)(other) == other


def test_one_odd_cell_does_not_change_its_column(tmp_path: Path) -> None:
    file = plain(tmp_path / "a.csv", b"n,s,yes\n1,1.10,TRUE\n007,1.1,no\n 3,TRUE,false\nn/a,007,\n5,5,true\n")
    fields = {"n": Field(type="int"), "s": Field(type="string"), "yes": Field(type="boolean")}
    assert [record.payload for record in records(file, fields=fields)] == [
        b'{"n":1,"s":"1.10","yes":true}',
        b'{"n":"007","s":"1.1","yes":"no"}',
        b'{"n":" 3","s":"TRUE","yes":false}',
        b'{"n":"n/a","s":"007","yes":null}',
        b'{"n":5,"s":"5","yes":true}',
    ]


@repeatable
@given(
    table=st.lists(
        st.tuples(TEXT, st.integers(), st.decimals(allow_nan=False, allow_infinity=False, places=3), st.booleans()),
        min_size=1,
    )
)
def test_texts_and_numbers_come_back_exactly_as_declared(
    tmp_path: Path, table: list[tuple[str, int, Decimal, bool]]
) -> None:
    cells = [[text, str(whole), f"{number:f}", str(yes)] for text, whole, number, yes in table]
    fields = {
        "text": Field(type="string"),
        "whole": Field(type="long"),
        "number": Field(type="double"),
        "yes": Field(type="boolean"),
    }
    read = rows(plain(tmp_path / "a.csv", as_csv(list(fields), cells)), fields=fields)
    assert [tuple(row.values()) for row in read] == table
