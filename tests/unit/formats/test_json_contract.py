"""Each row of the reference's tables of types holds, for a field and within a struct, an array and a map."""

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from docs.generate.type_contract import ROWS, Row
from hourline_core.formats.json.decoder import JsonDecoder
from hourline_core.model.fields import Field

DEPTHS: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "x": ("{type}", "{value}", lambda column: column),
    "x.m": ("struct<n: int, m: {type}>", '{{"n":1,"m":{value}}}', lambda column: column["m"]),
    "x[1]": ("array<{type}>", "[null,{value}]", lambda column: column[1]),
    "x['k']": ("map<string, {type}>", '{{"j":null,"k":{value}}}', lambda column: dict(column)["k"]),
}
"""By the path of the value: the type around the one of the row, the JSON around the value, and the way back to it."""

CASES = [(row, path) for row in ROWS for path in DEPTHS if path == "x" or not row.options]


def decode(fields: dict[str, Field], *records: bytes) -> tuple[list[dict[str, Any]], list[str | None]]:
    decoded = JsonDecoder(fields).decode(pa.array(records, pa.binary()))
    return pa.table(decoded.columns).to_pylist(), decoded.reasons.to_pylist()


@pytest.mark.parametrize(("row", "path"), CASES, ids=str)
def test_a_row_of_the_contract_holds(row: Row, path: str) -> None:
    kind, text, unwrap = DEPTHS[path]
    field = Field(type=kind.format(type=row.declared), **row.options)
    good, bad = b'{"y":"good"}', f'{{"y":"beside","x":{text.format(value=row.written)}}}'.encode()
    rows, reasons = decode({"x": field, "y": Field(type="string")}, good, bad, good)
    assert [rows[0], rows[2]] == [{"x": None, "y": "good"}] * 2
    assert [reasons[0], reasons[2]] == [None, None]
    if row.taken is None:
        assert rows[1] == {"x": None, "y": None}
        assert (reasons[1] or "").startswith(f"field '{path}': got {row.why}{row.written}, want {row.declared}")
    else:
        value = unwrap(rows[1]["x"])
        assert reasons[1] is None
        assert value == row.taken
        assert type(value) is type(row.taken)
        assert not isinstance(value, float) or math.copysign(1, value) == math.copysign(1, row.taken)


@pytest.mark.parametrize("path", DEPTHS)
def test_null_is_null_in_each_type(path: str) -> None:
    for kind in {row.declared for row in ROWS}:
        around, text, unwrap = DEPTHS[path]
        rows, reasons = decode(
            {"x": Field(type=around.format(type=kind))}, f'{{"x":{text.format(value="null")}}}'.encode()
        )
        assert reasons == [None]
        assert (unwrap(rows[0]["x"]) if path != "x" else rows[0]["x"]) is None
