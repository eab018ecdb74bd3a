"""Each row of the reference's tables of CSV and of patterns holds, whatever records are beside it."""

import pickle
from typing import Any

import pyarrow as pa
import pytest

from docs.generate.text_contract import CELLS, CSV_ROWS, TEXT_ROWS, CsvRow, Row, TextRow
from hourline_core.formats.format import Decoder, decoder_of
from hourline_core.model.fields import Field
from hourline_core.model.record_format import RecordFormat

TEXT = Field(type="string")


def decoder(format: dict[str, Any], fields: dict[str, Field]) -> Decoder:
    return decoder_of(RecordFormat.model_validate(format), fields)


def decode(one: Decoder, *records: bytes | None) -> tuple[list[dict[str, Any]], list[str | None]]:
    decoded = one.decode(pa.array(records, pa.binary()))
    for column in decoded.columns.values():
        column.validate(full=True)
    return pa.table(decoded.columns).to_pylist(), decoded.reasons.to_pylist()


def in_quotes(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'


def readers(field: Field) -> dict[str, tuple[Decoder, str]]:
    """By a name, each way to write a cell, or a group, of one field ``x``, with a text around it."""
    csv = decoder({"csv": {"columns": ["y", "x"], "delimiter": ";"}}, {"y": TEXT, "x": field})
    text = decoder({"text": {"pattern": "(?s)(?P<y>[a-z]*);(?P<x>.*)"}}, {"y": TEXT, "x": field})
    return {"csv": (csv, "beside;{0}"), "quoted": (csv, "beside;{1}"), "text": (text, "beside;{0}")}


@pytest.mark.parametrize("row", CELLS, ids=str)
def test_a_row_of_the_table_of_cells_holds(row: Row) -> None:
    for how, (one, around) in readers(Field(type=row.declared, **row.options)).items():
        if how == "csv" and (row.written.startswith(("\ufeff", '"')) or '"' in row.written or ";" in row.written):
            continue
        record = around.format(row.written, in_quotes(row.written)).encode()
        rows, reasons = decode(one, b"good;", record, b"good;")
        assert [(rows[place], reasons[place]) for place in (0, 2)] == [({"y": "good", "x": None}, None)] * 2, how
        if row.taken is None:
            assert rows[1] == {"y": None, "x": None}, how
            assert reasons[1] is not None
            assert reasons[1].startswith(f"field 'x': got {row.got}, want "), how
        else:
            assert (rows[1], reasons[1]) == ({"y": "beside", "x": row.taken}, None), how
            assert str(rows[1]["x"]) == str(row.taken), "also the sign of zero, and the digits of a decimal"


@pytest.mark.parametrize("row", [row for row in CELLS if row.declared != "string"], ids=str)
def test_an_empty_cell_is_null_in_each_type_and_one_in_quotes_is_a_text(row: Row) -> None:
    csv, _ = readers(Field(type=row.declared, **row.options))["csv"]
    rows, reasons = decode(csv, b"y;", b'y;""')
    assert (rows[0], reasons[0]) == ({"y": "y", "x": None}, None)
    if row.declared == "json":
        assert rows[1] == {"y": "y", "x": '""'}
    else:
        assert str(reasons[1]).startswith("field 'x': got \"\", want ")


@pytest.mark.parametrize("row", CSV_ROWS, ids=str)
def test_a_row_of_the_table_of_rows_holds(row: CsvRow) -> None:
    columns = ["a", "b", "c"]
    one = decoder({"csv": {"columns": columns, **row.options}}, dict.fromkeys(columns, TEXT))
    beside = str(row.options.get("delimiter", ",")).join("xyz").encode()
    rows, reasons = decode(one, beside, row.written, None, b"", beside)
    empty = dict.fromkeys(columns)
    assert (rows[1], reasons[1]) == (dict(zip(columns, row.cells or [None] * 3, strict=True)), row.reason or None)
    assert [rows[place] for place in (0, 2, 3, 4)] == [dict(zip(columns, "xyz", strict=True)), empty, empty, rows[0]]
    assert [reasons[place] for place in (0, 2, 3, 4)] == [None] * 4


@pytest.mark.parametrize("row", TEXT_ROWS, ids=str)
def test_a_row_of_the_table_of_patterns_holds(row: TextRow) -> None:
    format = RecordFormat.model_validate({"text": {"pattern": row.pattern}})
    one = decoder_of(format, {name: Field(type=kind or "") for name, kind in format.fields.items()})
    rows, reasons = decode(one, None, row.written, b"")
    assert (rows[1], reasons[1]) == (row.groups or dict.fromkeys(format.fields), row.reason or None)
    assert (rows[0], rows[2], reasons[0], reasons[2]) == (dict.fromkeys(format.fields),) * 2 + (None,) * 2


def test_fields_are_found_by_their_keys_in_any_order_and_other_columns_are_left_out() -> None:
    fields = {"b": Field(type="int", key="N r."), "a": TEXT, "c": Field(type="string", key="N r.")}
    rows, reasons = decode(decoder({"csv": {"columns": ["a", "x", "N r."]}}, fields), b"1,no,2", b"1,no,y,", b"1,no,y")
    assert rows[0] == {"b": 2, "a": "1", "c": "2"}
    assert reasons == [
        None,
        "got more than 3 cells: another one is behind column 'N r.', at byte 7",
        "field 'b': got \"y\", want int",
    ]
    fields = {"b": Field(type="int", key="n"), "c": Field(type="string", key="n")}
    assert decode(decoder({"text": {"pattern": "(?P<a>.)(?P<n>.)"}}, fields), b"x1")[0] == [{"b": 1, "c": "1"}]


def test_the_reason_is_the_first_fault_of_the_record() -> None:
    fields = {"b": Field(type="int"), "a": Field(type="date")}
    csv = decoder({"csv": {"columns": ["a", "b"]}}, fields)
    assert decode(csv, b"x,y")[1] == [
        "field 'a': got \"x\", want date",
    ]


def test_a_decoder_can_be_pickled() -> None:
    for format in ({"csv": {"columns": ["a"], "delimiter": "|"}}, {"text": {"pattern": "(?P<a>.*)"}}):
        one = decoder(format, {"a": Field(type="int")})
        assert decode(pickle.loads(pickle.dumps(one)), b"5", b"x") == decode(one, b"5", b"x")  # noqa: S301 (its own)
        assert decode(one, b"5")[0] == [{"a": 5}]


def test_no_records_have_columns_of_their_types() -> None:
    for format in ({"csv": {"columns": ["a"]}}, {"text": {"pattern": "(?P<a>.*)"}}):
        for records in ((), (None,), (b"",), (b"\xff",)):
            decoded = decoder(format, {"a": Field(type="struct<b: decimal(3,1)>")}).decode(
                pa.array(records, pa.binary())
            )
            kind = pa.struct([("b", pa.decimal128(3, 1))])
            assert decoded.columns["a"].equals(pa.nulls(len(records), kind))
