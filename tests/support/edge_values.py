"""Values at the edges of each type, and questions about them in DuckDB's SQL, to compare two ways to read a table."""

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import strategies as st

EDGES: dict[str, list[Any]] = {
    "real": [math.nan, -math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1.7976931348623157e308, 9.0, 1.0],
    "single": [math.nan, math.inf, -0.0, 9.0, 1.0],
    "number": [-(2**63), 2**63 - 1, 2**53, 2**53 + 1, 0],
    "amount": [Decimal("12345678901234567890.12"), Decimal("12345678901234567890.13"), Decimal("-0.01"), Decimal(0)],
    "text": ["", "a", "a" * 70 + "b", "a" * 70 + "c", "\U0010ffff" * 20, "é", "z" * 64, "z" * 65],
    "flag": [False, True],
    "day": [date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31)],
    "moment": [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
        datetime(2024, 3, 1, 0, 0, 0, 999, UTC),
        datetime(2024, 3, 1, 0, 0, 0, 1_000, UTC),
    ],
}
_TYPES = {
    "real": pa.float64(),
    "single": pa.float32(),
    "number": pa.int64(),
    "amount": pa.decimal128(38, 2),
    "text": pa.string(),
    "flag": pa.bool_(),
    "day": pa.date32(),
    "moment": pa.timestamp("us", tz="UTC"),
}
SCHEMA = pa.schema(
    {
        **_TYPES,
        "pair": pa.struct({"real": pa.float64(), "deep": pa.struct({"amount": pa.decimal128(38, 2)})}),
        "many": pa.list_(pa.float64()),
    }
)


def _some(name: str) -> st.SearchStrategy[Any]:
    return st.none() | st.sampled_from(EDGES[name])


ROW = st.fixed_dictionaries(
    {
        **{name: _some(name) for name in EDGES},
        "pair": st.none()
        | st.fixed_dictionaries(
            {"real": _some("real"), "deep": st.none() | st.fixed_dictionaries({"amount": _some("amount")})}
        ),
        "many": st.none() | st.lists(_some("real"), max_size=2),
    }
)
PLACES = {**{name: name for name in EDGES}, "pair.real": "real", "pair.deep.amount": "amount", "many[1]": "real"}
"""By SQL for a value of SCHEMA, the name of its EDGES."""


_CONDITIONS = ["{} IS NULL", *(f"{{}} {op} ?" for op in ("=", "<>", "<", "<=", ">", ">="))]
_EXTREMES = ["min({})", "max({})"]


@dataclass(frozen=True)
class Question:
    """A condition on the rows of a table, or an extreme of theirs."""

    sql: str
    values: tuple[Any, ...]

    def ask(self, connection: duckdb.DuckDBPyConnection, table: str) -> str:
        """The answer as text. NaN is equal to itself, and -0.0 to 0.0."""
        answer = connection.execute(self.sql.format(table=table), self.values).fetchone()
        return str(answer).replace("-0.0,", "0.0,")


def questions(places: dict[str, str]) -> st.SearchStrategy[list[Question]]:
    """Some questions about ``places``: SQL for a value, and the name of its EDGES."""

    def about(place: str) -> st.SearchStrategy[Question]:
        conditions = st.builds(
            lambda condition, edge: Question(
                f"SELECT count(*) FROM {{table}} WHERE {condition.format(place)}", (edge,) * condition.count("?")
            ),
            st.sampled_from(_CONDITIONS),
            st.sampled_from(EDGES[places[place]]),
        )
        extremes = st.sampled_from([Question(f"SELECT {of.format(place)} FROM {{table}}", ()) for of in _EXTREMES])
        return conditions | conditions | extremes

    return st.lists(st.sampled_from([*places]).flatmap(about), min_size=5, max_size=15)
