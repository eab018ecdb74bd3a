"""What fastavro writes is read as it was, for schemas and values of any shape."""

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.avro import decode_avro, record_schema, write_avro

Typed = tuple[Any, st.SearchStrategy[Any]]
"""A schema, and its values."""

SCALARS: list[Typed] = [
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("float", st.floats(width=32, allow_nan=False, allow_infinity=False)),
    ("double", st.floats(allow_nan=False, allow_infinity=False)),
    ("string", st.text(st.characters(exclude_categories=["Cs"]))),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3}, st.decimals(-999999, 999999, places=3)),
    ({"type": "int", "logicalType": "date"}, st.dates()),
]


def nested(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    arrays = inner.map(lambda one: ({"type": "array", "items": one[0]}, st.lists(one[1], max_size=3)))
    maps = inner.map(
        lambda one: (
            {"type": "map", "values": one[0]},
            st.dictionaries(st.text("abcé", max_size=3), one[1], max_size=3),
        )
    )
    nullable = inner.filter(lambda one: not isinstance(one[0], list)).map(
        lambda one: (["null", one[0]], st.none() | one[1])
    )
    return arrays | maps | nullable


def records(types: st.SearchStrategy[Typed]) -> st.SearchStrategy[tuple[Any, list[dict[str, Any]]]]:
    def values_of(members: list[Typed]) -> st.SearchStrategy[tuple[Any, list[dict[str, Any]]]]:
        schema = record_schema(**{f"m{place}": kind for place, (kind, _) in enumerate(members)})
        values = st.fixed_dictionaries({f"m{place}": values for place, (_, values) in enumerate(members)})
        return st.tuples(st.just(schema), st.lists(values, min_size=1, max_size=4))

    return st.lists(types, min_size=1, max_size=5).flatmap(values_of)


def plain(value: Any) -> Any:
    """``value`` with maps as sorted pairs, and with the sign of zeros."""
    match value:
        case dict():
            return sorted((name, plain(one)) for name, one in value.items())
        case list() if value and all(isinstance(one, tuple) for one in value):
            return sorted((name, plain(one)) for name, one in value)
        case list():
            return [plain(one) for one in value]
        case float():
            return (value, math.copysign(1, value))
    return value


@given(records(st.recursive(st.sampled_from(SCALARS), nested, max_leaves=4)))
def test_what_fastavro_writes_is_read_as_it_was(written: tuple[Any, list[dict[str, Any]]]) -> None:
    schema, values = written
    rows, reasons = decode_avro(schema, None, *(write_avro(schema, value) for value in values))
    assert reasons == [None] * len(values)
    for row, value in zip(rows, values, strict=True):
        assert {name: plain(one) or None for name, one in row.items()} == {
            name: plain(one) or None for name, one in value.items()
        }
