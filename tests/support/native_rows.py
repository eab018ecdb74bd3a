"""A source with a field of each type that native expressions are about, and rows of edge cases."""

import itertools
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa

from hourline_core.formats.arrow_types import MOMENT
from hourline_core.model import EventTime, Field, Source
from hourline_core.model.scratch_columns import EVENT_TIME, OFFSET, OUTCOME

_TYPES = {
    "text": "string",
    "other": "string",
    "whole": "int",
    "long": "long",
    "double": "double",
    "single": "float",
    "truth": "boolean",
    "moment": "timestamp",
    "day": "date",
    "listed": "array<string>",
}
SOURCE = Source(
    name="s",
    topic="t",
    fields={name: Field(type=of) for name, of in _TYPES.items()},
    derived={"product": "double * whole", "part": "substring(text, 2, 2)"},
    event_time=EventTime(expression="moment"),
)
_SCHEMA = pa.schema(
    {
        "text": pa.string(),
        "other": pa.string(),
        "whole": pa.int32(),
        "long": pa.int64(),
        "double": pa.float64(),
        "single": pa.float32(),
        "truth": pa.bool_(),
        "moment": MOMENT,
        "day": pa.date32(),
    }
)
_EDGES: dict[str, list[Any]] = {
    "text": ["", "a", "A", "aé", "ab", "abc ", " a", "𝔘x", "e\u0301z", "10", "\0", "ß", None],
    "other": ["a", "", "b", "aé", None],
    "whole": [0, 1, -1, 2**31 - 1, -(2**31), 7, -7, None],
    "long": [0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1, 7, None],
    "double": [0.0, -0.0, 1.5, -1.0, 1e308, 5e-324, 2.0**53, 1.0, 7.0, None],
    "single": [0.0, -0.0, 0.1, -1.5, 3e38, 1e-45, None],
    "truth": [True, False, None],
    "moment": [
        datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2024, 5, 6, 7, 8, 9, 10, UTC),
        datetime(9999, 12, 31, tzinfo=UTC),
        datetime(1, 1, 2, tzinfo=UTC),
        None,
    ],
    "day": [date(1970, 1, 1), date(1600, 2, 29), None],
}


def edge_rows(number: int = 200) -> pa.Table:
    """Rows in which the edge cases of all columns meet: the fields, OFFSET, OUTCOME (accepted) and EVENT_TIME."""
    cycles = {name: itertools.cycle(values) for name, values in _EDGES.items()}
    rows = [{name: next(cycle) for name, cycle in cycles.items()} for _ in range(number)]
    table = pa.Table.from_pylist(rows, _SCHEMA)
    table = table.append_column(OFFSET, pa.array(range(number), pa.int64()))
    table = table.append_column(OUTCOME, pa.array(["accepted"] * number))
    return table.append_column(EVENT_TIME, table["moment"])
