"""Rows of columns of all types that results may have, and their JSON as a sink gives it to a format."""

from datetime import UTC, date
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import strategies as st

from hourline_core.sql.literals import identifier, literal
from serving_layer.json_values import value_sql

_TEXTS = st.text(st.characters(codec="utf-8"), max_size=9)
_PLACE = {"City": pa.string(), "city_code": pa.int64()}

STRATEGIES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "boolean": (pa.bool_(), st.booleans()),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "unsigned": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "huge": (pa.decimal128(38, 0), st.decimals(min_value=-(10**37), max_value=10**37, places=0)),
    "price": (pa.decimal128(20, 4), st.decimals(min_value=-(10**15), max_value=10**15, places=4)),
    "share": (pa.decimal128(18, 18), st.decimals(min_value=Decimal("-0.9"), max_value=Decimal("0.9"), places=18)),
    "digits": (pa.decimal128(38, 38), st.decimals(min_value=Decimal("-0.9"), max_value=Decimal("0.9"), places=25)),
    "double": (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    "text": (pa.string(), _TEXTS),
    "moment": (
        pa.timestamp("us", "UTC"),
        st.datetimes(timezones=st.just(UTC)).filter(lambda one: 1900 < one.year < 2100),
    ),
    "day": (pa.date32(), st.dates(date(1900, 1, 1), date(2100, 1, 1))),
    "list": (pa.list_(pa.string()), st.lists(st.none() | st.text("ab", max_size=2), max_size=3)),
    "lists": (
        pa.list_(pa.list_(pa.int64())),
        st.lists(st.none() | st.lists(st.none() | st.integers(0, 9), max_size=2)),
    ),
    "top": (
        pa.list_(pa.struct({"value": pa.string(), "count": pa.int64()})),
        st.lists(st.fixed_dictionaries({"value": st.none() | st.text("ab"), "count": st.integers(0, 9)}), max_size=2),
    ),
    "place": (
        pa.struct({**_PLACE, "Place": pa.struct(_PLACE)}),
        st.fixed_dictionaries(
            {
                "City": st.none() | _TEXTS,
                "city_code": st.none() | st.just(0),
                "Place": st.none() | st.fixed_dictionaries({"City": _TEXTS, "city_code": st.none()}),
            }
        ),
    ),
    "map": (
        pa.map_(pa.string(), pa.float64()),
        st.dictionaries(st.text("ab"), st.none() | st.floats(-1, 1), max_size=2),
    ),
    "bytes": (pa.binary(), st.binary(max_size=5)),
}
TYPES = {name: kind for name, (kind, _) in STRATEGIES.items()}
ROWS = st.fixed_dictionaries({name: st.none() | values for name, (_, values) in STRATEGIES.items()})


def text_of(row: dict[str, Any], types: dict[str, pa.DataType] = TYPES) -> str:
    """The JSON of a row, with a ``state``."""
    parts = ", ".join(f"{literal(name)}, {value_sql(identifier(name), kind)}" for name, kind in types.items())
    _database().register("rows", pa.Table.from_pylist([row], pa.schema(types)))
    [[text]] = _database().execute(f"SELECT json_object({parts}, 'state', 'final')::VARCHAR FROM rows").fetchall()
    return str(text)


@cache
def _database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect().execute("SET TimeZone = 'UTC'")


def in_arrow(row: dict[str, Any], types: dict[str, pa.DataType] = TYPES) -> dict[str, Any]:
    """The row as Arrow has it."""
    found: dict[str, Any] = pa.Table.from_pylist([row], pa.schema(types)).to_pylist(maps_as_pydicts="strict")[0]
    return found
