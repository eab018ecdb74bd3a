"""Lists, structs and maps are JSON of their own over HTTP, at every depth, against plain Python over the rows."""

import csv
import io
import json
import math
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from hourline_core.sql.database import connect
from serving_layer.http.formats import rows_csv, rows_json

COLUMNS = {
    "numbers": "[1.5, 'nan'::DOUBLE, NULL, '-inf'::DOUBLE]",
    "fixed": "array_value('nan'::FLOAT, 2.5::FLOAT)",
    "struct": "{'x': 'inf'::DOUBLE, 'a ''b\"': [TIMESTAMPTZ '2024-01-01 00:00:00.5+00'], 'none': NULL::INTEGER[]}",
    "no_struct": "NULL::STRUCT(a INTEGER)",
    "map": "MAP {'k': 'nan'::DOUBLE, 'l': 2.5}",
    "map_of_bytes": "MAP {'k': ['a'::BLOB]}",
    "large": "[[9007199254740993::BIGINT, NULL]]",
    "empty": "[]::INTEGER[]",
    "no_list": "NULL::DOUBLE[]",
    "nulls": "[NULL]::STRUCT(a DOUBLE)[]",
    "dates": "[DATE '2024-01-01']",
    "decimals": "[1.25::DECIMAL(38, 2)]",
    "texts": "['x', 'null', '', '\"', NULL]",
    "deep": "{'a': [{'b': MAP {'c': [{'d': 'nan'::DOUBLE}]}}]}",
}


def as_json(value: Any, integers_as_text: bool = False) -> Any:
    plain: Any = value
    match value:
        case dict():
            plain = {key: as_json(item, integers_as_text) for key, item in value.items()}
        case list() | tuple():
            plain = [as_json(item, integers_as_text) for item in value]
        case float():
            plain = value if math.isfinite(value) else None
        case int() | Decimal() if integers_as_text:
            plain = str(value)
        case Decimal():
            plain = float(value)
        case bytes():
            plain = b64encode(value).decode()
        case datetime():
            plain = f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
        case date():
            plain = value.isoformat()
    return plain


@pytest.fixture
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with connect() as connection:
        yield connection


@pytest.mark.parametrize("name", COLUMNS)
def test_a_nested_value_is_the_same_json_in_each_format(name: str, database: duckdb.DuckDBPyConnection) -> None:
    query = f"SELECT {COLUMNS[name]} AS one, 1 AS other"
    ((value, _),) = database.execute(query).fetchall()
    rows = database.execute(query).to_arrow_table()

    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is no JSON")

    for as_text in (False, True):
        text = rows_json(database, rows, integers_as_text=as_text)
        assert json.loads(text, parse_constant=refuse) == [{"one": as_json(value, as_text), "other": 1}]
    ((cell, _),) = list(csv.reader(io.StringIO(rows_csv(database, rows).decode())))[1:]
    assert (json.loads(cell, parse_constant=refuse) if cell else None) == as_json(value)
